"""Goal 1: what fetching and decoding a record costs."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.figures import Figure, Goal
from bench.runs import Taken, run
from bench.setting import PAGE_RECORDS, Bench
from bench.source import Source, filled
from shardlake.engines.spark_submit import MEMORY

CLIENTS = {
    "shardlake": ("fetch + decode", Goal("at most", 2.0)),
    "boto3": ("fetch + decode, botocore's own parser", None),
}


SMALLER_BYTES = 335
"""The other size of records that earlier figures were taken with."""


def measure(bench: Bench) -> Iterator[Figure]:
    """The product's client beside boto3's; then what the server can give."""
    sizes, large = bench.sizes, bench.large
    shard_records = sizes.shard_bytes // SMALLER_BYTES
    smaller = filled(large.server, "smaller", sizes.shards, shard_records, SMALLER_BYTES)
    how = f"process time of a loop over GetRecords in one process like Spark's, {PAGE_RECORDS:,} records a page"
    for source in (large, smaller):
        for way, (what, goal) in CLIENTS.items():
            costs = tuple(1e6 * each.said["cpu_s"] / each.said["records"] for each in fetches(bench, source, way))
            of_goal = goal if source is large else None
            yield Figure(1, f"{what}, {source.record_bytes} bytes", "µs CPU/record", costs, how, of_goal)
    runs = fetches(bench, large, "raw")
    rates = tuple(each.said["records"] / each.said["wall_s"] for each in runs)
    yield Figure(1, "the server's ceiling", "records/s", rates, "one raw client that only counts what it is sent")
    costs = tuple(1e6 * each.server_cpu_s / each.said["records"] for each in runs)
    yield Figure(1, "the server's CPU", "µs CPU/record", costs, "of the local Kinesis, while the raw client reads")


def fetches(bench: Bench, source: Source, way: str) -> list[Taken]:
    """Runs over the whole of a stream; boto3's parser takes so long that it gets one shard."""
    command = [sys.executable, "-m", "bench.children.fetch", source.server.endpoint_url, source.stream, way]
    command += [str(source.record_bytes), *source.shard_ids[: 1 if way == "boto3" else None]]
    return [run(command, source, bench.place(f"fetch-{way}"), environment=MEMORY) for _ in range(bench.sizes.repeats)]
