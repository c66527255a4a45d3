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
from local_kinesis.consumer_operations import ConsumerOperations
from local_kinesis.control import Control
from local_kinesis.errors import (
    MissingAuthenticationTokenException,
    SerializationException,
    ServiceError,
    UnknownOperationException,
)
from local_kinesis.fault_kinds import Circumstances
from local_kinesis.faults import Call, Faults
from local_kinesis.http1 import Reply, Request
from local_kinesis.limits import Limits
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
        streams, consumers = StreamOperations(self.account), ConsumerOperations(self.account)
        limits, self._faults = Limits(self.stats), Faults()
        records = self._records = RecordOperations(self.account, behaviour, self.stats, limits)
        self._operations: dict[str, Operation] = {
            "CreateStream": streams.create_stream,
            "DecreaseStreamRetentionPeriod": streams.decrease_retention,
            "DeleteStream": streams.delete_stream,
            "DeregisterStreamConsumer": consumers.deregister,
            "DescribeLimits": streams.describe_limits,
            "DescribeStream": streams.describe_stream,
            "DescribeStreamSummary": streams.describe_stream_summary,
            "GetRecords": records.get_records,
            "GetShardIterator": records.get_shard_iterator,
            "IncreaseStreamRetentionPeriod": streams.increase_retention,
            "ListShards": streams.list_shards,
            "ListStreamConsumers": consumers.list,
            "ListStreams": streams.list_streams,
            "ListTagsForResource": consumers.list_tags,
            "MergeShards": streams.merge_shards,
            "PutRecord": records.put_record,
            "PutRecords": records.put_records,
            "RegisterStreamConsumer": consumers.register,
            "SplitShard": streams.split_shard,
            "UpdateMaxRecordSize": streams.update_max_record_size,
            "UpdateShardCount": streams.update_shard_count,
        }
        operations = frozenset(self._operations)
        self._control = Control(self.account, behaviour, self.stats, limits, self._faults, operations)

    def answer(self, request: Request) -> Reply:
        """Answers every request, also those that make no sense."""
        return _answered(lambda: self._route(request))

    def order(self, body: bytes) -> None:
        """Carries out what ``POST /_local/control`` would (see ``control``).

        Raises:
            ServiceError: an order is refused; none has been carried out then.
        """
        self._control.apply(body)

    def _route(self, request: Request) -> Reply:
        match request.method, request.path:
            case "POST", "/":
                return self._call(request)
            case "POST", "/_local/control":
                self.order(request.body)
                return Reply(200, b"{}", "application/json")
            case "GET", "/_local/stats":
                stats = self.stats.snapshot() | {"faults": self._faults.snapshot()}
                return Reply(200, json.dumps(stats).encode(), "application/json")
            case _:
                return _error(404, "UnknownOperationException", f"nothing at {request.method} {request.path}")

    def _call(self, request: Request) -> Reply:
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
        region, arguments = scope["region"], Arguments.parse(request.body)
        if self._faults.rules:
            call = Call.of(name, arguments)
            fault = self._faults.next(call)
            if fault is not None:
                return fault.answer(self._circumstances(call, operation, region, arguments))
        return Reply(200, operation(region, arguments), CONTENT_TYPE)

    def _circumstances(self, call: Call, operation: Operation, region: str, arguments: Arguments) -> Circumstances:
        def run() -> Reply:
            return Reply(200, operation(region, arguments), CONTENT_TYPE)

        def empty_page(behind_ms: int) -> Reply:
            return Reply(200, self._records.empty_page(region, arguments, behind_ms), CONTENT_TYPE)

        return Circumstances(call.rate_exceeded(), lambda: _answered(run), empty_page, self.clock)


def _answered(answer: Callable[[], Reply]) -> Reply:
    try:
        return answer()
    except ServiceError as error:
        return _error(error.status, error.kind, str(error))
    except Exception:  # one bad call must not end the server; the service, too, answers InternalFailure then
        traceback.print_exc(file=sys.stderr)
        return _error(500, "InternalFailure", "the server failed; see its standard error")


def _error(status: int, kind: str, message: str) -> Reply:
    return Reply(status, json.dumps({"__type": kind, "message": message}).encode(), CONTENT_TYPE)
