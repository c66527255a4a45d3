"""What is asked: a Kinesis, its clients and its streams."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import ConnectionError as NoConnection
from botocore.exceptions import HTTPClientError

from shardlake.kinesis.replies import Record, decode_records

Decoder = Literal["botocore", "shardlake"]

UNANSWERED = (HTTPClientError, NoConnection)
"""What boto3 raises for a server that does not listen, hangs, or breaks off."""


class Server(ABC):
    """A Kinesis under test.

    Attributes:
        name: as on the command line.
        settings: more of what CreateStream is told.
        patience_s: how long a record that was put may stay unseen.
        pause_s: between two looks at a stream that is being made or changed.
        reply_s: what takes longer is no reply.
    """

    name: str
    settings: Mapping[str, Any] = {}
    patience_s = 0.0
    pause_s = 0.01
    reply_s = 8
    _prefix = "conformance-"

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._clients: dict[tuple[int, Decoder], Any] = {}
        self._made: list[str] = []
        self._moved = False

    @property
    @abstractmethod
    def endpoint_url(self) -> str | None:
        """Where it listens; None: where botocore says."""

    def start(self) -> None:  # noqa: B027 -- the service runs by itself
        """Starts it."""

    def stop(self) -> None:  # noqa: B027 -- the same
        """Ends it."""

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._moved = True
        self._advance(seconds)

    @abstractmethod
    def _advance(self, seconds: float) -> None: ...

    def clean(self) -> None:
        """Deletes the streams made; a server whose clock was moved, or that no longer answers, is started anew."""
        made, self._made = self._made, []
        try:
            for name in () if self._moved else made:
                self._delete(name)
        except UNANSWERED:
            self._moved = True
        if self._moved:
            self._moved = False
            self.stop()
            self._clients.clear()
            self.start()

    def _delete(self, name: str) -> None:
        client = self.patient_client()
        with suppress(client.exceptions.ResourceNotFoundException):
            client.delete_stream(StreamName=name)

    def enforce_limits(self, stream: str) -> None:  # noqa: B027 -- most do by themselves
        """Makes it refuse what is over a shard's limits, if that must be asked for."""

    def new_name(self) -> str:
        """A name for a stream."""
        name = f"{self._prefix}{next(self._numbers):03d}"
        self._made.append(name)
        return name

    def client(self, decoder: Decoder = "botocore") -> Any:
        """A boto3 client that retries nothing and leaves the checks of arguments to the server."""
        return self._client(1, decoder)

    def patient_client(self) -> Any:
        """The same for what is not the question: it retries."""
        return self._client(1 if self.endpoint_url else 10)

    def _client(self, attempts: int, decoder: Decoder = "botocore") -> Any:
        if (attempts, decoder) not in self._clients:
            client = self._clients[attempts, decoder] = self._new_client(
                Config(
                    parameter_validation=False,
                    connect_timeout=self.reply_s,
                    read_timeout=self.reply_s,
                    retries={"mode": "standard", "total_max_attempts": attempts},
                )
            )
            if decoder == "shardlake":
                decode_records(client)
                client.meta.events.register("after-call.kinesis.GetRecords", as_boto3_gives_it)
        return self._clients[attempts, decoder]

    def _new_client(self, config: Config) -> Any:
        return boto3.client(
            "kinesis",
            endpoint_url=self.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=config,
        )


def as_boto3_gives_it(parsed: dict[str, Any], **_: Any) -> None:
    """Puts a page that the product's decoder gave into boto3's words."""
    if "Records" not in parsed or not all(isinstance(each, Record) for each in parsed["Records"]):
        return
    parsed["Records"] = [
        {
            "SequenceNumber": each.sequence_number,
            "PartitionKey": each.partition_key,
            "ApproximateArrivalTimestamp": datetime.fromtimestamp(each.approximate_arrival_timestamp, tz=UTC),
            "Data": each.data,
        }
        for each in parsed["Records"]
    ]
    if parsed["NextShardIterator"] is None:
        del parsed["NextShardIterator"]
