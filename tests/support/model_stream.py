"""A stream without a server: the shards of the local Kinesis, on a clock that a test moves, behind the calls of ours.

A plan over it costs a millisecond or two: for trees and histories by the hundred.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from local_kinesis import reshard
from local_kinesis.arguments import Arguments
from local_kinesis.errors import InvalidArgumentException, ResourceNotFoundException
from local_kinesis.iterators import starting_position
from local_kinesis.listing import Listing, described
from local_kinesis.shard import Shard as LocalShard
from local_kinesis.stream import MAX_RECORD_BYTES
from local_kinesis.stream import Stream as LocalStream
from shardlake.kinesis.budget import Budget
from shardlake.kinesis.client import PLANNING_S, Kinesis, NumberIterator
from shardlake.kinesis.failures import InvalidPositionError, ShardGoneError
from shardlake.kinesis.page import Page
from shardlake.plan import Stream
from shardlake.ranges import SequenceNumber
from shardlake.shards import Shard

BEGINNING_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


class ModelStream(Kinesis):
    """The stream, and a client of it.

    Attributes:
        hidden: ids that listings leave out.
        calls: how many times something was asked for.
        put_numbers: every record ever put, by shard id.
    """

    stream_name = "model"

    def __init__(self, shards: int = 1) -> None:
        self.now_ms = BEGINNING_MS
        self.local = LocalStream("eu-west-1", self.stream_name, "PROVISIONED", shards, self.now_ms, MAX_RECORD_BYTES)
        self.budget = Budget(PLANNING_S)
        self.hidden: Collection[str] = ()
        self.calls = 0
        self.put_numbers: dict[str, list[SequenceNumber]] = {shard.shard_id: [] for shard in self.local.shards}

    def wait(self, hours: float) -> None:
        """Let time pass."""
        self.now_ms += int(hours * HOUR_MS)

    def put(self, index: int, count: int = 1) -> list[SequenceNumber]:
        """Put records on the shard of an index, which is open; each a millisecond after the one before."""
        shard, numbers = self.local.shards[index], []
        assert shard.is_open
        for _ in range(count):
            self.now_ms += 1
            numbers.append(SequenceNumber(shard.append('"k"', "eA==", 2, self.now_ms)))
        self.put_numbers.setdefault(shard.shard_id, []).extend(numbers)
        return numbers

    def split(self, index: int) -> None:
        """Split a shard in halves."""
        shard = self.local.shards[index]
        self.now_ms += 1
        reshard.split(self.local, shard, (shard.hash_start + shard.hash_end + 1) // 2, self.now_ms)

    def merge(self, index: int, adjacent: int) -> None:
        """Merge two neighbours."""
        self.now_ms += 1
        reshard.merge(self.local, self.local.shards[index], self.local.shards[adjacent], self.now_ms)

    def resize(self, target: int) -> None:
        """UpdateShardCount."""
        self.now_ms += 1
        reshard.resize(self.local, target, self.now_ms)

    def retained(self, shard_id: str) -> list[SequenceNumber]:
        """The records that a shard still has."""
        shard = self._shard(shard_id)
        return [SequenceNumber(json.loads(each)["SequenceNumber"]) for each in shard.read(0, 10**9, 10**12).fragments]

    def describe(self) -> tuple[Stream, int]:
        retention_ms = self.local.retention_hours * HOUR_MS
        found = Stream(self.stream_name, self.local.arn, self.local.created_ms, retention_ms, "eu-west-1", None)
        return found, self.now_ms

    def list_shards(self) -> list[Shard]:
        return self._kept(None)

    def shards_at_horizon(self) -> list[Shard]:
        return self._kept("AT_TRIM_HORIZON")

    def _kept(self, kind: str | None) -> list[Shard]:
        self.calls += 1
        horizon_ms = max(self.local.horizon_ms(self.now_ms), self.local.created_ms)
        listing = Listing(self.stream_name, self.local.created_ms, self.now_ms, 1000, kind, horizon_ms, "")
        kept = [shard for shard in self.local.listed(self.now_ms) if listing.keeps(shard)]
        return [_ours(shard) for shard in kept if shard.shard_id not in self.hidden]

    def iterator_at(self, shard_id: str, kind: NumberIterator, number: SequenceNumber) -> str:
        return self._position(shard_id, ShardIteratorType=kind, StartingSequenceNumber=number.text)

    def iterator_from_time(self, shard_id: str, at_ms: int) -> str:
        return self._position(shard_id, ShardIteratorType="AT_TIMESTAMP", Timestamp=at_ms // 1000)

    def iterator_at_horizon(self, shard_id: str) -> str:
        return self._position(shard_id, ShardIteratorType="TRIM_HORIZON")

    def _position(self, shard_id: str, **position: object) -> str:
        self.calls += 1
        shard = self._shard(shard_id)
        try:
            return f"{shard.index} {starting_position(shard, Arguments(position), self.now_ms)}"
        except InvalidArgumentException as exc:
            raise InvalidPositionError(str(exc)) from exc

    def get_records(self, iterator: str, limit: int = 10_000) -> Page:
        self.calls += 1
        index, after = map(int, iterator.split())
        shard = self.local.shards[index]
        self.local.trim(shard, self.now_ms)
        page = shard.read(after, limit, 10 * 2**20)
        records = [json.loads(fragment) for fragment in page.fragments]
        ahead_ms = page.next_arrival_ms
        return Page(
            [record["SequenceNumber"] for record in records],
            [record["PartitionKey"] for record in records],
            [round(record["ApproximateArrivalTimestamp"] * 1000) for record in records],
            [b"x" for _ in records],
            None if ahead_ms is None and not shard.is_open else f"{index} {page.after}",
            0 if ahead_ms is None else max(1, self.now_ms - ahead_ms),
            self.now_ms // 1000 * 1000,
        )

    def _shard(self, shard_id: str) -> LocalShard:
        try:
            return self.local.shard(shard_id, self.now_ms)
        except ResourceNotFoundException as exc:
            raise ShardGoneError(str(exc)) from exc


def _ours(shard: LocalShard) -> Shard:
    description = described(shard)
    parents = (description.get("ParentShardId"), description.get("AdjacentParentShardId"))
    numbers = description["SequenceNumberRange"]
    return Shard(
        shard.shard_id,
        tuple(str(parent) for parent in parents if parent),
        str(shard.hash_start),
        str(shard.hash_end),
        numbers["StartingSequenceNumber"],
        numbers.get("EndingSequenceNumber"),
    )
