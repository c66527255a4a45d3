"""What people do in a simulated world: they give up, repair, rebuild, backfill, and change settings."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from shardlake.backfill import Request
from shardlake.names import CONTROL, LIVE, LOST, OWNER, FileKey
from shardlake.ranges import SequenceRange
from simulation import processes
from simulation.chances import Chances
from simulation.losses import span
from simulation.machine import indexes, iso, many, some_kinds
from simulation.producer import Kind, Put
from simulation.tasks import Scope, Task
from simulation.world import MAIN, OTHER

bounds = st.sampled_from(["none", "none", "time", "number"])


class People(Chances):  # type: ignore[misc]
    """What is done by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[str, Request] = {}
        self.lowered = False

    @precondition(lambda self: not self.world.tasks)
    @rule(place=indexes)
    def abandon(self, place: int) -> None:
        open_ranges = [chain.open_range for chain in self.world.chains().values() if chain.open_range]
        if open_ranges:
            self.give_up(open_ranges[place % len(open_ranges)])

    def give_up(self, range_: SequenceRange) -> None:
        """Abandon an open range."""
        self.checks.allow_to_go(range_)
        self.finish(processes.give_up(self.world, range_, MAIN))
        self.count("abandoned")

    @rule(shard=indexes, some=st.lists(st.just("plain"), min_size=2, max_size=4), before=st.integers(0, 60))
    def given_up_before_its_commit(self, shard: int, some: list[Kind], before: int) -> None:
        """A range is given up that is verified, planned anew, and then the old batch is committed."""
        self.world.kill_all()
        self.put(shard, some[:1])
        task = self.new()
        self.until(task, "ledger commit ")
        self.world.kill_all()
        shard_id = self.world.producer.log[-1].shard_id
        chain = self.world.chains().get(shard_id)
        if chain and chain.open_range:
            self.give_up(chain.open_range)
            self.put(shard, some[1:])
            self.start(None, "run", sys.maxsize if before > 40 else 60 + before)
            self.start(1, "commit", sys.maxsize)

    @rule(mode=st.sampled_from(["keep", "drop", "quarantine"]))
    def unpack_otherwise(self, mode: str) -> None:
        self.world.settings["aggregates"] = mode

    @rule(retention=st.sampled_from([24, 48]))
    def keep_for(self, retention: int) -> None:
        """Never raised again once it was lowered: nobody who was not there in between could see that."""
        now = self.world.producer.retention_ms // 3_600_000
        if retention < now or (retention > now and not self.lowered):
            self.world.producer.keep_for(retention)
            self.count("retention raised" if retention > now else "retention lowered")
            self.lowered = retention < now

    @rule(effects=many, shard=indexes, some=some_kinds)
    def run_other(self, effects: int, shard: int, some: list[Kind]) -> None:
        """A second pipeline reads the same stream, by the same ledger."""
        self.put(shard, some)
        task = self.new(scope=(OTHER, LIVE))
        self.go_on_with(lambda: task, effects)
        self.count("runs of a second pipeline")

    @rule(place=indexes, from_=bounds, to=bounds, effects=many)
    def backfill(self, place: int, from_: str, to: str, effects: int) -> None:
        """Open one beside the live pipeline; or go on with it, as it was asked for."""
        log = self.world.producer.log
        if not log:
            return
        first, last = log[len(log) * place // 16], log[-1 - len(log) * place // 32]
        shards = (first.shard_id,) if "number" in (from_, to) else ()
        last = next(put for put in reversed(log) if put.shard_id == first.shard_id) if shards else last
        request = Request(shards=shards, **{"from": _bound(from_, first), "to": _bound(to, last)})  # type: ignore[arg-type]
        self.requests[f"b{len(self.requests)}"] = request
        self._go_on_with_backfill(place, effects)

    @precondition(lambda self: self.requests)
    @rule(place=indexes, effects=many)
    def backfill_on(self, place: int, effects: int) -> None:
        self._go_on_with_backfill(place, effects)

    def _go_on_with_backfill(self, place: int, effects: int) -> None:
        name = [*self.requests][-1 - place % min(2, len(self.requests))]
        attempt = str(len(self.world.over) + len(self.world.tasks))
        task = processes.backfill(self.world, name, self.requests[name], attempt)
        self.go_on_with(lambda: task, effects)

    @rule(place=indexes, how=st.sampled_from(["gone", "short", "changed"]), killed=st.integers(0, 60))
    def damaged(self, place: int, how: str, killed: int) -> None:
        """A committed file is damaged, and repaired; from a backup, where the stream does not retain it any more."""
        rows = [row for row in self.world.rows() if row.state == "committed"]
        if not rows:
            return
        row, there = rows[-1 - place % len(rows)], self.world.place
        key = f"{self.world.folder(MAIN)}/{FileKey.of(row.range).path}"
        whole = there.read(key)
        harm = {"gone": None, "short": whole[: len(whole) // 2], "changed": whole[:20] + b"!" + whole[21:]}
        there.write(key, harm[how])
        self.world.calm()
        self._killed_once(lambda: processes.mend(self.world, MAIN, row.range.shard_id), killed)
        task = self._killed_once(lambda: processes.mend(self.world, MAIN, row.range.shard_id), sys.maxsize)
        self.world.failed.clear()
        if task.failure:
            gone = any(put.number in self.world.producer.gone_at_ms for put in self._puts(row.range))
            assert gone, f"{row.range} is not repaired: {task.failure}"
            there.write(key, whole)
        self.count("repairs")
        self.checks.of(MAIN).files.repaired(row)
        self.checks.after_a_step()

    def _puts(self, range_: SequenceRange) -> list[Put]:
        row = next(row for row in self.world.rows() if row.range == range_)
        return [put for put in self.world.producer.of_shard[range_.shard_id] if put.number in span(row)]

    def _killed_once(self, begin: Callable[[], Task], effects: int) -> Task:
        """A process that is killed after so many effects, if it is not over by then."""
        task = begin()
        for _ in itertools.takewhile(lambda _: task.before is not None, itertools.repeat(None, effects)):
            self.world.go_on(task)
        if task.before is not None:
            self.world.kill(task)
        return task

    @precondition(lambda self: self.world.chains())
    @rule(killed=st.integers(0, 100))
    def lose_ledger(self, killed: int) -> None:
        """The ledger is lost, and rebuilt from what the dataset tells; a loss that has no marker yet could not be."""
        self.world.kill_all()
        self.world.calm()
        scopes = [scope for scope in (MAIN, (OTHER, LIVE)) if self._is_claimed(scope)]
        if not all(map(self._has_markers, scopes)):
            return
        self.world.ledger.store = self.world.new_ledger()
        for scope in scopes:
            self._killed_once(lambda scope=scope: processes.rebuild(self.world, scope), killed)  # type: ignore[misc]
            task = self._killed_once(lambda scope=scope: processes.rebuild(self.world, scope), sys.maxsize)  # type: ignore[misc]
            assert task.failure is None, f"{scope} is not rebuilt: {task.failure}"
        self.count("rebuilt ledgers")
        self.checks.ledger_rebuilt()

    def _is_claimed(self, scope: Scope) -> bool:
        folder = self.world.folder(scope)
        return f"{folder}/{OWNER}" in self.world.place.files(f"{folder}/{CONTROL}")

    def _has_markers(self, scope: Scope) -> bool:
        folder = self.world.folder(scope)
        markers = {
            f"{folder}/{FileKey.of(row.range).lost_marker}" for row in self.world.rows(scope) if row.state == "lost"
        }
        return bool(markers <= self.world.place.files(f"{folder}/{LOST}").keys())


def _bound(kind: str, put: Put) -> str | None:
    texts: dict[str, str | None] = {"none": None, "time": iso(put.arrival_ms), "number": str(put.number)}
    return texts[kind]
