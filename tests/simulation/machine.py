"""What can happen in a simulated world, in any order, as a state machine of hypothesis."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from contextlib import ExitStack

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from simulation.checks import Checks
from simulation.drain import drain
from simulation.producer import Kind
from simulation.service import FAULTS
from simulation.stepped import LEDGER_FAULTS
from simulation.tasks import Task
from simulation.world import STEPS, simulated

MAX_TASKS = 4
traces: list[list[str]] = []
"""What the processes of every world so far did."""

many = st.integers(1, 200) | st.just(sys.maxsize)
seeds = st.integers(0, 2**16)
again = st.sampled_from([None, None, 0, 1, 2])
"""A new run, or one of the last three."""

indexes = st.integers(0, 7)
kinds: st.SearchStrategy[Kind] = st.sampled_from(["plain", "plain", "aggregate", "malformed"])
hours = st.sampled_from([0.1, 0.1, 1, 6, 23])


class Simulation(RuleBasedStateMachine):
    """One world."""

    def __init__(self) -> None:
        super().__init__()
        self.context = ExitStack()
        self.runs = 0

    @initialize(
        shards=st.integers(1, 3),
        database=st.sampled_from([False] * 7 + [True]),
        loss=st.sampled_from(["fail", "skip"]),
        start=st.sampled_from(["trim_horizon", "latest"]),
        range_bytes=st.sampled_from([1, 2**20, 2**20]),
        page=st.sampled_from([1, 2, None]),
        trimming=st.sampled_from(["resume", "empty-pages"]),
    )
    def begin(
        self, shards: int, database: bool, loss: str, start: str, range_bytes: int, page: int | None, trimming: str
    ) -> None:
        settings = {"on_data_loss": loss, "start": start, "max_range_bytes": range_bytes, "max_group_ranges": 2}
        self.world = self.context.enter_context(simulated(shards, database, **settings))
        self.checks = Checks(self.world)
        behaviour = self.world.service.behaviour
        behaviour.page_limit, behaviour.retention_behaviour, behaviour.trimmed_pages = page, trimming, 12

    @rule(shard=indexes, some=st.lists(kinds, min_size=1, max_size=6))
    def put(self, shard: int, some: list[Kind]) -> None:
        self.world.producer.put(shard, some)
        self.world.clock.advance(1)

    @rule(shard=indexes, merge=st.booleans())
    def reshard(self, shard: int, merge: bool) -> None:
        self.world.producer.reshard(shard, merge)

    @rule(long=hours)
    def wait(self, long: float) -> None:
        self.world.clock.advance(long * 3600)

    @rule(shard=indexes, some=st.lists(kinds, min_size=1, max_size=6))
    def put_and_run(self, shard: int, some: list[Kind]) -> None:
        self.put(shard, some)
        self.start(None, "run", sys.maxsize)

    @rule(back=again, kind=st.sampled_from(["run", "run", "plan", *STEPS]), effects=many)
    def start(self, back: int | None, kind: str, effects: int) -> None:
        if len(self.world.tasks) == MAX_TASKS:
            self.world.kill(self.world.tasks[0])
        if back is None and kind in ("run", "plan"):
            self.runs += 1
        task = self.world.start(kind, f"r{max(self.runs - (back or 0), 0)}")
        self.go_on_with(lambda: task, effects)

    @precondition(lambda self: self.world.tasks)
    @rule(task=indexes, effects=many)
    def go_on(self, task: int, effects: int) -> None:
        one = self.world.tasks[task % len(self.world.tasks)]
        self.go_on_with(lambda: one, effects)

    @precondition(lambda self: len(self.world.tasks) > 1)
    @rule(seed=seeds, effects=many)
    def race(self, seed: int, effects: int) -> None:
        self.go_on_with(self.by_turns(seed), effects)

    @rule(shard=indexes, some=st.lists(kinds, min_size=2, max_size=6), back=again, seed=seeds)
    def two_at_once(self, shard: int, some: list[Kind], back: int | None, seed: int) -> None:
        self.put(shard, some[:1])
        self.start(None, "run", seed % 60)
        self.put(shard, some[1:])
        self.start(back, "run", 1)
        self.go_on_with(self.by_turns(seed), sys.maxsize)

    @rule(shard=indexes, some=st.lists(kinds, min_size=2, max_size=6), place=indexes)
    def given_up_before_its_commit(self, shard: int, some: list[Kind], place: int) -> None:
        for task in list(self.world.tasks):
            self.world.kill(task)
        self.put(shard, some[:1])
        self.start(None, "run", 1)
        for task in list(self.world.tasks):
            while task.before not in (None, "ledger commit"):
                self.checks.after(self.world.go_on(task))
            self.world.kill(task)
        self.abandon(place)
        self.put(shard, some[1:])
        self.start(None, "run", sys.maxsize)
        self.start(1, "commit", sys.maxsize)

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

    def go_on_with(self, choose: Callable[[], Task], effects: int) -> None:
        for _ in itertools.repeat(None, effects):
            if not self.world.tasks or (task := choose()).before is None:
                return
            self.checks.after(self.world.go_on(task))

    @precondition(lambda self: not self.world.tasks)
    @rule(place=indexes)
    def abandon(self, place: int) -> None:
        open_ranges = [chain.open_range for chain in self.world.chains().values() if chain.open_range]
        if open_ranges:
            given_up = open_ranges[place % len(open_ranges)]
            self.checks.allow_to_go(given_up)
            self.go_on_with(itertools.repeat(self.world.give_up(given_up)).__next__, sys.maxsize)

    @precondition(lambda self: self.world.tasks)
    @rule(task=indexes)
    def kill(self, task: int) -> None:
        self.world.kill(self.world.tasks[task % len(self.world.tasks)])

    @precondition(lambda self: self.world.tasks or self.world.over)
    @rule(seed=seeds)
    def lose_power(self, seed: int) -> None:
        self.world.lose_power(seed)
        self.checks.after_a_power_loss()

    @rule(later=st.integers(0, 60), faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3))
    def disturb_service(self, later: int, faults: list[str]) -> None:
        self.world.service.faults.extend(["none"] * later + faults)

    @rule(later=st.integers(0, 30), fault=st.sampled_from(LEDGER_FAULTS))
    def disturb_ledger(self, later: int, fault: str) -> None:
        self.world.ledger.faults.extend(["none"] * later + [fault])

    def teardown(self) -> None:
        failing = sys.exc_info()[0] is not None
        try:
            if hasattr(self, "world"):
                if not failing:
                    drain(self.world)
                    self.checks.at_the_end()
                traces.append(self.world.scheduler.trace)
        finally:
            self.context.close()
