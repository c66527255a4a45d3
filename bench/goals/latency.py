"""Goal 5: a Kinesis far away, whose every reply comes 30 ms late."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures import Figure, Goal
from bench.pipeline import ingest
from bench.setting import Bench
from bench.source import filled, kinesis

LATE_MS = 30


def measure(bench: Bench) -> Iterator[Figure]:
    """The whole command, and the same with next to nothing to read."""
    sizes = bench.sizes
    with kinesis() as server:
        records = sizes.latency_bytes // sizes.record_bytes
        far = filled(server, "far", sizes.latency_shards, records, sizes.record_bytes)
        nothing = filled(server, "far-and-empty", sizes.latency_shards, 1, sizes.record_bytes)
        server.control({"faults": [{"kind": "delay", "ms": LATE_MS}]})
        walls = [
            tuple(ingest(source, bench.place("latency")).wall_s for _ in range(sizes.repeats))
            for source in (far, nothing)
        ]
    size = f"{sizes.latency_bytes / 2**20:g} MiB"
    how = f"{sizes.latency_shards} shards, {LATE_MS} ms a call: the whole of `shardlake run`, local[2]"
    yield Figure(5, f"{size} on each shard, far away", "s", walls[0], how, Goal("at most", 15))
    yield Figure(5, "one record on each shard, far away", "s", walls[1], how)
