"""The audit of a pipeline: every committed range, every file, and the chain that holds them together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import TypeVar

from shardlake.audit import Compared, RangeAuditor
from shardlake.audit_files import Finding, marker_of
from shardlake.batch import Steps
from shardlake.lake.owner import check_owner
from shardlake.ledger import Chain, Contents, LedgerRange
from shardlake.names import BOUNDS, DATA, LOST, OWNER, QUARANTINE, FileKey
from shardlake.plan import Aggregates, BatchPlan, Run
from shardlake.planning import hash_ranges
from shardlake.ranges import SequenceRange
from shardlake.shards import Shard

PLACES = (DATA, QUARANTINE, LOST)
"""Where every file belongs to a range of the ledger."""

SHARDS_AT_ONCE = 4
"""Ranges of one shard follow each other, since the service limits the reads of a shard."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Audited:
    """What was found out about a committed range, or about something else, where `contents` is None.

    Attributes:
        retained: the stream was compared too.
        lost: the range was declared lost before.
    """

    contents: Contents | None
    retained: bool
    findings: tuple[Finding, ...]
    lost: bool = False


def audit(steps: Steps) -> Iterator[Audited]:
    """Compare ledger, files and stream, a few shards side by side; memory does not grow with the number of ranges.

    Raises:
        ConfigError, UnavailableError: stream or ledger cannot be read.
        ConflictError: dataset or stream are another's.
    """
    kinesis, draft = steps.kinesis(), steps.planner().draft(Run("audit", "audit"))
    owned = check_owner(steps.home, draft)
    chains = steps.ledger.chains(draft.pipeline, draft.namespace)
    folders = [f"{place}/{name}" for place in PLACES for name in steps.home.names(place)]
    if not owned and (chains or folders):
        yield _only(Finding("missing", OWNER, "the dataset does not say whose it is"))
    stop, shards = Event(), steps.ledger.shards(draft.pipeline)
    yield from map(_only, (*_bounds(steps), *_shard_facts(shards, kinesis.list_shards() if shards else ())))
    draft = replace(draft, hash_ranges=hash_ranges(shards.values()))
    repaired, planned = repaired_ranges(steps), partial(planned_mode, steps)
    auditor = RangeAuditor(draft, steps.home, kinesis, repaired, planned, stop)
    of_shards = {folder for folder in folders if "/shard_id=" in folder}
    for other in sorted(set(folders) - of_shards):
        yield _only(Finding("stray", other, f"{other} is not of this dataset"))
    shard_ids = sorted({*chains, *(folder.partition("/shard_id=")[2] for folder in of_shards)})
    yield from _side_by_side(
        [_shard(steps, draft, auditor, chains.get(shard_id), shard_id) for shard_id in shard_ids], stop
    )


def _bounds(steps: Steps) -> Iterator[Finding]:
    """Whether the ledger has the bounds of a backfill otherwise than they were written beside its files."""
    bounds, copy = steps.ledger.backfill(steps.pipeline.name, steps.namespace), steps.home.read(BOUNDS)
    if None not in (bounds, copy) and bounds != copy:
        yield Finding("differs", BOUNDS, "the ledger has other bounds of this backfill than the copy beside its files")


def _shard_facts(shards: Mapping[str, Shard], listed: Iterable[Shard]) -> Iterator[Finding]:
    """What the ledger says of shards otherwise than the stream, of what never changes."""
    for shard in listed:
        known = shards.get(shard.shard_id, shard)
        expected = replace(
            shard,
            missing=known.missing,
            ending_sequence_number=known.ending_sequence_number and shard.ending_sequence_number,
        )
        if known != expected:
            folder = f"{DATA}/shard_id={shard.shard_id}"
            yield Finding("differs", folder, f"the stream has the shard as {expected}, the ledger as {known}")


def repaired_ranges(steps: Steps) -> set[SequenceRange]:
    """The ranges of a namespace whose files a repair has written again."""
    return {
        entry.range
        for entry in steps.ledger.journal(steps.pipeline.name)
        if entry.action == "repair" and entry.namespace == steps.namespace
    }


def planned_mode(steps: Steps, batch_id: str) -> Aggregates | None:
    """How a batch unpacked aggregates; for a batch that was never pinned (it recorded a loss) as it is done now."""
    text = steps.ledger.batch(batch_id)
    return BatchPlan.from_text(text).aggregates if text else steps.pipeline.aggregates


def _shard(
    steps: Steps, draft: BatchPlan, auditor: RangeAuditor, chain: Chain | None, shard_id: str
) -> Iterator[Audited]:
    """One shard: its ranges in order, then its files that belong to none.

    Files are listed before ranges are asked for: a file that is there by then belongs to a range that is planned.
    """
    folders = [f"{place}/shard_id={shard_id}" for place in PLACES]
    unaccounted = {f"{folder}/{name}" for folder in folders for name in steps.home.names(folder)}
    before: LedgerRange | None = None
    for row in steps.ledger.ranges(steps.pipeline.name, steps.namespace, shard_id):
        key, compared = FileKey.of(row.range), Compared([], False, row.state == "planned")
        if row.contents:
            compared = auditor.compare(row.range, row.batch_id, row.contents)
        if row.state == "lost":
            marker = marker_of(steps.home, draft, row)
            compared = Compared([marker] if marker else [], False, False)
        unaccounted.discard(key.lost_marker if row.state == "lost" else key.path)
        if compared.quarantined:
            unaccounted.discard(key.quarantine)
        yield _range(compared, row, before)
        before = row
    if before and chain is None:
        yield _only(Finding("gap", FileKey.of(before.range).path, f"the ledger has ranges of {shard_id}, but no chain"))
    for file in sorted(unaccounted):
        yield _only(Finding("stray", file, f"no range of the ledger accounts for {file}"))


def _range(compared: Compared, row: LedgerRange, before: LedgerRange | None) -> Audited:
    findings, key = [], FileKey.of(row.range).path
    if before and before.range.through.key != row.range.start.key:
        message = f"range {row.range} does not start where the one before ends, {before.range.through}"
        findings.append(Finding("gap", key, message))
    if before and before.state == "planned":
        findings.append(Finding("gap", key, f"range {row.range} comes after one that is open, {before.range}"))
    if row.contents is None:
        return Audited(None, False, (*findings, *compared.findings), lost=row.state == "lost")
    return Audited(row.contents, compared.retained, (*findings, *compared.findings))


def _only(finding: Finding) -> Audited:
    return Audited(None, False, (finding,))


def _side_by_side(streams: Iterable[Iterator[T]], stop: Event) -> Iterator[T]:
    """The items of all streams, a few of which are asked for their next one at the same time."""
    waiting, asked = deque(streams), dict[Future[T | None], Iterator[T]]()
    with ThreadPoolExecutor(SHARDS_AT_ONCE) as pool:
        try:
            while waiting or asked:
                while waiting and len(asked) < SHARDS_AT_ONCE:
                    stream = waiting.popleft()
                    asked[pool.submit(next, stream, None)] = stream
                for done in wait(asked, return_when=FIRST_COMPLETED).done:
                    stream = asked.pop(done)
                    item = done.result()
                    if item is not None:
                        waiting.appendleft(stream)
                        yield item
        finally:
            stop.set()
