"""Repair: a committed range whose file is missing or damaged is read again, into the same name.

The ledger says what the file has to hold; nothing else is put in its place. The chain does not change.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from shardlake.audit_files import Finding, Rows, file_of, quarantine_of
from shardlake.auditing import planned_mode, repaired_ranges
from shardlake.batch import Steps
from shardlake.errors import ConflictError
from shardlake.kinesis.page import Page
from shardlake.kinesis.reader import read_range
from shardlake.lake.footer import Footer, read_footer
from shardlake.lake.owner import require_owner
from shardlake.lake.parquet import write_range
from shardlake.ledger import JournalEntry, LedgerRange
from shardlake.names import CONTROL, FileKey
from shardlake.plan import BatchPlan, Run
from shardlake.planning import hash_ranges
from shardlake.ranges import SequenceRange


def whose(steps: Steps) -> BatchPlan:
    """Whose dataset it is, and which stream, checked; with the hash keys of all shards.

    Raises:
        ConfigError, UnavailableError: the stream cannot be asked.
        ConflictError: the dataset is another's.
    """
    draft = steps.planner().draft(Run("repair", "repair"))
    require_owner(steps.home, draft)
    return replace(draft, hash_ranges=hash_ranges(steps.ledger.shards(draft.pipeline).values()))


def broken(steps: Steps, draft: BatchPlan, shard_id: str | None) -> Iterator[tuple[LedgerRange, Finding | None]]:
    """Every committed range, of one shard or of all, with what is wrong with its files; each file is read whole."""
    repaired = repaired_ranges(steps)
    for row in steps.ledger.ranges(steps.pipeline.name, steps.namespace, shard_id, "committed"):
        if row.contents:
            found = file_of(steps.home, draft, row.range, None if row.range in repaired else row.contents.bytes)
            recorded = Rows(row.contents.rows, row.contents.checksum)
            if isinstance(found, Finding):
                yield row, found
            elif found.rows != recorded:
                key = FileKey.of(row.range).path
                yield row, Finding("damaged", key, f"{key} holds {found.rows}, the ledger says {recorded}")
            else:
                aside = quarantine_of(steps.home, row.range, found.footer)
                yield row, aside if isinstance(aside, Finding) else None
                for directory in FileKey.of(row.range).directories if row.range in repaired else ():
                    steps.home.sync(directory)  # whoever repaired it may have died before its name was on disk


def repair(steps: Steps, draft: BatchPlan, row: LedgerRange, entry: JournalEntry) -> None:
    """Read a committed range again and put its files in place, if the data's holds what the ledger says.

    How aggregates were unpacked is said by what is left of its files, else by the batch that planned it.

    Args:
        entry: goes into the journal before the files are there.

    Raises:
        DataLossError: the stream no longer retains the range; nothing was changed.
        ConflictError: it has other records than were committed; nothing was changed.
        UnavailableError: stream, ledger or dataset do not answer.
    """
    range_, key = row.range, FileKey.of(row.range)
    # Not with the batch's temporary files: the batch is over, and any run clears those away.
    with steps.home.temporary(CONTROL) as data, steps.home.temporary(CONTROL) as aside:
        footer = _read_again(steps, draft, row, data, aside)
        if row.contents is None or footer.checksum != row.contents.checksum:
            raise ConflictError(
                f"range {range_} cannot be repaired: the stream has other records than were committed",
                expected=row.contents and Rows(row.contents.rows, row.contents.checksum),
                found=Rows(footer.rows, footer.checksum),
                todo="Find out with `shardlake audit` which of them is right; nothing was changed",
            )
        steps.ledger.record(entry)
        if footer.quarantined:
            steps.home.overwrite(aside, key.quarantine)
        steps.home.overwrite(data, key.path)


def _read_again(steps: Steps, draft: BatchPlan, row: LedgerRange, data: Path, aside: Path) -> Footer:
    """Read a range again, by the mode that its files have.

    Where they do not tell, that may also be another mode than the one planned, for a range that a later batch finished.
    """
    told, planned = _mode_of_files(steps, row.range), planned_mode(steps, row.batch_id)
    for mode in dict.fromkeys([told.aggregates] if told else [planned, steps.pipeline.aggregates]):
        pace = draft.read_fraction, draft.retry_budget_s
        pages = read_range(steps.kinesis(), row.range, draft.stream.retention_ms, *pace)
        footer = write_range(data, aside, replace(draft, aggregates=mode), row.range, _at_work(pages, data, aside))
        if row.contents and footer.checksum == row.contents.checksum:
            break
    return footer


def _at_work(pages: Iterable[Page], *files: Path) -> Iterator[Page]:
    """The pages, each of which makes files that wait for their next rows look written to.

    Any run clears away what nobody has written to for an hour, and a range may take longer whose shard is read slowly.
    """
    for page in pages:
        for file in files:
            os.utime(file)
        yield page


def _mode_of_files(steps: Steps, range_: SequenceRange) -> Footer | None:
    """The footer of the data file, or else of the quarantine's, if one of them can be read and is this range's."""
    key = FileKey.of(range_)
    for file in (key.path, key.quarantine):
        with steps.home.errors(), contextlib.suppress(ConflictError, FileNotFoundError):
            footer = read_footer(steps.home, file)
            if (footer.shard_id, footer.start, footer.through) == (
                range_.shard_id,
                str(range_.start),
                str(range_.through),
            ):
                return footer
    return None
