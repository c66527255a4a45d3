"""A simulated world as a state machine of hypothesis: how it begins, how processes go on, how it ends."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from shardlake.errors import ConflictError
from simulation import processes
from simulation.checks import Checks
from simulation.creation import simulated
from simulation.drain import drain
from simulation.producer import Kind
from simulation.tasks import Scope, Task
from simulation.world import MAIN, World

MAX_TASKS = 4
traces: list[list[str]] = []
counts = Counter[str]()
"""What the processes of every world so far did, and how often what happened."""

many = st.integers(1, 200) | st.just(sys.maxsize)
seeds = st.integers(0, 2**16)
again = st.sampled_from([None, None, 0, 1, 2])
"""A new run, or one of the last three."""

indexes = st.integers(0, 7)
kinds: st.SearchStrategy[Kind] = st.sampled_from(["plain", "plain", "aggregate", "malformed"])
some_kinds = st.lists(kinds, min_size=1, max_size=6)
hours = st.sampled_from([0.1, 0.1, 1, 6, 23])


class Machine(RuleBasedStateMachine):
    """One world, and how its processes go on."""

    world: World
    checks: Checks

    def __init__(self) -> None:
        super().__init__()
        self.context = ExitStack()
        self.runs = 0

    @initialize(
        shards=st.integers(1, 3),
        database=st.sampled_from([False] * 9 + [True]),
        bucket=st.sampled_from([False] * 3 + [True]),
        loss=st.sampled_from(["fail", "skip"]),
        aggregates=st.sampled_from(["keep", "drop", "quarantine"]),
        range_bytes=st.sampled_from([1, 2**20, 2**20]),
        page=st.sampled_from([1, 2, None]),
        trimming=st.sampled_from(["resume", "empty-pages"]),
        history=st.lists(st.tuples(indexes, some_kinds, hours), max_size=3),
        start=st.sampled_from(["trim_horizon", "latest", "time", "at", "after"]),
    )
    def begin(
        self,
        shards: int,
        database: bool,
        bucket: bool,
        loss: str,
        aggregates: str,
        range_bytes: int,
        page: int | None,
        trimming: str,
        history: list[tuple[int, list[Kind], float]],
        start: str,
    ) -> None:
        settings = {"on_data_loss": loss, "aggregates": aggregates, "max_range_bytes": range_bytes}
        world = simulated(shards, database, bucket, max_group_ranges=2, **settings)
        self.world = self.context.enter_context(world)
        self.checks = Checks(self.world)
        behaviour = self.world.service.behaviour
        behaviour.page_limit, behaviour.retention_behaviour, behaviour.trimmed_pages = page, trimming, 12
        for place, some, long in history:
            self.world.producer.put(place, some)
            self.world.clock.advance(long * 3600)
        self.world.settings |= self._start(start)
        self.count(f"{'S3' if bucket else 'disk'} worlds")
        self.count(f"worlds that start at {start}")

    def _start(self, start: str) -> dict[str, Any]:
        """The setting of a start; those that name a record name one in the middle of what there is."""
        log = self.world.producer.log
        if start in ("trim_horizon", "latest") or not log:
            return {"start": start if start == "latest" else "trim_horizon"}
        put = log[len(log) // 2]
        if start == "time":
            return {"start": {"at_timestamp": iso(put.arrival_ms)}}
        return {"start": "latest", "shard_starts": {put.shard_id: {f"{start}_sequence_number": str(put.number)}}}

    def count(self, what: str) -> None:
        """Count what is worth a line in the summary."""
        self.world.scheduler.counts[what] += 1

    def new(self, kind: str = "run", back: int | None = None, scope: Scope = MAIN) -> Task:
        """Begin a step of a run: of a new one, or of one of the last."""
        if len(self.world.tasks) == MAX_TASKS:
            self.world.kill(self.world.tasks[0])
        if back is None and kind in ("run", "plan"):
            self.runs += 1
        return processes.step(self.world, kind, f"r{max(self.runs - (back or 0), 0)}", scope)

    def by_turns(self, seed: int) -> Callable[[], Task]:
        """One task after the other, each for a while."""
        chance = random.Random(seed)
        turns = (
            task
            for _ in itertools.count()
            for task in [chance.choice(self.world.tasks)]
            for _ in itertools.repeat(None, chance.choice([1, 5, 30, 100]))
            if task.before is not None
        )
        return turns.__next__

    def go_on_with(self, choose: Callable[[], Task], effects: int = sys.maxsize) -> None:
        """Let processes do some effects, and check after each."""
        for _ in itertools.repeat(None, effects):
            if not self.world.tasks or (task := choose()).before is None:
                return
            self.checks.after(task, self.world.go_on(task))

    def finish(self, task: Task) -> None:
        """Let a process do all that it has left to do."""
        self.go_on_with(lambda: task)

    def until(self, task: Task, *effects: str, times: int = 1) -> None:
        """Let a process go on until it stands before an effect that begins so, for the n-th time, or is over.

        Args:
            effects: words, the last followed by a space, or the beginning of a path.
        """
        while task.before is not None:
            times -= f"{task.before} ".startswith(effects)
            if not times:
                return
            self.go_on_with(lambda: task, 1)

    def whole_run(self, scope: Scope = MAIN) -> None:
        """A new run that nothing comes between. If it goes through, it has looked at each shard."""
        world, at_ms = self.world, self.world.clock.now_ms()
        disturbed = world.disturbed
        before = {shard_id: chain.position.key for shard_id, chain in world.chains(scope).items()}
        task = self.new(scope=scope)
        self.finish(task)
        assert disturbed or not isinstance(task.failure, ConflictError), f"nothing is wrong, and yet: {task.failure}"
        if not disturbed and task.failure is None:
            self.checks.of(scope).losses.looked(before, at_ms)

    def teardown(self) -> None:
        failing = sys.exc_info()[0] is not None
        try:
            if hasattr(self, "world"):
                if not failing:
                    drain(self.world, self.checks)
                    self.checks.at_the_end()
                traces.append(self.world.scheduler.trace)
                counts.update(self.world.scheduler.counts)
        finally:
            self.context.close()


def iso(at_ms: int) -> str:
    """A time as configuration and backfills have it."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")
