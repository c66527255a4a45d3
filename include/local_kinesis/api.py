"""From a request to its reply: the operation named by X-Amz-Target, or the server's own /_local/ endpoint."""

import json
import re
import sys
import traceback
from collections.abc import Callable

from local_kinesis.account import Account
from local_kinesis.arguments import Arguments
from local_kinesis.behaviour import Behaviour
from local_kinesis.clock import Clock
from local_kinesis.control import Control
from local_kinesis.errors import (
    MissingAuthenticationTokenException,
    SerializationException,
    ServiceError,
    UnknownOperationException,
)
from local_kinesis.http1 import Reply, Request
from local_kinesis.record_operations import RecordOperations
from local_kinesis.stats import Stats
from local_kinesis.stream_operations import StreamOperations

TARGET_PREFIX = "Kinesis_20131202."
CONTENT_TYPE = "application/x-amz-json-1.1"
_CREDENTIAL_SCOPE = re.compile(r"Credential=[^/,]+/\d{8}/(?P<region>[a-z0-9-]+)/kinesis/aws4_request")

Operation = Callable[[str, Arguments], bytes]


class Api:
    """All that the server answers."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.clock = Clock()
        self.account = Account(self.clock)
        self.behaviour = behaviour
        self.stats = Stats()
        streams = StreamOperations(self.account)
        records = RecordOperations(self.account, behaviour, self.stats)
        self._operations: dict[str, Operation] = {
            "CreateStream": streams.create_stream,
            "DecreaseStreamRetentionPeriod": streams.decrease_retention,
            "DeleteStream": streams.delete_stream,
            "DescribeLimits": streams.describe_limits,
            "DescribeStream": streams.describe_stream,
            "DescribeStreamSummary": streams.describe_stream_summary,
            "GetRecords": records.get_records,
            "GetShardIterator": records.get_shard_iterator,
            "IncreaseStreamRetentionPeriod": streams.increase_retention,
            "ListShards": streams.list_shards,
            "ListStreams": streams.list_streams,
            "MergeShards": streams.merge_shards,
            "PutRecord": records.put_record,
            "PutRecords": records.put_records,
            "SplitShard": streams.split_shard,
            "UpdateMaxRecordSize": streams.update_max_record_size,
            "UpdateShardCount": streams.update_shard_count,
        }
        self._control = Control(self.account, behaviour, self.stats, frozenset(self._operations))

    def answer(self, request: Request) -> Reply:
        """Answers every request, also those that make no sense."""
        try:
            match request.method, request.path:
                case "POST", "/":
                    return Reply(200, self._call(request), CONTENT_TYPE)
                case "POST", "/_local/control":
                    self._control.apply(request.body)
                    return Reply(200, b"{}", "application/json")
                case "GET", "/_local/stats":
                    return Reply(200, json.dumps(self.stats.snapshot()).encode(), "application/json")
                case _:
                    return _error(404, "UnknownOperationException", f"nothing at {request.method} {request.path}")
        except ServiceError as error:
            return _error(error.status, error.kind, str(error))
        except Exception:  # one bad call must not end the server; the service, too, answers InternalFailure then
            traceback.print_exc(file=sys.stderr)
            return _error(500, "InternalFailure", "the server failed; see its standard error")

    def _call(self, request: Request) -> bytes:
        name = request.headers.get("x-amz-target", "").removeprefix(TARGET_PREFIX)
        operation = self._operations.get(name)
        if operation is None:
            raise UnknownOperationException(f"no such operation: {name}")
        if request.headers.get("content-type", "").partition(";")[0] != CONTENT_TYPE:
            raise SerializationException(f"this server speaks {CONTENT_TYPE} only")
        scope = _CREDENTIAL_SCOPE.search(request.headers.get("authorization", ""))
        if scope is None:
            raise MissingAuthenticationTokenException("the request has no SigV4 credential scope for kinesis")
        self.stats.count_call(name)
        self.behaviour.before_call(name)
        return operation(scope["region"], Arguments.parse(request.body))


def _error(status: int, kind: str, message: str) -> Reply:
    return Reply(status, json.dumps({"__type": kind, "message": message}).encode(), CONTENT_TYPE)
