"""A ledger that was lost, or restored from an old backup, rebuilt from what the dataset tells.

What is published is adopted as committed: a file is complete, and its range can have no other. Forks, gaps and files of
others are refused. Where the dataset cannot tell, the notes say so, and the next plan finds out from the stream.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from shardlake.backfill import Backfill, Request
from shardlake.batch import Steps
from shardlake.caught_up import CaughtUp
from shardlake.errors import ConflictError
from shardlake.kinesis.failures import ShardGoneError
from shardlake.kinesis.start import Opening, opening_unseen, resolve
from shardlake.lake.home import Home, open_home
from shardlake.lake.owner import owning_ledger, refuse_other, take_over
from shardlake.ledger import NO_NOTES, Identity, LedgerRange
from shardlake.ledger.restoring import Told, lacking
from shardlake.look import side_by_side
from shardlake.names import BACKFILLS, BOUNDS, DATA, LIVE, OWNER, dataset_of
from shardlake.plan import BatchPlan, Run
from shardlake.ranges import SHARD_END, Position, SequenceRange, ShardEnd
from shardlake.rebuild_chains import (
    Chains,
    beyond,
    chains_of,
    contradictions,
    finished_unread,
    start_of,
    unfinished_before_read_ones,
    with_open_range,
)
from shardlake.rebuild_files import Plans, closed_ranges, copies_of_plans
from shardlake.shards import Shard

ALL_HASH_KEYS = ("0", str(2**128 - 1))


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a dataset tells of its pipeline.

    Attributes:
        draft: whose dataset it is.
        owner: the id of the ledger that owns it.
        shards: those that are listed, and those that are not but have files or plans.
        told: the live pipeline first, then its backfills.
        notes: what the dataset does not tell, and what is made of that.
        conflicts: what speaks against it; where there is any, nothing is restored.
    """

    draft: BatchPlan
    owner: str
    shards: tuple[Shard, ...]
    told: tuple[Told, ...]
    notes: tuple[str, ...]
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Files:
    """What the files of one namespace tell."""

    namespace: str
    home: Home
    plans: Plans
    chains: Chains
    notes: list[str]
    conflicts: list[str]


def rebuilt(steps: Steps) -> Rebuilt:
    """What the dataset of a pipeline and of its backfills tells. Nothing is written.

    Raises:
        ConfigError, UnavailableError: stream or dataset cannot be read.
        ConflictError: the dataset has no owner, or belongs to another pipeline or stream; or the ledger has closed what
            the dataset does not tell.
    """
    draft = steps.planner().draft(Run("rebuild", "rebuild"))
    owner = owning_ledger(steps.home, draft)
    listed = {shard.shard_id: shard for shard in steps.kinesis().list_shards()}
    live, *backfills = [_files(steps, draft, name) for name in (LIVE, *_begun_backfills(steps))]
    told = [_live(steps, draft, live, listed), *(each for files in backfills for each in _backfill(files))]
    conflicts = [conflict for files in (live, *backfills) for conflict in files.conflicts]
    for each in told if not conflicts else ():
        scope = (draft.pipeline, each.namespace)
        lacking(each, steps.ledger.chains(*scope), steps.ledger.ranges(*scope))
    return Rebuilt(
        draft,
        owner,
        (*listed.values(), *_unlisted(told[0], listed)),
        tuple(told),
        tuple(note for files in (live, *backfills) for note in files.notes),
        tuple(conflicts),
    )


def restore(steps: Steps, found: Rebuilt) -> None:
    """Store what a dataset tells in the ledger of `steps`, and make that the owner of the dataset.

    The ledger comes first: until it is whole, the dataset is not its. Called again after it was cut short, it goes on.

    Raises:
        ConflictError: something speaks against it, or the ledger is another pipeline's; nothing was changed.
    """
    if found.conflicts:
        raise ConflictError(f"the dataset contradicts itself: {found.conflicts[0]}", todo="Nothing was changed")
    draft = replace(found.draft, ledger_id=steps.ledger.ledger_id)
    identity = Identity(draft.pipeline, draft.stream.arn, draft.stream.created_at_ms, draft.dataset)
    stored = steps.ledger.claim(identity)
    refuse_other(asdict(stored), asdict(identity), f"the ledger knows pipeline {draft.pipeline} otherwise")
    steps.ledger.restore(draft.pipeline, found.shards, [_of_ledger(told, draft) for told in found.told])
    for told in reversed(found.told):
        take_over(_home(steps, told.namespace), draft)


def _of_ledger(told: Told, draft: BatchPlan) -> Told:
    """The same with plans of this ledger, for the dataset where it lies now."""
    dataset = dataset_of(draft.dataset, told.namespace)
    plans = [replace(plan, ledger_id=draft.ledger_id, dataset=dataset, storage=draft.storage) for plan in told.batches]
    return replace(told, batches=plans)


def _home(steps: Steps, namespace: str) -> Home:
    try:
        return open_home(dataset_of(steps.pipeline.dataset, namespace), steps.pipeline.place)
    except ValueError as exc:
        raise ConflictError(f"{BACKFILLS}/{namespace} is not of this dataset", todo="Move it away") from exc


