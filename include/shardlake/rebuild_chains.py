"""From the ranges that a dataset tells of to chains: without gap or fork, and where each one goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from shardlake.ledger import LedgerRange
from shardlake.ledger.chain import position_after
from shardlake.names import FileKey
from shardlake.ranges import SHARD_END, Position, SequenceRange, Start
from shardlake.rebuild_files import Planned
from shardlake.shards import Shard

Chains = dict[str, list[LedgerRange]]
"""Rows by shard id, in order."""


def chains_of(rows: Iterable[LedgerRange]) -> Chains:
    """The rows of each shard, in order of their starts."""
    chains: Chains = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.range.shard_id, row.range.start.key, row.range.through.key)):
        chains[row.range.shard_id].append(row)
    return dict(chains)


def contradictions(chain: Sequence[LedgerRange], planned: Sequence[Planned]) -> list[str]:
    """What says that a chain is not whole: a fork, a gap, or the plan of a range that comes before its first.

    Args:
        planned: the ranges of the shard that plans have.
    """
    found = []
    for before, row in pairwise(chain):
        if row.range.start.key < before.range.through.key:
            found.append(f"{_place(before)} and {_place(row)} hold records of the same stretch")
        elif row.range.start.key > before.range.through.key:
            found.append(f"neither a file nor a marker is there for the records between {before.range} and {row.range}")
    first = chain[0].range
    early = [each for each in planned if each.range.start.key < first.start.key]
    return found + [
        f"the file of {each.range}, before {first}, is not there (batch {each.batch_id})" for each in early[:1]
    ]


def start_of(chain: Sequence[LedgerRange] | None, planned: Sequence[Planned]) -> Start:
    """Where a chain starts: with its first row, or where there is none with the first range that was planned."""
    if chain:
        return chain[0].range.start
    return min((each.range.start for each in planned), key=lambda start: start.key)


def with_open_range(start: Position, chain: Sequence[LedgerRange], planned: Sequence[Planned]) -> list[LedgerRange]:
    """The rows of a chain, and behind them the open one: the range that was planned last for its position.

    A range that was planned and given up by hand is open again: nothing but the ledger's journal told of that.

    Args:
        planned: the ranges of the shard that plans have, by the time of planning.
    """
    position = position_after(chain[-1]) if chain else start
    open_ = [each for each in planned if each.range.start.key == position.key]
    return [*chain, *(LedgerRange(each.range, "planned", each.batch_id, None, None) for each in open_[-1:])]


def beyond(stretches: Iterable[SequenceRange], chains: Chains) -> list[str]:
    """What says that the files of a backfill are not those of its stretches."""
    found, of_shards = [], {stretch.shard_id: stretch for stretch in stretches}
    for shard_id, chain in chains.items():
        stretch, first, last = of_shards.get(shard_id), chain[0].range, chain[-1].range
        if stretch is None:
            found.append(f"the backfill does not read {shard_id}, of which it has files")
        elif first.start.key != stretch.start.key or last.through.key > stretch.through.key:
            found.append(f"the backfill reads {stretch}, but has files from {first.start} through {last.through}")
    return found


def finished_unread(listed: Mapping[str, Shard], chains: Chains) -> set[str]:
    """The shards without a file that were recorded as finished when the pipeline began.

    It began behind them: a shard is read once all its known parents are finished, so one that has committed ranges
    tells of all before it.
    """
    return {shard_id for shard_id in _before_read_ones(listed, chains) if shard_id not in chains and shard_id in listed}


def unfinished_before_read_ones(listed: Mapping[str, Shard], chains: Chains) -> list[str]:
    """What says that the last files of a shard are missing: its children have been read."""
    return [
        f"a child of {shard_id} was read, but neither file nor marker is there behind {chains[shard_id][-1].range}"
        for shard_id in sorted(_before_read_ones(listed, chains))
        if shard_id in chains and position_after(chains[shard_id][-1]) is not SHARD_END
    ]


def _before_read_ones(listed: Mapping[str, Shard], chains: Chains) -> set[str]:
    """The parents of shards that have committed ranges, and theirs, as far as they are listed."""
    found: set[str] = set()
    waiting = [shard_id for shard_id, chain in chains.items() if any(row.state == "committed" for row in chain)]
    while waiting:
        shard = listed.get(waiting.pop())
        new = {*shard.parents} - found if shard else set()
        found |= new
        waiting += new
    return found


def _place(row: LedgerRange) -> str:
    key = FileKey.of(row.range)
    return key.lost_marker if row.state == "lost" else key.path
