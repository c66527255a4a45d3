"""Kinesis at boto3's edge: calls are answered by the local Kinesis' own state machine, in this process.

boto3's documented event `before-send` takes a reply from elsewhere than the network; all else of botocore is at work.
"""

from __future__ import annotations

import functools
import json
from collections import deque
from collections.abc import Callable, Iterator
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict
from botocore.config import Config
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

REGION = "us-east-1"
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
        reply: dict[str, Any] = json.loads(self._operations[operation](REGION, Arguments(request)) or b"{}")
        return reply

    def answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
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
            return self._sent(request, status, body[: len(body) // 2] if fault == "broken reply" else body)
        return self._sent(request, *_refusal(fault, "as the simulation wants it"))

    def _reply(self, operation: str, asked: dict[str, Any]) -> tuple[int, bytes]:
        try:
            return 200, self._operations[operation](REGION, Arguments(asked))
        except ServiceError as error:
            return _refusal(error.kind, str(error))

    def _sent(self, request: AWSPreparedRequest, status: int, body: bytes) -> AWSResponse:
        date = formatdate(self.clock.now_ms() // 1000, usegmt=True)
        return AWSResponse(request.url, status, HeadersDict({"date": date}), _Body(body))


class _Body:
    """What is left to read of a reply."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self._body


class SimulatedSession:
    """Stands in for `boto3.Session`: its clients are boto3's, but nothing of theirs reaches the network."""

    service: Service

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def client(self, name: str, **_: object) -> Any:
        """A client of Kinesis, whatever region and credentials are asked for."""
        assert name == "kinesis"
        return _Client(_client())


class _Client:
    """A client that all share, since to make one takes longer than a run; who adds a handler again adds none."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.meta = SimpleNamespace(endpoint_url="http://simulated", region_name=REGION, events=self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def register(self, event: str, handler: Callable[..., Any]) -> None:
        if (event, handler) not in _registered:
            _registered.add((event, handler))
            self._client.meta.events.register(event, handler)


_registered = set[tuple[str, Callable[..., Any]]]()
_RealSession = boto3.Session


@functools.cache
def _client() -> Any:
    config = Config(signature_version=UNSIGNED, retries={"mode": "standard", "total_max_attempts": 1})
    client = _RealSession().client("kinesis", region_name=REGION, endpoint_url="http://simulated", config=config)
    client.meta.events.register("before-send.kinesis.*", lambda **sent: SimulatedSession.service.answer(**sent))
    return client


_TELLING = ("ShardId", "ShardIteratorType", "StartingSequenceNumber", "Timestamp", "Limit")
"""What of a request goes into the trace: iterators hold a digest that is another in each process."""


def _refusal(kind: str, message: str) -> tuple[int, bytes]:
    return 500 if kind == "InternalFailure" else 400, json.dumps({"__type": kind, "message": message}).encode()