def _begun_backfills(steps: Steps) -> Iterator[str]:
    """The backfills that a folder tells of, but for those that were killed before they had an owner."""
    for name in steps.home.names(BACKFILLS):
        home = _home(steps, name)
        if home.exists(OWNER) or home.names(DATA):
            yield name


def _files(steps: Steps, draft: BatchPlan, namespace: str) -> _Files:
    home = _home(steps, namespace)
    draft = replace(draft, namespace=namespace, dataset=dataset_of(draft.dataset, namespace))
    owning_ledger(home, draft)
    plans, unusable = copies_of_plans(home, draft)
    found = closed_ranges(home, draft, plans, time.time_ns() // 1_000_000)
    chains = chains_of(row for row in found if isinstance(row, LedgerRange))
    conflicts = [str(each) for each in found if isinstance(each, ConflictError)]
    for shard_id, chain in chains.items():
        conflicts += contradictions(chain, plans.of_shard(shard_id))
    notes = [
        f"batch {name} ({namespace}) has no usable copy of its plan: its run, cleared, plans anew" for name in unusable
    ]
    return _Files(namespace, home, plans, chains, notes, conflicts)


def _live(steps: Steps, draft: BatchPlan, files: _Files, listed: Mapping[str, Shard]) -> Told:
    """The live pipeline's chains, one for every shard that is listed or has files."""
    files.conflicts.extend(unfinished_before_read_ones(listed, files.chains))
    finished = finished_unread(listed, files.chains)
    begun = {*files.chains, *files.plans.shard_ids} - finished
    starts: dict[str, Position] = dict.fromkeys(finished, SHARD_END)
    starts |= {shard_id: start_of(files.chains.get(shard_id), files.plans.of_shard(shard_id)) for shard_id in begun}
    unread = [shard for shard_id, shard in listed.items() if shard_id not in starts]
    openings = _beginnings(steps, draft, unread)
    starts |= {shard_id: opening.position for shard_id, opening in openings.items()}
    if finished:
        files.notes.append(f"taken for finished, since shards that come after them were read: {_some(finished)}")
    if unread:
        ids = _some(shard.shard_id for shard in unread)
        files.notes.append(f"without file or plan, to be read from their oldest record that is retained: {ids}")
    empty = {shard_id: opening.caught_up for shard_id, opening in openings.items() if opening.caught_up}
    return _told(files, starts, None, empty)


def _beginnings(steps: Steps, draft: BatchPlan, shards: Sequence[Shard]) -> dict[str, Opening]:
    """Where shards are read from of which nothing is known."""
    kinesis = steps.kinesis()

    def beginning(shard: Shard) -> Opening:
        try:
            return resolve(kinesis, shard, "beginning", draft.planned_at_ms, draft.stream.retention_ms)
        except ShardGoneError:
            return opening_unseen(shard)

    return dict(zip((shard.shard_id for shard in shards), side_by_side(beginning, shards), strict=True))


def _backfill(files: _Files) -> list[Told]:
    """What is told of a backfill; nothing where it has read nothing and its bounds are not there."""
    text = files.home.read(BOUNDS)
    if text is None and not files.chains:
        what = f"backfill {files.namespace} has read nothing, and its bounds are not there"
        files.notes.append(f"{what}: open it under another id")
        return []
    if text is None:
        files.notes.append(f"the bounds of backfill {files.namespace} are not there: it ends where its files do")
    backfill = Backfill.from_text(text) if text else _as_far_as_read(files.chains)
    files.conflicts.extend(beyond(backfill.stretches, files.chains))
    starts: dict[str, Position] = {stretch.shard_id: stretch.start for stretch in backfill.stretches}
    return [_told(files, starts, backfill.to_text())]


def _as_far_as_read(chains: Chains) -> Backfill:
    first_and_last = [(chain[0].range, chain[-1].range) for _, chain in sorted(chains.items())]
    stretches = (
        SequenceRange(first.shard_id, first.start, last.through, first.anchor or last.anchor)
        for first, last in first_and_last
    )
    return Backfill(Request(shards=tuple(chains)), tuple(stretches))


def _told(
    files: _Files,
    starts: Mapping[str, Position],
    bounds: str | None,
    caught_up: Mapping[str, CaughtUp] = NO_NOTES,
) -> Told:
    ranges = {
        shard_id: with_open_range(start, files.chains.get(shard_id, ()), files.plans.of_shard(shard_id))
        for shard_id, start in starts.items()
    }
    return Told(files.namespace, starts, ranges, files.plans.plans, bounds, caught_up)


def _unlisted(live: Told, listed: Mapping[str, Shard]) -> Iterator[Shard]:
    """Shards with rows that have left the listing. What only a listing tells of them is gone: a plan may say more."""
    hash_keys = {each.shard_id: (each.starting, each.ending) for plan in live.batches for each in plan.hash_ranges}
    for shard_id, rows in live.ranges.items():
        if shard_id not in listed:
            first, last = rows[0].range.start.number, rows[-1].range.through
            ending = first if isinstance(last, ShardEnd) else last
            starting_key, ending_key = hash_keys.get(shard_id, ALL_HASH_KEYS)
            yield Shard(shard_id, (), starting_key, ending_key, first.text, ending.text, missing=1)


def _some(shard_ids: Iterable[str]) -> str:
    """The first of some shards."""
    ids = sorted(shard_ids)
    return ", ".join(ids[:8]) + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")
