"""What a chain of ranges means, said once for every store: pure functions over the contract's values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from shardlake.caught_up import CaughtUp
from shardlake.errors import ConflictError
from shardlake.ledger import Chain, Contents, JournalEntry, LedgerRange
from shardlake.names import LIVE
from shardlake.plan import BatchPlan
from shardlake.ranges import SHARD_END, Position, SequenceRange, ShardEnd, Start
from shardlake.shards import Shard


def position_after(closed: LedgerRange) -> Position:
    """The position behind a committed or lost range.

    The last record of a lost range is gone and cannot be the one to read first, so reading goes on `AT` the next
    number.
    """
    through = closed.range.through
    if isinstance(through, ShardEnd):
        return SHARD_END
    return Start("AT", through.plus(1)) if closed.state == "lost" else Start("AFTER", through)


def chain_of(shard_id: str, start: Position, tip: LedgerRange | None, caught_up: CaughtUp | None) -> Chain:
    """Where a chain stands, from its own start, its last range and the last note that nothing was found."""
    open_range = tip.range if tip and tip.state == "planned" else None
    if open_range:
        position: Position = open_range.start
    else:
        position = position_after(tip) if tip else start
    return Chain(shard_id, position, open_range, caught_up if caught_up and caught_up.key == position.key else None)


def is_news(chain: Chain | None, note: CaughtUp) -> bool:
    """Whether a note is about where the chain stands, and later than the one it has."""
    return (
        chain is not None
        and chain.position.key == note.key
        and (chain.caught_up is None or chain.caught_up.at_ms < note.at_ms)
    )


def choose(
    proposed: Sequence[SequenceRange], chains: Mapping[str, Chain]
) -> tuple[list[SequenceRange], list[SequenceRange]]:
    """The ranges of a batch, and those among them that are to be planned: the others are open already.

    Raises:
        ConflictError: a shard is proposed twice, or has no chain.
    """
    chosen: list[SequenceRange] = []
    new: list[SequenceRange] = []
    seen: set[str] = set()
    for range_ in proposed:
        chain = chains.get(range_.shard_id)
        if chain is None or range_.shard_id in seen:
            raise ConflictError(
                f"{range_} cannot be planned",
                expected="one range of a shard that has a chain",
                found="a shard without a chain" if chain is None else "a second range of this shard",
                todo="Run the plan step again; if this comes back, it is a bug of the planner",
            )
        seen.add(range_.shard_id)
        if chain.open_range:
            chosen.append(chain.open_range)
        elif chain.position.key == range_.start.key:
            chosen.append(range_)
            new.append(range_)
    return chosen, new


def is_open(range_: SequenceRange, chain: Chain | None) -> bool:
    """Whether `range_` is the chain's open range: the comparison of the compare-and-set."""
    return (
        chain is not None
        and chain.open_range is not None
        and chain.open_range.start.key == range_.start.key
        and chain.open_range.through.key == range_.through.key
    )


def was_seen(row: LedgerRange, seen: Mapping[SequenceRange, str] | None) -> bool:
    """Whether an open range is the one that was seen, not planned anew just as it was."""
    return seen is None or seen.get(row.range) == row.batch_id


