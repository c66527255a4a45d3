"""A range to one Parquet file: the same range gives the same bytes within one code version, the same rows always.

Row groups, and the pieces that the writer gets them in, are cut by the rows alone, not by the pages that happened to
bring them. Memory is that of one page, however large the range is; a row group waits in a file (`pending`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import shardlake
from shardlake.kinesis.page import Page
from shardlake.kinesis.user_records import UserRecords, unpacker
from shardlake.lake.footer import Footer, parquet_writer, put_footer
from shardlake.lake.pending import PendingRows
from shardlake.lake.quarantine import QUARANTINE_SCHEMA, QuarantineRows
from shardlake.lake.rows import SCHEMA, RowsChecksum, data_bytes, lengths_of, rows_of
from shardlake.plan import LAYOUT, BatchPlan
from shardlake.ranges import SequenceRange

ROW_GROUP_ROWS = 131_072
ROW_GROUP_BYTES = 16 * 2**20
"""A row group ends before the piece that would bring its `data` over this size."""

PIECE_ROWS = 1_024
PIECE_BYTES = 2**20
"""A piece ends before the row that would bring its `data` over this size. The writer ends data pages where it ends."""

_ONE_AT_A_TIME = Lock()
"""Writing a row group takes several times its memory for a moment. Others wait, while their ranges are read on."""


def write_range(path: Path, aside: Path, plan: BatchPlan, range_: SequenceRange, pages: Iterable[Page]) -> Footer:
    """Write the user records of a range to a file, and what it holds into its footer, last.

    Args:
        aside: where the file of what is quarantined goes. It is complete when this returns, and only to be published
            where the footer says that something was quarantined.
        pages: the records of the range, in sequence order; an error that they raise leaves both files without footers.

    Raises:
        OSError: the disk does not take it.
    """
    checksum, size = RowsChecksum(), 0

    def noted(piece: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal size
        checksum.update(piece)
        size += data_bytes(piece)
        return piece

    with (
        parquet_writer(path, SCHEMA, ["stream", "partition_key", "explicit_hash_key"]) as writer,
        parquet_writer(aside, QUARANTINE_SCHEMA, ["stream", "reason"]) as aside_writer,
    ):
        quarantine = QuarantineRows(plan.stream.name, aside_writer.write_batch)
        unpacking = unpacker(plan, range_.shard_id, quarantine.add)
        waiting: list[pa.Table] = []
        for row_group in row_groups(map(noted, pieces(unpacking.user_records(pages), plan.stream.name))):
            if row_group is not None:
                waiting.append(row_group)
                del row_group  # or it would stay in memory when it is written
            _write_first(waiting, writer, at_once=len(waiting) > 1)
        while waiting:
            _write_first(waiting, writer, at_once=True)
        quarantined = quarantine.checksum()
        footer = Footer(
            pipeline=plan.pipeline,
            stream_arn=plan.stream.arn,
            stream_created_at_ms=plan.stream.created_at_ms,
            shard_id=range_.shard_id,
            start=str(range_.start),
            through=str(range_.through),
            rows=checksum.rows,
            data_bytes=size,
            checksum=checksum.hexdigest(),
            layout=LAYOUT,
            version=shardlake.__version__,
            aggregates=plan.aggregates,
            records=unpacking.records,
            quarantined=quarantined.rows,
            dropped=unpacking.dropped,
            quarantine_checksum=quarantined.hexdigest() if quarantined.rows else None,
        )
        put_footer(aside_writer, quarantine.footer(footer))
        put_footer(writer, footer)
    return footer


def pieces(some: Iterable[UserRecords], stream: str) -> Iterator[pa.RecordBatch]:
    """The rows of all user records in pieces, cut where the rows alone say so."""
    parts: list[pa.RecordBatch] = []
    count = size = 0
    for records in some:
        rows = rows_of(records, stream)
        ends = np.cumsum(lengths_of(rows.column("data")), dtype=np.int64)
        taken = begin = 0
        while taken < len(ends):
            fitting = int(np.searchsorted(ends, begin + PIECE_BYTES - size, side="right")) - taken
            fitting = min(max(fitting, 0 if count else 1), PIECE_ROWS - count)
            if not fitting:
                yield pa.concat_batches(parts)
                parts, count, size = [], 0, 0
                continue
            parts.append(rows.slice(taken, fitting))
            taken, count = taken + fitting, count + fitting
            size, begin = size + int(ends[taken - 1]) - begin, int(ends[taken - 1])
        parts = [pa.concat_batches(parts)] if parts else []  # slices would keep all rows in memory
        del records, rows
    if parts:
        yield pa.concat_batches(parts)


def row_groups(some: Iterable[pa.RecordBatch]) -> Iterator[pa.Table | None]:
    """Pieces put together: before each of them is taken in, the row group that those before it make, or None."""
    with contextlib.closing(PendingRows(SCHEMA)) as pending:
        rows = size = 0
        for piece in some:
            more = data_bytes(piece)
            if rows and (rows + len(piece) > ROW_GROUP_ROWS or size + more > ROW_GROUP_BYTES):
                yield pending.take()
                rows = size = 0
            else:
                yield None
            pending.add(piece)
            rows, size = rows + len(piece), size + more
        if rows:
            yield pending.take()


def _write_first(waiting: list[pa.Table], writer: pq.ParquetWriter, *, at_once: bool) -> None:
    """Write the first row group of those that wait, if any.

    Args:
        at_once: wait for the one of another range that is being written, instead of letting this one wait.
    """
    if waiting and _ONE_AT_A_TIME.acquire(blocking=at_once):
        try:
            writer.write_table(waiting.pop(0), row_group_size=ROW_GROUP_ROWS)
        finally:
            _ONE_AT_A_TIME.release()
        pa.default_memory_pool().release_unused()
