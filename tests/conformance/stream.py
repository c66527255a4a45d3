"""The stream that a behaviour is asked of: short ways to put, read and reshard that also fit the service's pace."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.conformance.server import Decoder, Server

POLL_S = 0.25
"""Between two GetRecords calls that wait for records: the service allows 5 calls a second."""
PAGES = 100
"""No reading here takes more."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a server.

    Attributes:
        server: a Kinesis.
        client: a boto3 client of it that neither retries nor checks arguments; it decodes replies as boto3 does, or as
            the product does.
        name: the stream's.
    """

    server: Server
    client: Any
    name: str

    @classmethod
    def made(cls, server: Server, shards: int, decoder: Decoder = "botocore") -> Stream:
        """A new stream, ready for use."""
        stream = cls(server, server.client(decoder), server.new_name())
        server.patient_client().create_stream(StreamName=stream.name, ShardCount=shards, **server.settings)
        stream.wait_until_active()
        return stream

    def another(self, shards: int = 1) -> Stream:
        """A second stream."""
        return Stream.made(self.server, shards)

    def delete(self) -> None:
        """Deletes the stream, and waits until it is gone."""
        self.server.patient_client().delete_stream(StreamName=self.name)
        while self.name in self._names():
            time.sleep(self.server.pause_s)

    def _names(self) -> list[str]:
        names: list[str] = self.client.list_streams(ExclusiveStartStreamName=self.name[:-1])["StreamNames"]
        return names

    def summary(self) -> dict[str, Any]:
        """The stream without its shards."""
        found: dict[str, Any] = self.client.describe_stream_summary(StreamName=self.name)["StreamDescriptionSummary"]
        return found

    def wait_until_active(self) -> None:
        """Waits for the end of a creation or a reshard."""
        while self.summary()["StreamStatus"] != "ACTIVE":
            time.sleep(self.server.pause_s)

    def shards(self, **more: Any) -> list[dict[str, Any]]:
        """The first page of the listing."""
        found: list[dict[str, Any]] = self.client.list_shards(StreamName=self.name, **more)["Shards"]
        return found

    def ids(self, **more: Any) -> list[int]:
        """The numbers in the ids of the listed shards."""
        return [number_of(shard["ShardId"]) for shard in self.shards(**more)]

    def shard(self, number: int) -> dict[str, Any]:
        """A listed shard."""
        (found,) = [shard for shard in self.shards() if shard["ShardId"] == shard_id(number)]
        return found

    def put(self, *data: bytes, hash_key: int = 0) -> list[str]:
        """Puts records one after another on the shard of a hash key; their sequence numbers."""
        client = self.server.patient_client()
        place = {"StreamName": self.name, "PartitionKey": "k", "ExplicitHashKey": str(hash_key)}
        return [client.put_record(Data=each, **place)["SequenceNumber"] for each in data]

    def put_together(self, *data: bytes) -> None:
        """Puts records by PutRecords, again and again those that are refused."""
        waiting = [{"PartitionKey": "k", "Data": each} for each in data]
        while waiting:
            call: list[dict[str, Any]] = []
            while waiting and len(call) < 500 and sum(len(each["Data"]) for each in call) < 4 * 2**20:
                call.append(waiting.pop())
            results = self.server.patient_client().put_records(StreamName=self.name, Records=call)["Records"]
            again = [each for each, result in zip(call, results, strict=True) if "ErrorCode" in result]
            waiting += again
            if again:
                time.sleep(1)

    def iterator(self, kind: str = "TRIM_HORIZON", shard: int = 0, **more: Any) -> str:
        """A new iterator."""
        place = {"StreamName": self.name, "ShardId": shard_id(shard), "ShardIteratorType": kind}
        found: str = self.client.get_shard_iterator(**place, **more)["ShardIterator"]
        return found

    def page(self, iterator: str, **more: Any) -> dict[str, Any]:
        """One reply of GetRecords."""
        found: dict[str, Any] = self.client.get_records(ShardIterator=iterator, **more)
        return found

    def pages(self, iterator: str, records: int) -> Iterator[dict[str, Any]]:
        """Replies to the end of the shard; or, with as many records as there should be, to the first empty one.

        A record just put may be unseen for the server's `patience_s`, however it says that a reader has caught up.
        """
        found, deadline = 0, time.monotonic() + self.server.patience_s
        for _ in range(PAGES):
            page = self.page(iterator)
            yield page
            found += len(page["Records"])
            iterator = page.get("NextShardIterator", "")
            if not iterator or (not page["Records"] and (found >= records or time.monotonic() > deadline)):
                return
            if self.server.patience_s:
                time.sleep(POLL_S)

    def read(self, kind: str = "TRIM_HORIZON", shard: int = 0, *, records: int, **more: Any) -> list[bytes]:
        """The data of all records from a position on."""
        return self.read_on(self.iterator(kind, shard, **more), records)

    def read_on(self, iterator: str, records: int) -> list[bytes]:
        """The data of all records from an iterator on."""
        return [record["Data"] for page in self.pages(iterator, records) for record in page["Records"]]

    def arrival(self, shard: int = 0) -> datetime:
        """When the oldest record arrived."""
        pages = self.pages(self.iterator(shard=shard), 1)
        oldest = next(record for page in pages for record in page["Records"])
        arrived: datetime = oldest["ApproximateArrivalTimestamp"]
        return arrived

    def split(self, shard: int = 0) -> None:
        """Splits a shard in two halves."""
        keys = self.shard(shard)["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"]) + 1) // 2
        place = {"StreamName": self.name, "ShardToSplit": shard_id(shard)}
        self.client.split_shard(**place, NewStartingHashKey=str(middle))
        self.wait_until_active()

    def merge(self, shard: int = 0, adjacent: int = 1) -> None:
        """Merges two neighbours."""
        place = {"StreamName": self.name, "ShardToMerge": shard_id(shard)}
        self.client.merge_shards(**place, AdjacentShardToMerge=shard_id(adjacent))
        self.wait_until_active()


def shard_id(number: int) -> str:
    """The id of a stream's n-th shard."""
    return f"shardId-{number:012d}"


def number_of(shard: str) -> int:
    """The number in a shard's id."""
    return int(shard.removeprefix("shardId-"))
