"""Loss is told only where there is loss: each telling needs a record that was acknowledged, is in no file, and is gone.

One exception, documented: a position whose own record is gone, and behind which nobody looked within the retention.
Nothing tells whether records came and went there, so that counts as a loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from shardlake.errors import DataLossError
from shardlake.kinesis.start import HORIZON_MARGIN_MS as MARGIN_MS
from shardlake.ledger import LedgerRange
from shardlake.ranges import Position, ShardEnd, Start, Through
from simulation.tasks import Scope, Task
from simulation.world import World

END = 10**60
CLOCK_MS = 2_000
"""The service's clock shows whole seconds."""

Spans = Mapping[str, list[range]]


def span(row: LedgerRange) -> range:
    """The sequence numbers of a row."""
    return range(int(row.range.start.key) + 1, end_of(row.range.through) + 1)


def end_of(through: Through) -> int:
    """The last number that could come up to an end."""
    return END if isinstance(through, ShardEnd) else int(through)


class Losses:
    """What was told of one scope."""

    def __init__(self, world: World, scope: Scope) -> None:
        self._world, self._scope = world, scope
        self._looked: dict[str, tuple[str, int, int]] = {}
        self._phantoms: set[str] = set()

    def looked(self, before: Mapping[str, str], at_ms: int) -> None:
        """An undisturbed run looked behind these positions, by shard, and went through.

        Where a shard stands yet, nothing was there. That rules out a loss only while the position's own record was
        there as well, or somebody had looked before.
        """
        chains, shards = self._world.chains(self._scope), self._world.ledger.store.shards(self._scope[0])
        for shard_id, chain in chains.items():
            parents = [chains[parent].position for parent in shards[shard_id].parents if parent in chains]
            readable = all(isinstance(position, ShardEnd) for position in parents) and not shards[shard_id].missing
            stands = chain.open_range is None and before.get(shard_id) == chain.position.key
            if (
                readable
                and stands
                and (self._is_there(shard_id, chain.position) or self._in_time(shard_id, chain.position.key))
            ):
                self._looked[shard_id] = chain.position.key, at_ms, self._world.producer.retention_ms

    def _is_there(self, shard_id: str, position: Position) -> bool:
        """Whether a position is behind a record, which is still there."""
        if not isinstance(position, Start) or position.kind != "AFTER":
            return False
        producer, number = self._world.producer, int(position.key)
        return number not in producer.gone_at_ms and any(put.number == number for put in producer.of_shard[shard_id])

    def _in_time(self, shard_id: str, position: str) -> bool:
        """Whether somebody looked behind a position so lately that nothing that came since can be gone."""
        looked, at_ms, retention_ms = self._looked.get(shard_id, ("", 0, 0))
        horizon_ms = self._world.clock.now_ms() - min(retention_ms, self._world.producer.retention_ms)
        return looked == position and at_ms >= horizon_ms + CLOCK_MS

    def forget(self) -> None:
        """The ledger was lost, and what it knew of idle shards with it."""
        self._looked.clear()

    def check_row(self, row: LedgerRange) -> None:
        """A lost row holds nothing that lasts, and something that is gone."""
        producer, now_ms = self._world.producer, self._world.clock.now_ms()
        held = [put for put in producer.of_shard[row.range.shard_id] if put.number in span(row)]
        for put in held:
            lasts = (
                put.number not in producer.gone_at_ms and put.arrival_ms > now_ms - producer.retention_ms + MARGIN_MS
            )
            assert not lasts, f"{row.range} is declared lost, and {put} is still there"
        self._world.scheduler.counts["losses"] += 1
        if not any(put.number in producer.gone_at_ms for put in held):
            self._check_nobody_looked(row.range.shard_id, row.range.start.key, f"{row.range} is declared lost")
            self._phantoms.add(row.range.shard_id)

    def check_error(self, task: Task, committed: Iterable[LedgerRange]) -> None:
        """A process fails for a loss only if there is one: or there was when it began."""
        said = str(task.failure)
        assert isinstance(task.failure, DataLossError)
        producer, in_files = self._world.producer, self._spans(committed)
        for shard_id in set(re.findall(r"shardId-\d{12}", said)):
            position = task.began_at.get(shard_id, "0")
            gone = [put.number for put in producer.of_shard[shard_id] if put.number in producer.gone_at_ms]
            stood = END if not position.isdecimal() else int(position)
            if any(number > stood or not _within(number, in_files.get(shard_id, [])) for number in gone):
                self._world.scheduler.counts["losses told as errors"] += 1
            elif shard_id not in self._phantoms:
                self._check_nobody_looked(shard_id, position, said)

    def _spans(self, rows: Iterable[LedgerRange]) -> Spans:
        spans: dict[str, list[range]] = {}
        for row in rows:
            spans.setdefault(row.range.shard_id, []).append(span(row))
        return spans

    def _check_nobody_looked(self, shard_id: str, position: str, told: str) -> None:
        assert not self._in_time(shard_id, position), f"{told}, and nothing is lost there"
        self._world.scheduler.counts["losses that nobody can tell"] += 1


def _within(number: int, spans: Iterable[range]) -> bool:
    return any(number in each for each in spans)
