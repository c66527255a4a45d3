"""A range to one Parquet file: the same range gives the same bytes within one code version, the same rows always.

Row groups are cut by the rows alone, not by the pages that happened to bring them. Memory is that of one row group
and one page, however large the range is.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import shardlake
from shardlake.errors import ConflictError
from shardlake.kinesis.client import Page
from shardlake.lake.rows import SCHEMA, RowsChecksum, rows_of
from shardlake.plan import LAYOUT, BatchPlan
from shardlake.ranges import SequenceRange

ROW_GROUP_ROWS = 131_072
ROW_GROUP_BYTES = 32 * 2**20
"""A row group ends before the row that would bring its `data` over this size."""

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
    checksum, data_bytes = RowsChecksum(), 0
    with pq.ParquetWriter(
        path,
        SCHEMA,
        compression="zstd",
        use_dictionary=["stream", "partition_key", "explicit_hash_key"],
        write_page_index=True,
    ) as writer:
        for rows in row_groups(pages, plan.stream.name):
            checksum.update(rows)
            data_bytes += pc.sum(pc.binary_length(rows.column("data"))).as_py()
            writer.write_batch(rows, row_group_size=ROW_GROUP_ROWS)
        footer = Footer(
            pipeline=plan.pipeline,
            stream_arn=plan.stream.arn,
            stream_created_at_ms=plan.stream.created_at_ms,
            shard_id=range_.shard_id,
            start=str(range_.start),
            through=str(range_.through),
            rows=checksum.rows,
            data_bytes=data_bytes,
            checksum=checksum.hexdigest(),
            layout=LAYOUT,
            version=shardlake.__version__,
        )
        facts = {field: getattr(footer, field) for field in Footer.__slots__}
        writer.add_key_value_metadata({_PREFIX + key: json.dumps(value) for key, value in facts.items()})
    return footer


def read_footer(path: Path) -> Footer:
    """A data file's footer.

    Raises:
        ConflictError: the file is damaged, or not one of ours.
        OSError: it cannot be read.
    """
    try:
        metadata = pq.read_metadata(path)
        stored = metadata.metadata or {}
        footer = Footer(**{field: json.loads(stored[(_PREFIX + field).encode()]) for field in Footer.__slots__})
    except (pa.ArrowInvalid, KeyError, ValueError) as exc:
        raise ConflictError(f"{path} is damaged, or was not written by Shardlake ({exc})") from exc
    if footer.rows != metadata.num_rows:
        raise ConflictError(f"{path} is damaged", expected=f"{footer.rows} rows", found=f"{metadata.num_rows} rows")
    return footer


def checksum_of_file(path: Path) -> RowsChecksum:
    """The checksum recomputed from a file's rows, row group by row group.

    Raises:
        ConflictError: the file's rows cannot be read.
    """
    checksum = RowsChecksum()
    try:
        with pq.ParquetFile(path) as file:
            for rows in file.iter_batches(batch_size=8192):
                checksum.update(rows)
    except (pa.ArrowInvalid, OSError) as exc:
        raise ConflictError(f"the rows of {path} cannot be read ({exc})") from exc
    return checksum


def row_groups(pages: Iterable[Page], stream: str) -> Iterator[pa.RecordBatch]:
    """The rows of all pages, each batch one row group, cut where the rows alone say so."""
    parts: list[pa.RecordBatch] = []
    count = size = 0
    for page in pages:
        rows, ends, taken = rows_of(page, stream), list(accumulate(map(len, page.data))), 0
        while True:
            before = ends[taken - 1] if taken else 0
            fitting = min(bisect_right(ends, before + ROW_GROUP_BYTES - size, lo=taken), taken + ROW_GROUP_ROWS - count)
            if fitting == len(page):
                break
            parts.append(rows.slice(taken, max(fitting - taken, 0 if count else 1)))
            yield pa.concat_batches(parts)
            taken += parts[-1].num_rows
            parts, count, size = [], 0, 0
        parts.append(rows.slice(taken))
        count += len(page) - taken
        size += ends[-1] - before
    if count:
        yield pa.concat_batches(parts)
