"""Goal 3: other consumers over the same streams of the same server, in the same run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from bench.figures import Figure, Goal, not_measured, ratios
from bench.leases import dynamodb
from bench.runs import BenchError, Taken, run
from bench.setting import Bench
from bench.source import Source
from bench.throughput import GB, STEADY, Throughput, throughput

PROGRAMS = Path(__file__).parents[1] / "peers"
FASTER = Goal("above", 1.0)
SLOW_START_S = 20
"""A peer that takes longer to start is measured once."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another consumer.

    Attributes:
        program: its module in `peers/`.
        lacks: what it does not do that Shardlake does.
        start_s: about how long it takes to start.
        at_home: it runs in Shardlake's own environment, by the same boto3.
    """

    name: str
    program: str
    lacks: str
    start_s: float = 5
    at_home: bool = False


AT_LEAST_ONCE = "one process; checkpoints in DynamoDB (moto's, whose CPU does not count), at least once"
OLD_SPARK = "3.3.0, the newest there is, in Spark 3.3.0, local[3]; one receiver, a second between reads of a shard"

PEERS = (
    Peer("boto3 loop + pyarrow", "boto3_loop", "two processes; no position, no commit, no exactly once", at_home=True),
    Peer("async-kinesis + pyarrow", "async_loop", "one process; data is its only column; no commit, no exactly once"),
    Peer("kcl-rs + pyarrow", "rust_kcl", AT_LEAST_ONCE, start_s=90),
    Peer("native-aws-kcl-py + pyarrow", "python_kcl", AT_LEAST_ONCE, start_s=30),
    Peer("spark-streaming-kinesis-asl", "kinesis_asl", f"{OLD_SPARK}; {AT_LEAST_ONCE}", start_s=22),
)

NOT_THERE = {
    "dlt, Kinesis source": "not in dlt's package: `dlt init` copies it from a source repository, which is no package",
    "spark-sql-kinesis-connector (awslabs)": "Maven Central has none: it is to be built from its source repository",
}
"""What could not be had as a package when this was written, and why."""


def measure(bench: Bench) -> Iterator[Figure]:
    """Every peer, and how many times as fast Shardlake is; what cannot be measured is named."""
    for peer in PEERS:
        bench.say(f"  {peer.name}")
        try:
            yield from _compared(bench, peer)
        except BenchError as exc:
            yield not_measured(3, peer.name, str(exc))
    for name, reason in NOT_THERE.items():
        yield not_measured(3, name, reason)


def _compared(bench: Bench, peer: Peer) -> Iterator[Figure]:
    """A peer's speed, and how many times that Shardlake's is.

    Raises:
        BenchError: it cannot be measured.
    """
    theirs, ours = _throughput(bench, peer), bench.ours
    yield Figure(3, peer.name, "records/s", theirs.steady_rates, f"{peer.lacks}; {theirs.steady}")
    steady = ratios(ours.steady_rates, theirs.steady_rates)
    yield Figure(3, "  Shardlake is faster by", "times", steady, theirs.steady, FASTER)
    own = f"of Shardlake (Spark from its class archive, 4 steps) {ours.start_s:.1f} s"
    whole = f"start-up counted: of the peer {theirs.start_s:.1f} s, {own}"
    yield Figure(3, "  Shardlake is faster by", "times", ratios(ours.rates, theirs.rates), whole, FASTER)
    less, cpu = "  Shardlake takes less CPU by", "CPU by data, all processes, the local Kinesis not"
    yield Figure(3, less, "times", ratios(theirs.record_us, ours.record_us), f"{cpu}; {STEADY}", FASTER)
    counted = f"{cpu}; start-up counted, and {ours.source.data_bytes / GB:.1f} GB read"
    yield Figure(3, less, "times", ratios(theirs.gb_s, ours.gb_s), counted, FASTER)


def _throughput(bench: Bench, peer: Peer) -> Throughput:
    if peer.start_s > bench.sizes.peer_timeout_s:
        raise BenchError(f"it takes some {peer.start_s:.0f} s to start, more than these sizes allow")
    streams = bench.large, bench.small, 1 if peer.start_s > SLOW_START_S else bench.sizes.repeats
    if peer.at_home:
        return throughput(partial(_read, bench, peer, Path(sys.executable), ""), *streams)
    python = bench.peers_python
    if python is None:
        raise BenchError("the peers' environment is not installed: make bench does it")
    with dynamodb(python) as lease_url:
        return throughput(partial(_read, bench, peer, python, lease_url), *streams)


def _read(bench: Bench, peer: Peer, python: Path, lease_url: str, source: Source) -> Taken:
    """One run of a peer, by a lease table of its own.

    Raises:
        BenchError: it failed, took too long, or did not write every record.
    """
    place = bench.place(peer.program)
    files = place.with_suffix(".files")
    files.mkdir()
    program, endpoint_url = PROGRAMS / f"{peer.program}.py", source.server.endpoint_url
    command: list[str | Path] = [python, program, endpoint_url, source.stream, files, str(source.records)]
    leases = {name: lease_url for name in ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_CLOUDWATCH") if lease_url}
    environment = {**leases, "LEASE_TABLE": place.name}
    taken = run(command, source, place, timeout_s=bench.sizes.peer_timeout_s, environment=environment)
    rows = sum(pq.read_metadata(file).num_rows for file in files.glob("*.parquet"))
    if rows != source.records:
        raise BenchError(f"{peer.name} wrote {rows} of {source.records} rows")
    return taken
