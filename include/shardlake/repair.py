"""Repair: a committed range whose file is missing or damaged is read again, into the same name.

The ledger says what the file has to hold; nothing else is put in its place. The chain does not change.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlake.audit import Finding, Rows, file_of
from shardlake.auditing import repaired_ranges
from shardlake.batch import Steps
from shardlake.errors import ConflictError
from shardlake.kinesis.reader import read_range
from shardlake.lake.owner import require_owner
from shardlake.lake.parquet import write_range
from shardlake.ledger import JournalEntry, LedgerRange
from shardlake.leftovers import clear_away
from shardlake.names import FileKey, temporary_directory
from shardlake.plan import BatchPlan, Run


def whose(steps: Steps) -> BatchPlan:
    """Whose dataset it is, and which stream, checked.

    Raises:
        ConfigError, UnavailableError: the stream cannot be asked.
        ConflictError: the dataset is another's.
    """
    draft = steps.planner().draft(Run("repair", "repair"))
    require_owner(steps.home, draft)
    return draft


def broken(steps: Steps, draft: BatchPlan, shard_id: str | None) -> Iterator[tuple[LedgerRange, Finding | None]]:
    """Every committed range, of one shard or of all, with what is wrong with its file; each file is read whole."""
    repaired = repaired_ranges(steps)
    for row in steps.ledger.ranges(steps.pipeline.name, steps.namespace, shard_id, "committed"):
        if row.contents:
            found = file_of(steps.home, draft, row.range, None if row.range in repaired else row.contents.bytes)
            recorded = Rows(row.contents.rows, row.contents.checksum)
            if isinstance(found, Rows) and found != recorded:
                key = FileKey.of(row.range).path
                found = Finding("damaged", key, f"{key} holds {found}, the ledger says {recorded}")
            yield row, found if isinstance(found, Finding) else None


def repair(steps: Steps, draft: BatchPlan, row: LedgerRange, entry: JournalEntry) -> None:
    """Read a committed range again and put its file in place, if it holds what the ledger says.

    Args:
        entry: goes into the journal before the file is there.

    Raises:
        DataLossError: the stream no longer retains the range; nothing was changed.
        ConflictError: it has other records than were committed; nothing was changed.
        UnavailableError: stream, ledger or dataset do not answer.
    """
    range_ = row.range
    pages = read_range(steps.kinesis(), range_, draft.stream.retention_ms, draft.read_fraction)
    try:
        with steps.home.temporary(temporary_directory(row.batch_id)) as temporary:
            footer = write_range(temporary, draft, range_, pages)
            if row.contents is None or footer.checksum != row.contents.checksum:
                raise ConflictError(
                    f"range {range_} cannot be repaired: the stream has other records than were committed",
                    expected=row.contents and Rows(row.contents.rows, row.contents.checksum),
                    found=Rows(footer.rows, footer.checksum),
                    todo="Find out with `shardlake audit` which of them is right; nothing was changed",
                )
            steps.ledger.record(entry)
            steps.home.overwrite(temporary, FileKey.of(range_).path)
    finally:
        clear_away(steps.home, steps.ledger)
