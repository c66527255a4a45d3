"""The audit of one committed range: ledger, file and stream tell of the same rows, or which one is the odd one out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from threading import Event
from typing import Literal

import pyarrow as pa

from shardlake.errors import ConflictError, DataLossError, IngestError, ShardlakeError, UnavailableError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import InvalidPositionError
from shardlake.kinesis.page import Page
from shardlake.kinesis.pages import first_page, page_at
from shardlake.kinesis.reader import read_range
from shardlake.lake.home import Home
from shardlake.lake.owner import refuse_other
from shardlake.lake.parquet import checksum_of_file, read_footer
from shardlake.lake.rows import RowsChecksum, rows_of
from shardlake.ledger import Contents
from shardlake.names import FileKey
from shardlake.plan import BatchPlan
from shardlake.ranges import SHARD_END, SequenceRange

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


class StoppedError(Exception):
    """The audit was ended from outside."""


class RangeAuditor:
    """Compares what ledger, file and stream say of ranges; from several threads, if need be.

    Args:
        draft: the pipeline's next batch: whose dataset it is, and which stream.
        repaired: the ranges whose files were written again.
        stop: ends a comparison under way.
    """

    def __init__(
        self, draft: BatchPlan, home: Home, kinesis: Kinesis, repaired: Set[SequenceRange], stop: Event
    ) -> None:
        self._draft, self._home, self._kinesis, self._repaired, self._stop = draft, home, kinesis, repaired, stop

    def compare(self, range_: SequenceRange, recorded: Contents) -> tuple[list[Finding], bool]:
        """What is wrong with a committed range, and whether the stream still retains it.

        Raises:
            ConfigError: the stream may not be read.
            StoppedError: `stop` was set.
        """
        key, in_ledger = FileKey.of(range_).path, Rows(recorded.rows, recorded.checksum)
        in_file = file_of(self._home, self._draft, range_, None if range_ in self._repaired else recorded.bytes)
        in_stream = self._of_stream(range_, doubtful=isinstance(in_file, Finding))
        if isinstance(in_stream, Finding):
            return [in_stream, *([in_file] if isinstance(in_file, Finding) else [])], True
        if isinstance(in_file, Finding):
            return [_without_file(in_file, in_ledger, in_stream)], in_stream is not None
        said = _odd_one_out(in_ledger, in_file, in_stream)
        return [Finding("differs", key, f"range {range_}: {said}")] if said else [], in_stream is not None

    def _of_stream(self, range_: SequenceRange, *, doubtful: bool) -> Rows | Finding | None:
        """The rows of a range as the stream has them; None where it does not retain them all.

        Args:
            doubtful: the range may never have been in the stream; reading it would wait for its end to come.
        """
        key, checksum = FileKey.of(range_).path, RowsChecksum()
        try:
            if doubtful:
                self._check_end(range_)
            for page in self._unless_stopped(read_range(self._kinesis, range_, self._draft.stream.retention_ms)):
                checksum.update(rows_of(page, self._draft.stream.name))
        except DataLossError:
            if self._is_retained(range_):
                return Finding(
                    "differs",
                    key,
                    f"range {range_}: the stream has no such records, though it goes back to its beginning",
                )
            return None
        except ConflictError as exc:
            return Finding("differs", key, str(exc))
        except (IngestError, UnavailableError) as exc:
            return Finding("unread", key, f"range {range_} was not compared with the stream: {exc}")
        return Rows(checksum.rows, checksum.hexdigest())

    def _check_end(self, range_: SequenceRange) -> None:
        """Check that the record at the range's end is in the stream.

        Raises:
            DataLossError: it is not.
        """
        if range_.through is SHARD_END:
            return
        with contextlib.suppress(InvalidPositionError):  # raised for a number that cannot be one of this shard's
            if page_at(self._kinesis, range_.shard_id, range_.through, limit=1).first == range_.through:
                return
        raise DataLossError(f"the stream has no record {range_.through}")

    def _is_retained(self, range_: SequenceRange) -> bool:
        """Whether the stream goes back to the range's beginning, or further: then it has to have all of it."""
        try:
            iterator = self._kinesis.iterator_at_horizon(range_.shard_id)
            oldest = first_page(self._kinesis, iterator, limit=1).first
        except DataLossError:
            return False
        return oldest is not None and (oldest.key <= range_.start.key or range_.begins_with(oldest))

    def _unless_stopped(self, pages: Iterable[Page]) -> Iterator[Page]:
        for page in pages:
            if self._stop.is_set():
                raise StoppedError
            yield page


def file_of(home: Home, draft: BatchPlan, range_: SequenceRange, size_bytes: int | None) -> Rows | Finding:
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
        }
        found = {name: getattr(footer, name) for name in expected}
        refuse_other(found, expected, f"the file {key} is of another range")
        size = home.size(key)
        if size_bytes not in (None, size):
            raise ConflictError(f"the size of {key}", expected=f"{size_bytes} bytes", found=f"{size} bytes")
        checksum = checksum_of_file(home, key)
    except FileNotFoundError:
        return Finding("missing", key, f"the file of range {range_} is not there")
    except (ConflictError, OSError, ValueError, pa.ArrowException) as exc:
        return Finding("damaged", key, str(exc))
    return Rows(checksum.rows, checksum.hexdigest())


def _without_file(finding: Finding, in_ledger: Rows, in_stream: Rows | None) -> Finding:
    if in_stream is None:
        return Finding("lost", finding.path, f"{finding.message}; and the stream no longer retains its {in_ledger}")
    if in_stream != in_ledger:
        return Finding(finding.kind, finding.path, f"{finding.message}; ledger: {in_ledger}, stream: {in_stream}")
    return Finding(finding.kind, finding.path, f"{finding.message}; the stream still has its {in_ledger}")


def _odd_one_out(in_ledger: Rows, in_file: Rows, in_stream: Rows | None) -> str | None:
    """Which of the three is not like the others; None where all are equal. None for the stream: nobody knows."""
    if in_ledger == in_file and in_stream in (in_ledger, None):
        return None
    if in_stream is None:
        return f"ledger: {in_ledger}, file: {in_file}; the stream no longer retains it"
    if in_ledger == in_stream:
        return f"the file has {in_file}, ledger and stream {in_ledger}"
    if in_file == in_stream:
        return f"the ledger says {in_ledger}, file and stream have {in_file}"
    if in_ledger == in_file:
        return f"the stream has {in_stream}, ledger and file {in_ledger}"
    return f"ledger: {in_ledger}, file: {in_file}, stream: {in_stream}"
