"""Goal 7: what a worker's memory is made of, over the size of a range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.figures import Figure, Goal
from bench.pipeline import ingest
from bench.setting import Bench
from bench.source import filled, kinesis

MIB = 2**20
MOST = Goal("at most", 300)
SHARDS = {1: "one range at once", 32: "16 ranges at once"}
"""Two workers share 32 ranges out: each reads 16 side by side, as many as `jobs/ingest.py` ever does."""

UNBOUND: dict[str, Any] = {"max_range_bytes": "8GiB", "max_window": "1h"}


def measure(bench: Bench) -> Iterator[Figure]:
    """A worker's peak with one range of every size; with 16, of the two smallest."""
    sizes = bench.sizes
    how = (
        "VmHWM of the largest Python process of `shardlake run`, looked at every 0.1 s; local[2], ranges without limits"
    )
    for shards, what in SHARDS.items():
        for size in sizes.range_bytes if shards == 1 else sizes.range_bytes[:2]:
            bench.say(f"  {what}, {size // MIB} MiB")
            with kinesis() as server:
                source = filled(server, "memory", shards, size // sizes.record_bytes, sizes.record_bytes)
                taken = ingest(source, bench.place("memory"), **UNBOUND)
            peak = (taken.python_peak_bytes / MIB,)
            yield Figure(7, f"a worker's peak, {what}", "MiB", peak, how, MOST, at=size / MIB)
