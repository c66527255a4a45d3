"""Goal 4: a Kinesis that enforces its limits, 2 MiB and 5 calls a second and shard."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.figures import Figure, Goal
from bench.pipeline import ingest
from bench.setting import Bench
from bench.source import Source, filled, kinesis

SHARD_BYTES_PER_S = 2 * 2**20
SERVICE_LIMITS: list[dict[str, int]] = [{}]
"""The local Kinesis' way to say: the service's own."""


def measure(bench: Bench) -> Iterator[Figure]:
    """How much of what the shards give out the pipeline takes, once it is at work."""
    sizes = bench.sizes
    with kinesis() as server:
        sources = []
        for size in sizes.quota_bytes:
            records = size // sizes.record_bytes
            sources.append(filled(server, f"quota-{size}", sizes.quota_shards, records, sizes.record_bytes))
        server.control({"limits": SERVICE_LIMITS})
        less, more = ([_seconds(bench, source) for _ in range(sizes.repeats)] for source in sources)
    further_bytes = sources[1].data_bytes - sources[0].data_bytes
    allowed = SHARD_BYTES_PER_S * sizes.quota_shards
    shares = tuple(100 * further_bytes / (seconds - median(less)) / allowed for seconds in more)
    small, large = (size // 2**20 for size in sizes.quota_bytes)
    how = (
        f"{sizes.quota_shards} shards, local[2]: what {large} MiB a shard take longer than {small} MiB,"
        f" by {allowed // 2**20} MiB/s; partition keys do not count"
    )
    yield Figure(4, "of 2 MiB/s a shard, enforced", "%", shares, how, Goal("at least", 95))
    for size, seconds in ((small, less), (large, more)):
        yield Figure(4, f"the whole run, {size} MiB a shard", "s", tuple(seconds), "`shardlake run`, start-up counted")


def _seconds(bench: Bench, source: Source) -> float:
    return ingest(source, bench.place("quota")).wall_s
