"""Goal 8: planning many shards, each call 20 ms late."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from bench.figures import Figure, Goal
from bench.pipeline import NAME, configure
from bench.pour import payloads, pour
from bench.runs import Taken, run
from bench.setting import Bench
from bench.source import AGE_S, Source, kinesis
from local_kinesis.process import LocalKinesis

LATE_MS = 20
PAGE_RECORDS = 5
"""What the server gives on a page, so that few records are as far away as many."""

STREAM = "planned"
SHARD_RECORDS = 20
RECORD_BYTES = 20
SHARDS_OF_GOAL = 1_000
MOST_S = Goal("at most", 20)
MOST_MEMORY = Goal("at most", 500)
LINEAR = Goal("at most", 1.25)

HOW = f"`Steps.plan` of a pipeline under way, SQLite, {LATE_MS} ms a call, pages of {PAGE_RECORDS} records"


def measure(bench: Bench) -> Iterator[Figure]:
    """Behind the tip, and near it."""
    yield from _over_shards(bench, "behind the tip", _fall_behind, Goal("at most", 4))
    yield from _over_shards(bench, "near the tip", _keep_near, Goal("at most", 8))


def _over_shards(
    bench: Bench, where: str, put: Callable[[LocalKinesis, int], None], most_calls: Goal
) -> Iterator[Figure]:
    """Time over the number of shards; calls, memory and growth at the largest."""
    costs: dict[int, float] = {}
    for shards in bench.sizes.planned_shards:
        bench.say(f"  {shards} shards, {where}")
        taken, calls = _planned(bench, shards, put)
        seconds = taken.said["seconds"]
        costs[shards] = seconds / shards
        goal = MOST_S if shards == SHARDS_OF_GOAL else None
        yield Figure(8, f"planning, {where}", "s", (seconds,), HOW, goal, at=shards)
    counted = "the median of GetShardIterator and GetRecords, by the server's statistics"
    yield Figure(8, f"calls a shard, {where}", "", (calls,), counted, most_calls)
    memory = (taken.said["peak_bytes"] / 2**20,)
    yield Figure(
        8, f"memory of {shards:,} shards, {where}", "MiB", memory, "VmHWM of the planning process", MOST_MEMORY
    )
    *_, fewer, most = sorted(costs)
    grows = (costs[most] / costs[fewer],)
    yield Figure(8, f"time a shard, {where}", "times", grows, f"at {most:,} shards by {fewer:,}: 1 is linear", LINEAR)


def _planned(bench: Bench, shards: int, put: Callable[[LocalKinesis, int], None]) -> tuple[Taken, float]:
    """The second plan of a pipeline, and how many calls it made about a shard at the median."""
    with kinesis("--stream", f"{STREAM}:{shards}") as server:
        source, place = Source(server, STREAM, shards, shards * SHARD_RECORDS, RECORD_BYTES), bench.place("planner")
        _put(server, shards, SHARD_RECORDS)
        config = configure(source, place)
        _plan(config, source, place / "first")
        put(server, shards)
        server.control({"page_limit": PAGE_RECORDS, "faults": [{"kind": "delay", "ms": LATE_MS}], "reset_stats": True})
        taken = _plan(config, source, place / "second")
        counts = server.stats()["shards"][STREAM].values()
        return taken, median(each["GetShardIterator"] + each["GetRecords"] for each in counts)


def _plan(config: Path, source: Source, place: Path) -> Taken:
    return run([sys.executable, "-m", "bench.children.plan", config, NAME, str(source.shards)], source, place)


def _fall_behind(server: LocalKinesis, shards: int) -> None:
    """Records older than a range's window, and one that is new."""
    _put(server, shards, SHARD_RECORDS)
    server.control({"advance_clock_s": AGE_S})
    _put(server, shards, 1)


def _keep_near(server: LocalKinesis, shards: int) -> None:
    """Records of the last minutes, the newest a minute old: however quick the plan, every look at the tip is needed."""
    for _ in range(4):
        server.control({"advance_clock_s": 60})
        _put(server, shards, SHARD_RECORDS // 4)
    server.control({"advance_clock_s": 60})


def _put(server: LocalKinesis, shards: int, records: int) -> None:
    pour(server, STREAM, shards, records, payloads(RECORD_BYTES, SHARD_RECORDS))
