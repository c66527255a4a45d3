"""The registered consumers of a stream: made and removed at once. What they read by, SubscribeToShard, is not here."""

import json
import re
from dataclasses import dataclass
from typing import Any

from local_kinesis.account import Account
from local_kinesis.arguments import STREAM_NAME, Arguments
from local_kinesis.errors import LimitExceededException, ResourceInUseException, ResourceNotFoundException
from local_kinesis.stream import Stream

MAX_CONSUMERS = 20
_ARN = re.compile(r"(?P<stream>arn:.*:stream/[^/]*)/consumer/(?P<name>[^:]*):\d+")


@dataclass(frozen=True, slots=True)
class Consumer:
    """A registered consumer. A later one of the same name has another ARN."""

    name: str
    arn: str
    created_ms: int
    tags: dict[str, str]

    def described(self) -> dict[str, Any]:
        """As ListStreamConsumers shows it."""
        return {
            "ConsumerName": self.name,
            "ConsumerARN": self.arn,
            "ConsumerStatus": "ACTIVE",
            "ConsumerCreationTimestamp": self.created_ms / 1000,
        }


class ConsumerOperations:
    """Every operation returns the reply's body."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._consumers: dict[Stream, dict[str, Consumer]] = {}

    def register(self, region: str, arguments: Arguments) -> bytes:
        """Makes a consumer."""
        stream, name = self._stream(region, arguments.text("StreamARN")), arguments.text("ConsumerName", STREAM_NAME)
        consumers = self._consumers.setdefault(stream, {})
        if name in consumers:
            raise ResourceInUseException(f"Consumer {name} under stream {stream.name} already exists.")
        if len(consumers) >= MAX_CONSUMERS:
            raise LimitExceededException(f"Stream {stream.name} has {MAX_CONSUMERS} consumers, as many as it may have.")
        now_ms = self._account.clock.now_ms()
        tags = arguments.optional_structure("Tags") or Arguments({})
        arn = f"{stream.arn}/consumer/{name}:{now_ms // 1000}"
        consumers[name] = Consumer(name, arn, now_ms, {key: tags.text(key) for key in tags.names()})
        return json.dumps({"Consumer": consumers[name].described()}).encode()

    def list(self, region: str, arguments: Arguments) -> bytes:
        """All consumers of a stream, in one page."""
        consumers = self._consumers.get(self._stream(region, arguments.text("StreamARN")), {})
        return json.dumps({"Consumers": [each.described() for each in consumers.values()]}).encode()

    def deregister(self, region: str, arguments: Arguments) -> bytes:
        """Removes a consumer, named by its ARN."""
        stream, consumer = self._consumer(region, arguments.text("ConsumerARN"))
        del self._consumers[stream][consumer.name]
        return b""

    def list_tags(self, region: str, arguments: Arguments) -> bytes:
        """The tags of a consumer."""
        _, consumer = self._consumer(region, arguments.text("ResourceARN"))
        return json.dumps({"Tags": [{"Key": key, "Value": value} for key, value in consumer.tags.items()]}).encode()

    def _stream(self, region: str, arn: str) -> Stream:
        return self._account.stream(region, None, arn)

    def _consumer(self, region: str, arn: str) -> tuple[Stream, Consumer]:
        parts = _ARN.fullmatch(arn)
        if parts:
            stream = self._stream(region, parts["stream"])
            consumer = self._consumers.get(stream, {}).get(parts["name"])
            if consumer and consumer.arn == arn:
                return stream, consumer
        raise ResourceNotFoundException(f"Consumer {arn} not found.")
