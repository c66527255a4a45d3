"""What chains have to be: whole, only ever growing, and parents before children."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import pairwise

from shardlake.ledger import LedgerRange
from shardlake.names import LIVE
from shardlake.ranges import SequenceRange, ShardEnd
from simulation.tasks import Scope
from simulation.world import World

Key = tuple[str, str]
"""Shard id and start."""


class Chains:
    """The rows of one scope, remembered, since closed ones must never change.

    Args:
        closed_lost: called with each new lost row.
        given_up: called with the row of a range that a person gave up.
    """

    def __init__(
        self,
        world: World,
        scope: Scope,
        closed_lost: Callable[[LedgerRange], None],
        given_up: Callable[[LedgerRange], None],
    ) -> None:
        self._world, self._scope, self._closed_lost, self._given_up = world, scope, closed_lost, given_up
        self._rows: dict[Key, LedgerRange] = {}
        self.may_go: SequenceRange | None = None

    @property
    def rows(self) -> Collection[LedgerRange]:
        """The rows as they were when last checked."""
        return self._rows.values()

    def check(self) -> dict[str, list[LedgerRange]]:
        """What holds at any time; the rows by shard."""
        by_shard: dict[str, list[LedgerRange]] = {}
        for row in self._world.rows(self._scope):
            by_shard.setdefault(row.range.shard_id, []).append(row)
        for rows in by_shard.values():
            for one, next_ in pairwise(rows):
                assert one.range.through.key == next_.range.start.key, f"{one.range} is followed by {next_.range}"
                assert one.state != "planned", f"{one.range} is open, and {next_.range} follows"
        found = {(row.range.shard_id, row.range.start.key): row for rows in by_shard.values() for row in rows}
        if self._scope[1] == LIVE:
            self._check_parents(found)
        for key, before in self._rows.items():
            self._check_row(before, found.get(key), found)
        for key in found.keys() - {key for key, row in self._rows.items() if row.state == "lost"}:
            if found[key].state == "lost":
                self._closed_lost(found[key])
        self._rows = found
        return by_shard

    def rebuilt(self) -> None:
        """The ledger is another one: what was closed is there as it was; what is new was published or planned."""
        now = {(row.range.shard_id, row.range.start.key): row for row in self._world.rows(self._scope)}
        for key, before in self._rows.items():
            if before.state != "planned":
                assert key in now, f"{before} is not rebuilt"
                assert _facts(now[key]) == _facts(before), f"{before} is rebuilt as {now[key]}"
        for key, row in now.items():
            known = key in self._rows and self._rows[key].state == row.state
            assert known or row.state != "lost", f"{row} is rebuilt, and was not lost"
        self._rows = now

    def _check_parents(self, found: dict[Key, LedgerRange]) -> None:
        new = {shard_id for shard_id, _ in found.keys() - self._rows.keys()}
        if not new:
            return
        chains, shards = self._world.chains(self._scope), self._world.ledger.store.shards(self._scope[0])
        for shard_id in new:
            for parent in shards[shard_id].parents:
                finished = parent not in chains or isinstance(chains[parent].position, ShardEnd)
                assert finished, f"{shard_id} is planned before its parent {parent} is finished"

    def _check_row(self, before: LedgerRange, now: LedgerRange | None, found: dict[Key, LedgerRange]) -> None:
        if now is before:
            return
        if before.state != "planned":
            assert now, f"{before} is gone"
            assert replace(now, closed_at_ms=None) == replace(before, closed_at_ms=None), f"{before} is {now}"
        elif now is None:
            assert before.range == self.may_go, f"{before.range} is gone"
            self.may_go = None
            self._given_up(before)
        elif now.state == "lost":
            whole = now.range.through.key >= before.range.through.key
            rest = found.get((now.range.shard_id, now.range.through.key))
            kept = rest is not None and rest.range.through == before.range.through
            assert whole or kept, f"the rest of {before.range} is gone"
            self._world.scheduler.counts["rests"] += not whole
        else:
            assert now.range == before.range, f"{before.range} has become {now.range}"


def _facts(row: LedgerRange) -> tuple[object, ...]:
    return str(row.range), row.state, row.contents
