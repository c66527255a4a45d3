"""Goal 5: a Kinesis far away, whose every reply comes 30 ms late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, Goal
from bench.pipeline import ingest
from bench.setting import Bench
from bench.source import filled, kinesis

LATE_MS = 30


def measure(bench: Bench) -> Iterator[Figure]:
    """The Spark job, the whole command, and the same with next to nothing to read."""
    sizes = bench.sizes
    with kinesis() as server:
        records = sizes.latency_bytes // sizes.record_bytes
        far = filled(server, "far", sizes.latency_shards, records, sizes.record_bytes)
        nothing = filled(server, "far-and-empty", sizes.latency_shards, 1, sizes.record_bytes)
        server.control({"faults": [{"kind": "delay", "ms": LATE_MS}]})
        places = [[bench.place("latency") for _ in range(sizes.repeats)] for _ in (far, nothing)]
        walls = [
            tuple(ingest(source, place).wall_s for place in of_source)
            for source, of_source in zip((far, nothing), places, strict=True)
        ]
    size = f"{sizes.latency_bytes / 2**20:g} MiB"
    where = f"{sizes.latency_shards} shards, {LATE_MS} ms a call, local[2]"
    job = f"{where}: from the plan file to the report, `spark-submit` from its start on"
    jobs = tuple(map(_job_s, places[0]))
    yield Figure(5, f"{size} on each shard, far away: the job", "s", jobs, job, Goal("at most", 15))
    how = f"{where}: the whole of `shardlake run`"
    yield Figure(5, f"{size} on each shard, far away", "s", walls[0], how)
    yield Figure(5, "one record on each shard, far away", "s", walls[1], how)


def _job_s(place: Path) -> float:
    """From the moment that the only batch's plan file was written for the job to its report, seconds."""
    (report,) = (place / "lake" / "_shardlake" / "batches").glob("*/report-0000.json")
    return report.stat().st_mtime - (report.parent / "plan.json").stat().st_mtime