def conflict(range_: SequenceRange, contents: Contents, row: LedgerRange | None, chain: Chain | None) -> str | None:
    """Why `range_`, which is not open as it was, cannot be committed; None: it is committed already with this checksum.

    Args:
        row: the range of the chain that starts where `range_` does.
        chain: where the chain stands.
    """
    expected: object
    found: object
    if row is None:
        expected = f"an open range that starts {range_.start}"
        found = f"the shard at {chain.position}" if chain else "no chain of this shard"
        todo = (
            "Likely cause: the range was abandoned, the plan is of another ledger, or this one was restored after the "
            "plan was made"
        )
    elif row.range.through.key != range_.through.key:
        expected, found = f"{row.range} ({row.state})", f"an end at {range_.through}"
        todo = (
            "Likely cause: the range was abandoned and planned anew, the stretch before it was declared lost, or the "
            "plan is of another ledger or was edited"
        )
    elif row.state == "planned":
        expected, found = "the range as it was when its file was looked at", f"one that batch {row.batch_id} planned"
        todo = "Likely cause: the range was abandoned and planned anew meanwhile. The next run reads it again"
    elif row.state == "lost":
        expected, found = "a range declared lost", f"a file of {contents.rows} rows"
        todo = "Likely cause: another run gave the range up (on_data_loss: skip) while this one had published it"
    elif row.contents and row.contents.checksum != contents.checksum:
        expected = f"checksum {row.contents.checksum} of {row.contents.rows} rows"
        found = f"checksum {contents.checksum} of {contents.rows} rows"
        todo = "Likely cause: the file was replaced after its commit, or two code versions read different rows"
    else:
        return None
    return str(ConflictError(f"{range_} cannot be committed", expected=expected, found=found, todo=todo))


def contents_of(plan: BatchPlan, rows: Mapping[tuple[str, str], LedgerRange]) -> dict[SequenceRange, Contents]:
    """The contents of those ranges of a plan that `rows`, by shard id and start key, hold as committed."""
    found = ((range_, rows.get((range_.shard_id, range_.start.key))) for range_ in plan.ranges)
    return {
        range_: row.contents
        for range_, row in found
        if row and row.contents and row.range.through.key == range_.through.key
    }


def check_loss(chain: Chain | None, lost: SequenceRange, rest: SequenceRange | None) -> None:
    """Check that `lost` starts at the chain's position, and `rest` where `lost` ends.

    Raises:
        ConflictError: it does not.
    """
    position = chain.position if chain else None
    if position is None or position.key != lost.start.key:
        raise ConflictError(
            f"{lost} cannot be declared lost",
            expected=f"the shard at {lost.start}",
            found=position or "no chain of this shard",
            todo="Likely cause: another run committed or gave up the range meanwhile; run the plan step again",
        )
    if rest and (rest.shard_id != lost.shard_id or rest.start.key != lost.through.key):
        raise ConflictError(
            f"{rest} does not follow what is lost", expected=f"a start at {lost.through}", found=rest.start
        )


def check_abandon(chain: Chain | None, entry: JournalEntry) -> None:
    """Check that the range of `entry` is the chain's open one, to be abandoned.

    Raises:
        ConflictError: it is not.
        ValueError: the entry tells of something else.
    """
    if entry.action != "abandon":
        raise ValueError(f"the journal would tell of a {entry.action} where a range is abandoned")
    if is_open(entry.range, chain):
        return
    found: object = "no chain of this shard"
    if chain:
        found = chain.open_range or f"no open range, the shard at {chain.position}"
    raise ConflictError(
        f"{entry.range} cannot be abandoned",
        expected="it to be the open range of its shard",
        found=found,
        todo="Likely cause: another run committed or gave up the range meanwhile, or it was abandoned before",
    )


def check_backfill(namespace: str) -> None:
    """Check that a namespace may be a backfill's.

    Raises:
        ConflictError: it is that of scheduled ingestion.
    """
    if namespace == LIVE:
        raise ConflictError(
            f"a backfill cannot be opened in namespace {LIVE}",
            expected="a namespace of its own",
            found="that of scheduled ingestion",
        )


def merge_listing(known: Mapping[str, Shard], listed: Iterable[Shard]) -> dict[str, Shard]:
    """The shards to store after one complete listing: new ones, and known ones that it changes.

    A shard's end, once seen, stays; a shard that is left out counts one more listing as `missing`.
    """
    now = {shard.shard_id: replace(shard, missing=0) for shard in listed}
    for shard_id, before in known.items():
        if shard_id in now:
            ending = before.ending_sequence_number or now[shard_id].ending_sequence_number
            now[shard_id] = replace(before, ending_sequence_number=ending, missing=0)
        else:
            now[shard_id] = replace(before, missing=before.missing + 1)
    return {shard_id: shard for shard_id, shard in now.items() if known.get(shard_id) != shard}
