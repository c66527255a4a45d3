"""Goal 2: from Kinesis to committed Parquet, beside a bare loop over the same functions, and over numbers of shards."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.figures import Figure, Goal, ratios
from bench.pipeline import ingest
from bench.runs import BenchError, Taken, run
from bench.setting import Bench
from bench.source import Source, filled, kinesis
from bench.throughput import STEADY, throughput
from shardlake.engines.spark_submit import MEMORY

SHARE = Goal("at least", 0.6)


def measure(bench: Bench) -> Iterator[Figure]:
    """The pipeline, the bare loop, and the one by the other."""
    ours = bench.ours
    bare = throughput(lambda source: bare_loop(bench, source), bench.large, bench.small, bench.sizes.repeats)
    own = f"`shardlake run`, local[2]; {STEADY}"
    yield Figure(2, "Kinesis → committed Parquet", "records/s", ours.steady_rates, own)
    yield Figure(2, "the bare loop", "records/s", bare.steady_rates, f"2 processes like Spark's, no ledger; {STEADY}")
    yield Figure(2, "of the bare loop's speed", "times", ratios(ours.steady_rates, bare.steady_rates), "by time", SHARE)
    yield Figure(2, "CPU of the pipeline", "µs/record", ours.record_us, f"JVM included, server not; {STEADY}")
    yield Figure(2, "CPU of the bare loop", "µs/record", bare.record_us, f"server not included; {STEADY}")
    by_cpu = "by CPU per record: this one decides where the server takes most of a core"
    yield Figure(2, "of the bare loop's speed", "times", ratios(bare.record_us, ours.record_us), by_cpu, SHARE)
    yield Figure(2, "the server, meanwhile", "cores", ours.server_cores, f"CPU of the local Kinesis by time; {STEADY}")
    for shards in bench.sizes.over_shards:
        bench.say(f"  {shards} shards")
        how = f"the same data on so many shards, once; {own}"
        yield Figure(2, "throughput", "records/s", over_shards(bench, shards), how, at=shards)


def bare_loop(bench: Bench, source: Source) -> Taken:
    """One run of the bare loop.

    Raises:
        BenchError: it did not write every record.
    """
    place = bench.place("bare")
    command = [sys.executable, "-m", "bench.children.bare_loop", source.server.endpoint_url, source.stream]
    taken = run([*command, str(place / "files"), *source.shard_ids], source, place, environment=MEMORY)
    if taken.said["rows"] != source.records:
        raise BenchError(f"the bare loop wrote {taken.said['rows']} of {source.records} rows")
    return taken


def over_shards(bench: Bench, shards: int) -> tuple[float, ...]:
    """Records a second of the pipeline with the data of the large stream on another number of shards."""
    sizes = bench.sizes
    with kinesis() as server:
        shard_records = sizes.shards * sizes.shard_bytes // sizes.record_bytes // shards
        large = filled(server, "large", shards, shard_records, sizes.record_bytes)
        small = filled(server, "small", shards, 1, sizes.record_bytes)
        taken = throughput(lambda source: ingest(source, bench.place("shards")), large, small, 1)
    return taken.steady_rates
