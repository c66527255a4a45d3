"""The files of one committed range, as the audit finds them: whole, or what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from shardlake.errors import ConflictError, DataLossError, IngestError, ShardlakeError
from shardlake.lake.footer import Footer, checksum_of_file, read_footer
from shardlake.lake.home import Home
from shardlake.lake.owner import refuse_other
from shardlake.lake.quarantine import QUARANTINE_SCHEMA, check_quarantine
from shardlake.lake.rows import RowsChecksum
from shardlake.ledger import LedgerRange
from shardlake.lost_markers import lost_range
from shardlake.names import FileKey
from shardlake.plan import LAYOUT, BatchPlan
from shardlake.ranges import SequenceRange

Kind = Literal["missing", "damaged", "differs", "gap", "stray", "lost", "unread"]
"""`missing`, `damaged`: the file. `differs`: ledger, file and stream do not agree. `gap`: ranges of the ledger do not
follow each other. `stray`: a file that no range accounts for. `lost`: neither the file nor the stream has the rows.
`unread`: the stream did not answer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, and where: a path relative to the dataset."""

    kind: Kind
    path: str
    message: str

    @property
    def error(self) -> type[ShardlakeError]:
        """What kind of error it is."""
        return {"lost": DataLossError, "unread": IngestError}.get(self.kind, ConflictError)


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows, and their checksum."""

    count: int
    checksum: str

    def __str__(self) -> str:
        return f"{self.count} rows with checksum {self.checksum}"


@dataclass(frozen=True, slots=True)
class FileFound:
    """A data file that can be read: its rows, and what its footer says."""

    rows: Rows
    footer: Footer


def counted(checksum: RowsChecksum) -> Rows:
    """What a checksum was made of."""
    return Rows(checksum.rows, checksum.hexdigest())


def file_of(home: Home, draft: BatchPlan, range_: SequenceRange, size_bytes: int | None) -> FileFound | Finding:
    """What the file of a committed range holds, recomputed from its rows; or what is wrong with the file.

    Args:
        draft: whose dataset it is, and which stream.
        size_bytes: how large it has to be; None: a repair, perhaps by another code version, has written it again.
    """
    key = FileKey.of(range_).path
    try:
        footer = read_footer(home, key)
        expected = {
            "pipeline": draft.pipeline,
            "stream_arn": draft.stream.arn,
            "stream_created_at_ms": draft.stream.created_at_ms,
            "shard_id": range_.shard_id,
            "start": str(range_.start),
            "through": str(range_.through),
            "layout": LAYOUT,
        }
        found = {name: getattr(footer, name) for name in expected}
        refuse_other(found, expected, f"the file {key} is of another range")
        size = home.size(key)
        if size_bytes not in (None, size):
            raise ConflictError(f"the size of {key}", expected=f"{size_bytes} bytes", found=f"{size} bytes")
        rows, said = counted(checksum_of_file(home, key)), Rows(footer.rows, footer.checksum)
        if rows != said:
            raise ConflictError(f"{key} is damaged: its footer says {said}, the file has {rows}")
    except FileNotFoundError:
        return Finding("missing", key, f"the file of range {range_} is not there")
    except (ConflictError, OSError, ValueError, pa.ArrowException) as exc:
        return Finding("damaged", key, str(exc))
    return FileFound(rows, footer)


def quarantine_of(home: Home, range_: SequenceRange, footer: Footer) -> Rows | Finding | None:
    """What the quarantine file of a committed range holds, or what is wrong with it; None where it has none.

    Args:
        footer: the data file's, which says what has to be there.
    """
    if not footer.quarantined:
        return None
    key = FileKey.of(range_)
    try:
        if not home.exists(key.quarantine):
            return Finding("missing", key.quarantine, f"the quarantine of range {range_} is not there")
        check_quarantine(home, key, footer)
        checksum = checksum_of_file(home, key.quarantine, QUARANTINE_SCHEMA)
    except (ConflictError, OSError, ValueError, pa.ArrowException) as exc:
        return Finding("damaged", key.quarantine, str(exc))
    found, expected = counted(checksum), Rows(footer.quarantined, footer.quarantine_checksum or "")
    if found != expected:
        return Finding("damaged", key.quarantine, f"{key.quarantine} holds {found}, {key.path} says {expected}")
    return found


def marker_of(home: Home, draft: BatchPlan, row: LedgerRange) -> Finding | None:
    """What is wrong with the marker of a lost range."""
    key = FileKey.of(row.range).lost_marker
    if not home.exists(key):
        return Finding(
            "missing", key, f"the marker of lost range {row.range} is not there; the next plan writes it again"
        )
    try:
        found = lost_range(home, draft, key)
    except ConflictError as exc:
        return Finding("damaged", key, str(exc))
    if found == (row.range, row.batch_id):
        return None
    expected = f"{row.range} of batch {row.batch_id}"
    return Finding("damaged", key, f"the marker {key} says {found[0]} of batch {found[1]}, the ledger {expected}")
