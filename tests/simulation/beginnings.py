"""Where a live pipeline has to begin, worked out from configuration and producers' log alone: what it may leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shardlake.kinesis.start import HORIZON_MARGIN_MS as MARGIN_MS
from shardlake.ledger import Chain, LedgerRange
from shardlake.ranges import SHARD_END, Position, Start
from shardlake.start_keys import AtTimestamp
from simulation.producer import Put
from simulation.tasks import Scope
from simulation.world import World

Rule = Callable[[Put], bool]


@dataclass(frozen=True, slots=True)
class Begun:
    """Where a chain begins.

    Attributes:
        at_ms: when it was first there.
        may_leave_out: which records the configuration lets it leave out; None: the shard came when the pipeline was
            under way, or the ledger was rebuilt, so it begins with its oldest record.
    """

    start: Position
    at_ms: int
    may_leave_out: Rule | None

    def is_behind(self, put: Put) -> bool:
        """Whether the chain begins behind a record."""
        return self.start is SHARD_END or put.number <= int(self.start.key)


class Beginnings:
    """Of one live pipeline's chains.

    Attributes:
        of: by shard id.
    """

    def __init__(self, world: World, scope: Scope) -> None:
        self._world, self._scope = world, scope
        self.of: dict[str, Begun] = {}
        self._rebuilt = False

    def check(self, chains: Mapping[str, Chain], by_shard: Mapping[str, list[LedgerRange]]) -> None:
        """Take note of new chains; those that are known must not have moved their beginnings."""
        now_ms = self._world.clock.now_ms()
        first = {} if self.of or not chains or self._rebuilt else self._rules(sorted(chains))
        for shard_id, chain in chains.items():
            start = by_shard[shard_id][0].range.start if shard_id in by_shard else chain.position
            if shard_id not in self.of:
                self.of[shard_id] = Begun(start, now_ms, first.get(shard_id))
            known = self.of[shard_id].start
            assert start.key == known.key, f"{shard_id} began at {known}, and now at {start}"
        if first:
            self._check_nothing_before()

    def rebuilt(self, known: set[str]) -> None:
        """The ledger was lost: chains of which nothing was known begin anew, each with its oldest record.

        Args:
            known: ids of the shards with rows, and of those that are at their end, as they were from the beginning.
        """
        self.of = {shard_id: begun for shard_id, begun in self.of.items() if shard_id in known}
        self._rebuilt = True

    def never_there(self, put: Put) -> bool:
        """Whether a record was gone before its shard's chain began."""
        begun = self.of.get(put.shard_id)
        gone_ms = self._world.producer.gone_at_ms.get(put.number)
        return gone_ms is not None and (begun is None or gone_ms <= begun.at_ms)

    def excuses(self, put: Put, lost_to_their_ends: set[str]) -> bool:
        """Whether the pipeline rightly has a record in no range.

        A shard that came later begins with its oldest record; where others were gone by then, so was a parent, whose
        loss tells of it.

        Args:
            lost_to_their_ends: ids of shards.
        """
        begun = self.of.get(put.shard_id)
        if begun and begun.may_leave_out:
            return self.never_there(put) or (begun.is_behind(put) and begun.may_leave_out(put))
        if not self.never_there(put) or (begun and not begun.is_behind(put)):
            return False
        before_first = put.arrival_ms < min((each.at_ms for each in self.of.values()), default=0)
        told = not lost_to_their_ends.isdisjoint(self._world.producer.ancestors(put.shard_id))
        return told or self._rebuilt or (begun is None and before_first)

    def _check_nothing_before(self) -> None:
        """Nothing is read that the configuration leaves out."""
        for put in self._world.producer.log:
            begun = self.of.get(put.shard_id)
            if begun and begun.may_leave_out and not begun.is_behind(put) and not self.never_there(put):
                left_out = begun.may_leave_out(put) and self._is_sure(put)
                assert not left_out, f"{put} is read, and comes before the start"

    def _is_sure(self, put: Put) -> bool:
        """Whether what may be left out must be: not near a horizon, nor while the start was being looked for."""
        pipeline = self._world.steps(self._scope).pipeline
        start = pipeline.shard_starts.get(put.shard_id, pipeline.start)
        began_before = bool(put.arrival_ms < self._world.first_started_ms[self._scope])
        return start != "trim_horizon" and (began_before or start != "latest")

    def _rules(self, shard_ids: list[str]) -> dict[str, Rule]:
        """By shard: whoever reads the end of a named parent reads its children from their beginning."""
        pipeline = self._world.steps(self._scope).pipeline
        rules: dict[str, Rule] = {}
        after: dict[str, Any] = {}
        for shard_id in shard_ids:
            named = pipeline.shard_starts.get(shard_id)
            inherited = [after[parent] for parent in self._world.producer.parents(shard_id) if parent in after]
            start: Any = named or (pipeline.start if not inherited else "beginning")
            if not named and inherited and all(isinstance(each, AtTimestamp) for each in inherited):
                start = min(inherited, key=lambda each: each.at_ms)
            rules[shard_id] = self._rule(start)
            if start != "latest" and (named or inherited):
                after[shard_id] = start if isinstance(start, AtTimestamp) else "beginning"
        return rules

    def _rule(self, start: Any) -> Rule:
        now_ms = self._world.clock.now_ms()
        lasting_from_ms = now_ms - self._world.producer.retention_ms + MARGIN_MS
        match start:
            case "latest":
                return lambda put: put.arrival_ms <= now_ms
            case "trim_horizon":
                return lambda put: put.arrival_ms < lasting_from_ms
            case "beginning":
                return lambda put: False
            case AtTimestamp():
                return lambda put: put.arrival_ms < start.at_ms
        position: Start = start.position
        return lambda put: put.number <= int(position.key)
