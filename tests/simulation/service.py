"""Kinesis at boto3's edge: calls are answered by the local Kinesis' own state machine, in this process."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ReadTimeoutError

from local_kinesis.account import Account
from local_kinesis.arguments import Arguments
from local_kinesis.behaviour import Behaviour
from local_kinesis.errors import ServiceError
from local_kinesis.limits import Limits
from local_kinesis.record_operations import RecordOperations
from local_kinesis.stats import Stats
from local_kinesis.stream_operations import StreamOperations
from simulation.clock import SimulatedClock
from simulation.edge import REGION, reply

FAULTS = (
    *("ProvisionedThroughputExceededException", "KMSThrottlingException", "InternalFailure"),
    *("lost reply", "broken reply", "empty page", *["ExpiredIteratorException"] * 3),
)
"""What can befall a call, botocore having tried again as often as it does."""


class Service:
    """The account, and what is about to befall the calls of the product.

    Args:
        effect: called before each call of the product.
    """

    def __init__(self, clock: SimulatedClock, effect: Callable[[str], None]) -> None:
        self.clock, self.behaviour, self.faults = clock, Behaviour(), deque[str]()
        self.account = Account(clock)
        self._effect = effect
        stats = Stats()
        streams, self.records = (
            StreamOperations(self.account),
            RecordOperations(self.account, self.behaviour, stats, Limits(stats)),
        )
        self._operations = {
            "DescribeStreamSummary": streams.describe_stream_summary,
            "ListShards": streams.list_shards,
            "GetShardIterator": self.records.get_shard_iterator,
            "GetRecords": self.records.get_records,
            "PutRecords": self.records.put_records,
            "SplitShard": streams.split_shard,
            "MergeShards": streams.merge_shards,
            "IncreaseStreamRetentionPeriod": streams.increase_retention,
            "DecreaseStreamRetentionPeriod": streams.decrease_retention,
        }

    def ask(self, operation: str, **request: Any) -> dict[str, Any]:
        """Carry out an operation for the simulation itself.

        Raises:
            ServiceError: it is refused.
        """
        answer: dict[str, Any] = json.loads(self._operations[operation](REGION, Arguments(request)) or b"{}")
        return answer

    def answer(self, request: AWSPreparedRequest) -> AWSResponse:
        """The reply to a call of the product's client, in place of one over the network.

        Raises:
            ReadTimeoutError: the reply is lost.
        """
        operation = request.headers["X-Amz-Target"].decode().rpartition(".")[2]
        asked = json.loads(request.body)
        self._effect(" ".join([operation, *(str(asked[name]) for name in _TELLING if name in asked)]))
        fault = self.faults.popleft() if self.faults else "none"
        if fault == "lost reply":
            raise ReadTimeoutError(endpoint_url=request.url)
        if fault == "empty page":
            self.behaviour.order_empty_pages(1)
        if fault in ("none", "empty page", "broken reply") or (
            fault == "ExpiredIteratorException" and operation != "GetRecords"
        ):
            status, body = self._reply(operation, asked)
            body = body[: len(body) // 2] if fault == "broken reply" else body
        else:
            status, body = _refusal(fault, "as the simulation wants it")
        return reply(self.clock, request, status, body, {})

    def _reply(self, operation: str, asked: dict[str, Any]) -> tuple[int, bytes]:
        try:
            return 200, self._operations[operation](REGION, Arguments(asked))
        except ServiceError as error:
            return _refusal(error.kind, str(error))


_TELLING = ("ShardId", "ShardIteratorType", "StartingSequenceNumber", "Timestamp", "Limit")
"""What of a request goes into the trace: iterators hold a digest that is another in each process."""


def _refusal(kind: str, message: str) -> tuple[int, bytes]:
    return 500 if kind == "InternalFailure" else 400, json.dumps({"__type": kind, "message": message}).encode()
