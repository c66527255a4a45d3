"""Restoring: what a ledger lacks of what a dataset tells. What it has closed must be a beginning of that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardlake.caught_up import CaughtUp
from shardlake.errors import ConflictError
from shardlake.ledger import Chain, LedgerRange
from shardlake.plan import BatchPlan
from shardlake.ranges import Position, SequenceRange

_TODO = (
    "Likely cause: files were removed, or this ledger went on where the dataset did not. Find out what is right with"
    " `shardlake audit`; a ledger that is wrong is rebuilt in an empty database"
)


@dataclass(frozen=True, slots=True)
class Told:
    """What a dataset tells of one namespace of its pipeline.

    Attributes:
        starts: where chains begin, by shard id.
        ranges: the rows of chains, by shard id: from the start on without a gap; only the last may be planned.
        batches: the plans of runs.
        bounds: the text of the backfill; None for the live pipeline.
        caught_up: as `Ledger.record_listing`.
    """

    namespace: str
    starts: Mapping[str, Position]
    ranges: Mapping[str, Sequence[LedgerRange]]
    batches: Sequence[BatchPlan]
    bounds: str | None
    caught_up: Mapping[str, CaughtUp]

    @property
    def opened_at_ms(self) -> int:
        """About when the backfill was opened, by the service's time: when its first batch was planned, if any was."""
        return min((plan.planned_at_ms for plan in self.batches), default=0)


@dataclass(frozen=True, slots=True)
class Lack:
    """What is missing from a chain.

    Attributes:
        in_the_way: the chain's open range, where another row takes its place.
        rows: what follows the rows that stay, in order.
    """

    in_the_way: SequenceRange | None
    rows: Sequence[LedgerRange]


def lacking(told: Told, chains: Mapping[str, Chain], there: Iterable[LedgerRange]) -> list[Lack]:
    """What is missing from the chains of a namespace.

    Args:
        chains: where they stand, by shard id.
        there: their rows, each chain's in order.

    Raises:
        ConflictError: a chain has closed what the dataset does not tell, or begins elsewhere.
    """
    rows: dict[str, list[LedgerRange]] = defaultdict(list)
    for row in there:
        rows[row.range.shard_id].append(row)
    for shard_id, start in told.starts.items():
        if not rows[shard_id] and shard_id in chains and chains[shard_id].position.key != start.key:
            raise ConflictError(
                f"the ledger's chain of {shard_id} cannot be restored",
                expected=f"a beginning at {start}",
                found=chains[shard_id].position,
                todo=_TODO,
            )
    return [_lack(rows[shard_id], told.ranges.get(shard_id, ())) for shard_id in sorted({*rows, *told.ranges})]


def _lack(there: Sequence[LedgerRange], told: Sequence[LedgerRange]) -> Lack:
    closed = [row for row in there if row.state != "planned"]
    for row, other in zip(closed, [*told, *[None] * len(closed)], strict=False):
        if other is None or _facts(row) != _facts(other):
            raise ConflictError(
                f"the ledger has closed what the dataset does not tell, {row.range}",
                expected=f"{other.range} ({other.state})" if other else "nothing behind its last file",
                found=f"{row.range} ({row.state})",
                todo=_TODO,
            )
    open_, rows = there[len(closed) :], told[len(closed) :]
    if not open_ or not rows:
        return Lack(None, rows)
    if _facts(open_[0]) == _facts(rows[0]):
        return Lack(None, rows[1:])
    return Lack(open_[0].range, rows)


def _facts(row: LedgerRange) -> tuple[object, ...]:
    """What has to agree. Not the size of the file: a repair may have changed it."""
    contents = row.contents and (row.contents.rows, row.contents.checksum)
    return row.range.start.key, row.range.through.key, row.state, contents
