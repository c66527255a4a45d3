"""The audit of one committed range: ledger, file and stream tell of the same rows, or which one is the odd one out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, replace
from threading import Event

from shardlake.audit_files import Finding, Rows, counted, file_of, quarantine_of
from shardlake.errors import ConflictError, DataLossError, IngestError, UnavailableError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import InvalidPositionError
from shardlake.kinesis.page import Page
from shardlake.kinesis.pages import first_page, page_at
from shardlake.kinesis.reader import read_range
from shardlake.kinesis.user_records import unpacker
from shardlake.lake.footer import Footer
from shardlake.lake.home import Home
from shardlake.lake.quarantine import QuarantineRows
from shardlake.lake.rows import RowsChecksum, rows_of
from shardlake.ledger import Contents
from shardlake.names import FileKey
from shardlake.plan import Aggregates, BatchPlan
from shardlake.ranges import SHARD_END, SequenceRange


@dataclass(frozen=True, slots=True)
class StreamFound:
    """What a range's records in the stream make: rows of data, and rows of quarantine, if any.

    Attributes:
        records: how many raw records they are.
        dropped: how many of them are in neither.
    """

    rows: Rows
    quarantine: Rows | None
    records: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found out about a range.

    Attributes:
        retained: the stream was compared too.
        quarantined: a quarantine file belongs to it, or may do.
    """

    findings: list[Finding]
    retained: bool
    quarantined: bool


class StoppedError(Exception):
    """The audit was ended from outside."""


class RangeAuditor:
    """Compares what ledger, file and stream say of ranges; from several threads, if need be.

    Args:
        draft: the pipeline's next batch: whose dataset it is, and which stream, with the hash keys of all shards.
        repaired: the ranges whose files were written again.
        planned: how a batch unpacked aggregates; asked where a file does not tell.
        stop: ends a comparison under way.
    """

    def __init__(
        self,
        draft: BatchPlan,
        home: Home,
        kinesis: Kinesis,
        repaired: Set[SequenceRange],
        planned: Callable[[str], Aggregates | None],
        stop: Event,
    ) -> None:
        self._draft, self._home, self._kinesis, self._repaired = draft, home, kinesis, repaired
        self._planned, self._stop = planned, stop

    def compare(self, range_: SequenceRange, batch_id: str, recorded: Contents) -> Compared:
        """What is wrong with a committed range, and whether the stream still retains it.

        Args:
            batch_id: the batch that planned it.
            recorded: what the ledger says of its file.

        Raises:
            ConfigError: the stream may not be read.
            StoppedError: `stop` was set.
        """
        key, in_ledger = FileKey.of(range_).path, Rows(recorded.rows, recorded.checksum)
        in_file = file_of(self._home, self._draft, range_, None if range_ in self._repaired else recorded.bytes)
        if isinstance(in_file, Finding):
            in_stream = self._of_stream(range_, self._planned(batch_id), doubtful=True)
            if isinstance(in_stream, Finding):
                return Compared([in_stream, in_file], True, True)
            finding = _without_file(in_file, in_ledger, in_stream.rows if in_stream else None)
            return Compared([finding], in_stream is not None, True)
        in_stream = self._of_stream(range_, in_file.footer.aggregates, doubtful=False)
        aside, quarantined = quarantine_of(self._home, range_, in_file.footer), in_file.footer.quarantined > 0
        if isinstance(in_stream, Finding):
            return Compared([in_stream, *([aside] if isinstance(aside, Finding) else [])], True, quarantined)
        said = _odd_one_out(in_ledger, in_file.rows, in_stream.rows if in_stream else None)
        said = said or _miscounted(in_file.footer, in_stream)
        findings = [Finding("differs", key, f"range {range_}: {said}")] if said else []
        findings += _of_quarantine(range_, aside, in_stream)
        return Compared(findings, in_stream is not None, quarantined)

    def _of_stream(
        self, range_: SequenceRange, mode: Aggregates | None, *, doubtful: bool
    ) -> StreamFound | Finding | None:
        """The rows of a range as the stream has them; None where it does not retain them all.

        Args:
            mode: how aggregates were unpacked.
            doubtful: the range may never have been in the stream; reading it would wait for its end to come.
        """
        key, checksum = FileKey.of(range_).path, RowsChecksum()
        stream = self._draft.stream
        aside = QuarantineRows(stream.name, lambda rows: None)
        try:
            if doubtful:
                self._check_end(range_)
            unpacking = unpacker(replace(self._draft, aggregates=mode), range_.shard_id, aside.add)
            reading = read_range(self._kinesis, range_, stream.retention_ms, retry_budget_s=self._draft.retry_budget_s)
            pages = self._unless_stopped(reading)
            for records in unpacking.user_records(pages):
                checksum.update(rows_of(records, stream.name))
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
        quarantine = aside.checksum()
        aside_rows = counted(quarantine) if quarantine.rows else None
        return StreamFound(counted(checksum), aside_rows, unpacking.records, unpacking.dropped)

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


def _of_quarantine(range_: SequenceRange, aside: Rows | Finding | None, in_stream: StreamFound | None) -> list[Finding]:
    if isinstance(aside, Finding):
        if in_stream is None:
            message = f"{aside.message}; and the stream no longer retains its records"
            return [Finding("lost", aside.path, message)]
        return [Finding(aside.kind, aside.path, f"{aside.message}; the stream still has its records")]
    if in_stream is None or in_stream.quarantine == aside:
        return []
    said = f"range {range_}: the quarantine has {aside or 'no rows'}, the stream's records make "
    return [Finding("differs", FileKey.of(range_).quarantine, f"{said}{in_stream.quarantine or 'none'}")]


def _miscounted(footer: Footer, in_stream: StreamFound | None) -> str | None:
    """What a footer counts otherwise than the stream; None where nobody can tell."""
    if in_stream is None or footer.records is None:
        return None
    said, found = (footer.records, footer.dropped), (in_stream.records, in_stream.dropped)
    return (
        None
        if said == found
        else "the footer says {} records, {} dropped, the stream has {} and {}".format(*said, *found)
    )


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
