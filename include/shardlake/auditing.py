"""The audit of a pipeline: every committed range, every file, and the chain that holds them together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from shardlake.audit import Finding, RangeAuditor
from shardlake.batch import Steps
from shardlake.lake.owner import check_owner
from shardlake.ledger import Contents, LedgerRange
from shardlake.names import DATA, OWNER, FileKey
from shardlake.plan import Run
from shardlake.ranges import SequenceRange

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
    chains, folders = steps.ledger.chains(draft.pipeline, draft.namespace), steps.home.names(DATA)
    if not owned and (chains or folders):
        yield _only(Finding("missing", OWNER, "the dataset does not say whose it is"))
    stop = Event()
    auditor = RangeAuditor(draft, steps.home, kinesis, repaired_ranges(steps), stop)
    of_shards = {folder for folder in folders if folder.startswith("shard_id=")}
    for other in sorted(set(folders) - of_shards):
        yield _only(Finding("stray", f"{DATA}/{other}", f"{DATA}/{other} is not of this dataset"))
    shard_ids = sorted({*chains, *(folder.removeprefix("shard_id=") for folder in of_shards)})
    yield from _side_by_side([_shard(steps, auditor, shard_id) for shard_id in shard_ids], stop)


def repaired_ranges(steps: Steps) -> set[SequenceRange]:
    """The ranges of a namespace whose files a repair has written again."""
    return {
        entry.range
        for entry in steps.ledger.journal(steps.pipeline.name)
        if entry.action == "repair" and entry.namespace == steps.namespace
    }


def _shard(steps: Steps, auditor: RangeAuditor, shard_id: str) -> Iterator[Audited]:
    """One shard: its ranges in order, then its files that belong to none.

    Files are listed before ranges are asked for: a file that is there by then belongs to a range that is planned.
    """
    folder = f"{DATA}/shard_id={shard_id}"
    unaccounted = set(steps.home.names(folder))
    before: SequenceRange | None = None
    for row in steps.ledger.ranges(steps.pipeline.name, steps.namespace, shard_id):
        name = FileKey.of(row.range).path.removeprefix(f"{folder}/")
        if row.state != "lost":
            unaccounted.discard(name)
        yield _range(auditor, row, before)
        before = row.range
    for name in sorted(unaccounted):
        yield _only(Finding("stray", f"{folder}/{name}", f"no range of the ledger accounts for {folder}/{name}"))


def _range(auditor: RangeAuditor, row: LedgerRange, before: SequenceRange | None) -> Audited:
    findings = []
    if before and before.through.key != row.range.start.key:
        message = f"range {row.range} does not start where the one before ends, {before.through}"
        findings.append(Finding("gap", FileKey.of(row.range).path, message))
    if row.contents is None:
        return Audited(None, False, tuple(findings), lost=row.state == "lost")
    compared, retained = auditor.compare(row.range, row.contents)
    return Audited(row.contents, retained, (*findings, *compared))


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
