"""The producers of a simulated stream: a log of what was acknowledged, and of what the service has let go since."""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from local_kinesis.shard import Shard
from simulation.edge import REGION
from simulation.service import Service
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
        belongs: whether all of its user records are of its shard, by the hash of their keys; a plain record always is.
    """

    shard_id: str
    number: int
    arrival_ms: int
    data: bytes
    users: tuple[tuple[str, bytes], ...] | None
    belongs: bool

    def rows(self, mode: str) -> list[tuple[int, int, str, bytes]]:
        """The rows that a data file has of it: number, sub-sequence number, partition key, data.

        Args:
            mode: what becomes of aggregates that do not belong.
        """
        users = self.users if self.belongs or mode == "keep" else ()
        return [(self.number, sub, key, data) for sub, (key, data) in enumerate(users or ())]

    def is_quarantined(self, mode: str) -> bool:
        """Whether a quarantine file has it."""
        return self.users is None or (mode == "quarantine" and not self.belongs)


class Producer:
    """Puts records, each with data of its own, and keeps the log.

    Attributes:
        log: all puts, in order.
        of_shard: the same by shard id.
        gone_at_ms: when the service let a record go, by its number.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stream = service.account.stream(REGION, STREAM)
        self.log: list[Put] = []
        self.of_shard: dict[str, list[Put]] = defaultdict(list)
        self.gone_at_ms: dict[int, int] = {}
        self._left: dict[str, int] = defaultdict(int)

    @property
    def retention_ms(self) -> int:
        """For how long the stream keeps records, now."""
        return int(self._stream.retention_hours) * 3_600_000

    def keep_for(self, hours: int) -> None:
        """Raise or lower the stream's retention."""
        change = "Increase" if hours > self._stream.retention_hours else "Decrease"
        self._service.ask(f"{change}StreamRetentionPeriod", StreamName=STREAM, RetentionPeriodHours=hours)
        self.note_what_is_gone()

    def note_what_is_gone(self) -> None:
        """Let the retention take effect, and remember what it took. To be called whenever time has passed."""
        now_ms = self._service.clock.now_ms()
        for shard in self._stream.shards:
            self._stream.trim(shard, now_ms)
            puts = self.of_shard[shard.shard_id]
            while self._left[shard.shard_id] < len(puts):
                number = puts[self._left[shard.shard_id]].number
                if shard.numbers.ordinal(str(number), shard.shard_id) > shard.trimmed_through:
                    break
                self.gone_at_ms[number] = now_ms
                self._left[shard.shard_id] += 1

    def open_shards(self) -> list[Shard]:
        """The shards that take records, in the order of their hash keys."""
        return list(self._stream.open_shards)

    def put(self, place: int, kinds: list[Kind]) -> None:
        """Put some records on the open shard of this place, counted round and round."""
        shards = self.open_shards()
        shard = shards[place % len(shards)]
        made = [_made(kind, len(self.log) + row) for row, kind in enumerate(kinds)]
        records = [
            {"PartitionKey": "k", "ExplicitHashKey": str(shard.hash_start), "Data": base64.b64encode(data).decode()}
            for data, _ in made
        ]
        arrival_ms = self._service.clock.now_ms()
        reply = self._service.ask("PutRecords", StreamName=STREAM, Records=records)
        for kind, (data, users), result in zip(kinds, made, reply["Records"], strict=True):
            belongs = kind == "plain" or _belong(users, shard)
            put = Put(result["ShardId"], int(result["SequenceNumber"]), arrival_ms, data, users, belongs)
            self.log.append(put)
            self.of_shard[put.shard_id].append(put)

    def reshard(self, place: int, merge: bool) -> bool:
        """Split the open shard of a place, or merge it with its neighbour; not beyond a handful of them."""
        shards = self.open_shards()
        if merge and len(shards) > 1:
            one, other = (shards[place % (len(shards) - 1) + step].shard_id for step in (0, 1))
            self._service.ask("MergeShards", StreamName=STREAM, ShardToMerge=one, AdjacentShardToMerge=other)
            return True
        if not merge and len(shards) < MOST_OPEN:
            shard = shards[place % len(shards)]
            at = {"NewStartingHashKey": str((shard.hash_start + shard.hash_end + 1) // 2)}
            self._service.ask("SplitShard", StreamName=STREAM, ShardToSplit=shard.shard_id, **at)
            return True
        return False

    def parents(self, shard_id: str) -> set[str]:
        """The shards that a shard came from."""
        return {parent.shard_id for parent in self._stream.shards[int(shard_id[-12:])].parents}

    def ancestors(self, shard_id: str) -> set[str]:
        """The shards that a shard came from, and those that they came from."""
        parents = self.parents(shard_id)
        return parents.union(*map(self.ancestors, parents))


def _made(kind: Kind, count: int) -> tuple[bytes, tuple[tuple[str, bytes], ...] | None]:
    """A record's data, and its user records."""
    data = b"record %d" % count
    match kind:
        case "plain":
            return data, (("k", data),)
        case "aggregate":
            parts = [b"%s.%d" % (data, part) for part in range(1 + count % 3)]
            return aggregate_of(*parts, key=b"u%d" % (count % 5)), tuple((f"u{count % 5}", part) for part in parts)
        case "malformed":
            return sealed(protobuf([b"u"], [User(7, data)])), None


def _belong(users: tuple[tuple[str, bytes], ...] | None, shard: Shard) -> bool:
    hashes = [int(hashlib.md5(key.encode(), usedforsecurity=False).hexdigest(), 16) for key, _ in users or ()]
    return all(shard.hash_start <= each <= shard.hash_end for each in hashes)
