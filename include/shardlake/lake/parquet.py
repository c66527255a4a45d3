"""A range to one Parquet file: the same range gives the same bytes within one code version, the same rows always.

Row groups, and the pieces that the writer gets them in, are cut by the rows alone, not by the pages that happened to
bring them. Memory is that of one row group and one page, however large the range is.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import shardlake
from shardlake.errors import ConflictError
from shardlake.kinesis.page import Page
from shardlake.lake.home import Home
from shardlake.lake.rows import SCHEMA, RowsChecksum, data_bytes, rows_of
from shardlake.plan import LAYOUT, BatchPlan
from shardlake.ranges import SequenceRange

ROW_GROUP_ROWS = 131_072
ROW_GROUP_BYTES = 16 * 2**20
"""A row group ends before the row that would bring its `data` over this size."""

PIECE_ROWS = 1_024
"""The writer ends data pages where its input is cut, so a row group comes in pieces of this many rows."""

WRITE_BATCH_ROWS = 16
"""Rows after which the writer looks whether a data page is full: with its default of 1024, large records make pages
of many MiB in memory."""

_PREFIX = "shardlake."


@dataclass(frozen=True, slots=True)
class Footer:
    """What a data file's footer says of it. It is written last, so a file that has one is complete."""

    pipeline: str
    stream_arn: str
    stream_created_at_ms: int
    shard_id: str
    start: str
    through: str
    rows: int
    data_bytes: int
    checksum: str
    layout: int
    version: str


def write_range(path: Path, plan: BatchPlan, range_: SequenceRange, pages: Iterable[Page]) -> Footer:
    """Write the records of a range to a file, and what it holds into its footer, last.

    Args:
        pages: the records of the range, in sequence order; an error that they raise leaves the file without a footer.

    Raises:
        OSError: the disk does not take it.
    """
    checksum, size = RowsChecksum(), 0
    with _writer(path) as writer:
        for row_group in row_groups(pages, plan.stream.name):
            for rows in row_group.to_batches():
                checksum.update(rows)
                size += data_bytes(rows)
            writer.write_table(row_group, row_group_size=ROW_GROUP_ROWS)
            del row_group, rows  # or they would stay in memory while the next row group comes in
            pa.default_memory_pool().release_unused()
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
        )
        facts = {field: getattr(footer, field) for field in Footer.__slots__}
        writer.add_key_value_metadata({_PREFIX + key: json.dumps(value) for key, value in facts.items()})
    return footer


@contextlib.contextmanager
def _writer(path: Path) -> Iterator[pq.ParquetWriter]:
    """A writer that puts its footer behind the file only if all went well; its own context manager always does."""
    with pa.OSFile(str(path), "wb") as file:
        writer = pq.ParquetWriter(
            file,
            SCHEMA,
            compression="zstd",
            use_dictionary=["stream", "partition_key", "explicit_hash_key"],
            write_page_index=True,
            write_batch_size=WRITE_BATCH_ROWS,
        )
        try:
            yield writer
            writer.close()
        except BaseException:
            file.close()
            with contextlib.suppress(ValueError, OSError):  # the file is closed: there is nowhere to put a footer
                writer.close()
            writer.is_open = False
            raise


def read_footer(home: Home, key: str) -> Footer:
    """A data file's footer.

    Raises:
        ConflictError: the file is damaged, or not one of ours.
        OSError: it cannot be read; FileNotFoundError where it is not there.
    """
    path = home.url(key)
    try:
        with home.open(key) as file:
            metadata = pq.read_metadata(file)
        stored = metadata.metadata or {}
        footer = Footer(**{field: json.loads(stored[(_PREFIX + field).encode()]) for field in Footer.__slots__})
    except (pa.ArrowException, KeyError, ValueError, TypeError) as exc:
        raise _damaged(path, exc) from exc
    except OSError as exc:
        if exc.errno is None:  # what Arrow says of bytes that it cannot decode
            raise _damaged(path, exc) from exc
        raise
    if footer.rows != metadata.num_rows:
        raise ConflictError(f"{path} is damaged", expected=f"{footer.rows} rows", found=f"{metadata.num_rows} rows")
    return footer


def checksum_of_file(home: Home, key: str) -> RowsChecksum:
    """The checksum recomputed from a file's rows, row group by row group.

    Raises:
        ConflictError: the file's rows cannot be read.
    """
    checksum = RowsChecksum()
    try:
        with home.open(key) as opened, pq.ParquetFile(opened) as file:
            for rows in file.iter_batches(batch_size=8192):
                checksum.update(rows)
    except (pa.ArrowInvalid, OSError) as exc:
        raise ConflictError(f"the rows of {home.url(key)} cannot be read ({exc})") from exc
    return checksum


def _damaged(path: str, exc: Exception) -> ConflictError:
    return ConflictError(
        f"{path} is damaged, or was not written by Shardlake ({exc})",
        todo="Move it away and run the ingest step again, as long as the stream retains its records",
    )


def row_groups(pages: Iterable[Page], stream: str) -> Iterator[pa.Table]:
    """The rows of all pages, each table one row group, cut where the rows alone say so."""
    pieces: list[pa.RecordBatch] = []
    parts: list[pa.RecordBatch] = []
    count = size = 0
    for page in pages:
        rows, taken = rows_of(page, stream), 0
        for row, data in enumerate(page.data):
            full = count == ROW_GROUP_ROWS or (count > 0 and size + len(data) > ROW_GROUP_BYTES)
            if full or (count and count % PIECE_ROWS == 0):
                pieces.append(pa.concat_batches([*parts, rows.slice(taken, row - taken)]))
                parts, taken = [], row
            if full:
                yield pa.Table.from_batches(pieces)
                pieces, count, size = [], 0, 0
            count += 1
            size += len(data)
        parts.append(rows.slice(taken))
    if count:
        yield pa.Table.from_batches([*pieces, pa.concat_batches(parts)])
