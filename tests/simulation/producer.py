"""The producers of a simulated stream, with a log of what was acknowledged and of what has to become of it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any, Literal

from simulation.service import REGION, Service
from support.aggregates import User, aggregate_of, protobuf, sealed

STREAM = "s"
MOST_OPEN = 4
Kind = Literal["plain", "aggregate", "malformed"]


@dataclass(frozen=True, slots=True)
class Put:
    """A raw record that was acknowledged.

    Attributes:
        number: its sequence number.
        users: partition key and data of the user records in it, by sub-sequence number; None: it cannot be unpacked.
    """

    shard_id: str
    number: int
    arrival_ms: int
    data: bytes
    users: tuple[tuple[str, bytes], ...] | None

    def rows(self) -> list[tuple[int, int, str, bytes]]:
        """The rows that a data file has of it: number, sub-sequence number, partition key, data."""
        return [(self.number, sub, key, data) for sub, (key, data) in enumerate(self.users or ())]


class Producer:
    """Puts records, each with data of its own, and keeps the log."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.log: list[Put] = []

    def open_shards(self) -> list[dict[str, Any]]:
        """The shards that take records, as the listing describes them."""
        listed = self._service.ask("ListShards", StreamName=STREAM)["Shards"]
        return [shard for shard in listed if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]

    def put(self, shard: int, kinds: list[Kind]) -> None:
        """Put some records on the open shard of this place, counted round and round."""
        described = self.open_shards()
        hash_key = described[shard % len(described)]["HashKeyRange"]["StartingHashKey"]
        made = [_made(kind, len(self.log) + row) for row, kind in enumerate(kinds)]
        records = [
            {"PartitionKey": "k", "ExplicitHashKey": hash_key, "Data": base64.b64encode(data).decode()}
            for data, _ in made
        ]
        arrival_ms = self._service.clock.now_ms()
        reply = self._service.ask("PutRecords", StreamName=STREAM, Records=records)
        for (data, users), result in zip(made, reply["Records"], strict=True):
            put = Put(result["ShardId"], int(result["SequenceNumber"]), arrival_ms, data, users)
            self.log.append(put)

    def reshard(self, place: int, merge: bool) -> None:
        """Split the open shard of a place, or merge it with its neighbour; not beyond a handful of them."""
        shards = sorted(self.open_shards(), key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
        if merge and len(shards) > 1:
            one, other = (shards[place % (len(shards) - 1) + step]["ShardId"] for step in (0, 1))
            self._service.ask("MergeShards", StreamName=STREAM, ShardToMerge=one, AdjacentShardToMerge=other)
        elif not merge and len(shards) < MOST_OPEN:
            shard = shards[place % len(shards)]
            start, end = (int(shard["HashKeyRange"][name]) for name in ("StartingHashKey", "EndingHashKey"))
            at = {"NewStartingHashKey": str((start + end + 1) // 2)}
            self._service.ask("SplitShard", StreamName=STREAM, ShardToSplit=shard["ShardId"], **at)

    def ancestors(self, shard_id: str) -> set[str]:
        """The shards that a shard came from, and those that they came from."""
        shards = {shard.shard_id: shard for shard in self._service.account.stream(REGION, STREAM).shards}
        parents = {parent.shard_id for parent in shards[shard_id].parents}
        return parents.union(*map(self.ancestors, parents))

    def of_shard(self, shard_id: str) -> list[Put]:
        """What was put on a shard, in order."""
        return [put for put in self.log if put.shard_id == shard_id]


def _made(kind: Kind, count: int) -> tuple[bytes, tuple[tuple[str, bytes], ...] | None]:
    """A record's data, and its user records."""
    data = b"record %d" % count
    match kind:
        case "plain":
            return data, (("k", data),)
        case "aggregate":
            parts = [b"%s.%d" % (data, part) for part in range(1 + count % 3)]
            return aggregate_of(*parts, key=b"u"), tuple(("u", part) for part in parts)
        case "malformed":
            return sealed(protobuf([b"u"], [User(7, data)])), None


def lies_within(put: Put, shard: dict[str, Any]) -> bool:
    """Whether the user records of an aggregate belong to the shard that has it, by the hash of their keys."""
    keys = shard["HashKeyRange"]
    bounds = range(int(keys["StartingHashKey"]), int(keys["EndingHashKey"]) + 1)
    return all(
        int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest(), "big") in bounds
        for key, _ in put.users or ()
    )
