"""What can happen in a simulated world, one thing at a time, in any order."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from simulation import processes
from simulation.bucket import BUCKET_FAULTS
from simulation.machine import Machine, again, hours, indexes, many, seeds, some_kinds
from simulation.producer import Kind
from simulation.service import FAULTS
from simulation.stepped import LEDGER_FAULTS


class Chances(Machine):  # type: ignore[misc]
    """What comes by chance."""

    @rule(shard=indexes, some=some_kinds)
    def put(self, shard: int, some: list[Kind]) -> None:
        self.world.producer.put(shard, some)
        self.world.clock.advance(1)

    @rule(shard=indexes, merge=st.booleans())
    def reshard(self, shard: int, merge: bool) -> None:
        if self.world.producer.reshard(shard, merge):
            self.count("reshards")

    @rule(long=hours)
    def wait(self, long: float) -> None:
        self.world.clock.advance(long * 3600)

    @rule(back=again, kind=st.sampled_from(["run", "run", "plan", *processes.STEPS]), effects=many)
    def start(self, back: int | None, kind: str, effects: int) -> None:
        task = self.new(kind, back)
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

    @precondition(lambda self: self.world.tasks)
    @rule(task=indexes)
    def kill(self, task: int) -> None:
        self.world.kill(self.world.tasks[task % len(self.world.tasks)])

    @precondition(lambda self: not self.world.bucket and (self.world.tasks or self.world.over))
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

    @precondition(lambda self: self.world.bucket)
    @rule(later=st.integers(0, 30), fault=st.sampled_from(BUCKET_FAULTS))
    def disturb_bucket(self, later: int, fault: str) -> None:
        if self.world.bucket:
            self.world.bucket.faults.extend(["none"] * later + [fault])
