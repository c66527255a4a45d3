"""Goal 6: KPL aggregates of 50 user records each."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

from bench.figures import Figure, Goal
from bench.pipeline import ingest
from bench.pour import payloads
from bench.runs import Taken
from bench.setting import Bench
from bench.source import Source, filled, kinesis
from bench.throughput import STEADY, throughput
from shardlake.kinesis.aggregate import MAGIC
from shardlake.kinesis.aggregate_pb2 import AggregatedRecord

USERS = 50
USER_BYTES = 100
DISTINCT = 400


def measure(bench: Bench) -> Iterator[Figure]:
    """User records a second, from Kinesis to committed Parquet."""
    sizes, data = bench.sizes, aggregates()
    with kinesis() as server:
        shard_records = sizes.aggregates // sizes.shards
        large = filled(server, "aggregates", sizes.shards, shard_records, len(data[0]), data)
        small = filled(server, "an-aggregate", sizes.shards, 1, len(data[0]), data)

        def read(source: Source) -> Taken:
            return ingest(source, bench.place("aggregates"), rows=USERS * source.records)

        taken = throughput(read, large, small, sizes.repeats)
    rates = tuple(USERS * rate for rate in taken.steady_rates)
    how = f"{USERS} user records of {USER_BYTES} bytes each, `shardlake run`, local[2]; {STEADY}"
    yield Figure(6, "KPL aggregates → committed Parquet", "user records/s", rates, how, Goal("at least", 300_000))
    costs = tuple(cost / USERS for cost in taken.record_us)
    yield Figure(6, "CPU", "µs/user record", costs, f"JVM included, server not; {STEADY}")


def aggregates() -> list[bytes]:
    """Some aggregates of the same length, all different."""
    chance, users = random.Random(6), payloads(USER_BYTES, USERS * DISTINCT)  # noqa: S311 (the same every time)
    return [_aggregate(chance, users[at : at + USERS]) for at in range(0, len(users) - USERS + 1, USERS)]


def _aggregate(chance: random.Random, users: list[bytes]) -> bytes:
    message = AggregatedRecord()
    message.partition_key_table.extend(b"user-%04d" % number for number in chance.sample(range(10_000), USERS))
    for index, data in enumerate(users):
        message.records.add(partition_key_index=index, data=data)
    body: bytes = message.SerializeToString()
    return MAGIC + body + hashlib.md5(body, usedforsecurity=False).digest()
