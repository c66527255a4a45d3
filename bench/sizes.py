"""How much a run of the bench reads: all of its sizes, in one place."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of one run.

    Attributes:
        name: what the results are called.
        repeats: how often each figure is taken; the median counts.
        record_bytes: the data of one record.
        shards: of the stream that throughput is measured on.
        shard_bytes: the data on each of its shards.
        over_shards: numbers of shards that throughput is plotted over; the data stays the same.
        peer_timeout_s: after which a peer counts as not measured.
        quota_shards, quota_bytes: a Kinesis that enforces its limits: shards, and data on each of them. The rate is
            what the second size takes longer than the first, which is more than what a shard holds for the start.
        latency_shards, latency_bytes: a Kinesis far away: shards, and data on each of them.
        aggregates: KPL aggregates of 50 user records each.
        range_bytes: sizes of a range that memory is measured over.
        planned_shards: numbers of shards that planning is measured over.
        ranges: how many the ledger plans and commits at once.
        history: how many committed ranges a full ledger holds.
        airflow_runs: how many micro-batches Airflow runs.
    """

    name: str
    repeats: int
    shards: int
    shard_bytes: int
    over_shards: tuple[int, ...]
    peer_timeout_s: float
    quota_shards: int
    quota_bytes: tuple[int, int]
    latency_shards: int
    latency_bytes: int
    aggregates: int
    range_bytes: tuple[int, ...]
    planned_shards: tuple[int, ...]
    ranges: int
    history: int
    airflow_runs: int
    record_bytes: int = 500


FULL = Sizes(
    name="full",
    repeats=3,
    shards=8,
    shard_bytes=128 * MIB,
    over_shards=(1, 4, 16, 32),
    peer_timeout_s=240,
    quota_shards=32,
    quota_bytes=(12 * MIB, 44 * MIB),
    latency_shards=256,
    latency_bytes=MIB,
    aggregates=60_000,
    range_bytes=(10 * MIB, 100 * MIB, 2048 * MIB),
    planned_shards=(100, 1000, 10_000),
    ranges=10_000,
    history=10_000_000,
    airflow_runs=3,
)

QUICK = Sizes(
    name="quick",
    repeats=1,
    shards=4,
    shard_bytes=16 * MIB,
    over_shards=(1, 4),
    peer_timeout_s=60,
    quota_shards=8,
    quota_bytes=(6 * MIB, 14 * MIB),
    latency_shards=64,
    latency_bytes=MIB // 4,
    aggregates=6_000,
    range_bytes=(10 * MIB, 50 * MIB),
    planned_shards=(50, 200),
    ranges=1_000,
    history=100_000,
    airflow_runs=1,
)
