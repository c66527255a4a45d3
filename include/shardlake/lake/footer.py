"""A file's footer: what it says of the range in the file. It is written last, so a file that has one is complete."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shardlake.errors import ConflictError
from shardlake.lake.home import Home
from shardlake.lake.rows import SCHEMA, RowsChecksum
from shardlake.plan import Aggregates

WRITE_BATCH_ROWS = 16
"""Rows after which the writer looks whether a data page is full: with its default of 1024, large records make pages
of many MiB in memory."""

_PREFIX = "shardlake."


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer of a data file, or of a quarantine's, says of it.

    The fields from `aggregates` on came later: in a file that has none of them, no record was unpacked.

    Attributes:
        aggregates: by which mode the file was written; None: records are as they were put.
        records: the range's raw records; in a quarantine file those that are in it. None: not counted.
        quarantined: how many of them are in the range's quarantine file instead; where 0, there is no such file.
        dropped: how many of them are nowhere.
        quarantine_checksum: that of the quarantine file's rows.
    """

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
    aggregates: Aggregates | None = None
    records: int | None = None
    quarantined: int = 0
    dropped: int = 0
    quarantine_checksum: str | None = None


_LATER = ("aggregates", "records", "quarantined", "dropped", "quarantine_checksum")


@contextlib.contextmanager
def parquet_writer(path: Path, schema: pa.Schema, dictionary: list[str]) -> Iterator[pq.ParquetWriter]:
    """A writer that puts its footer behind the file only if all went well; its own context manager always does.

    Args:
        dictionary: the columns whose values repeat.
    """
    with pa.OSFile(str(path), "wb") as file:
        writer = pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=dictionary,
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


def put_footer(writer: pq.ParquetWriter, footer: Footer) -> None:
    """Let a file's footer say what is in it."""
    facts = {field: getattr(footer, field) for field in Footer.__slots__}
    writer.add_key_value_metadata({_PREFIX + key: json.dumps(value) for key, value in facts.items()})


def read_footer(home: Home, key: str) -> Footer:
    """The footer of a data file, or of a quarantine's.

    Raises:
        ConflictError: the file is damaged, or not one of ours.
        OSError: it cannot be read; FileNotFoundError where it is not there.
    """
    path = home.url(key)
    try:
        with home.open(key) as file:
            metadata = pq.read_metadata(file)
        stored = metadata.metadata or {}
        left_out = () if (_PREFIX + _LATER[0]).encode() in stored else _LATER
        fields = [field for field in Footer.__slots__ if field not in left_out]
        footer = Footer(**{field: json.loads(stored[(_PREFIX + field).encode()]) for field in fields})
    except (pa.ArrowException, KeyError, ValueError, TypeError, RecursionError) as exc:
        raise _damaged(path, exc) from exc
    except OSError as exc:
        if exc.errno is None:  # what Arrow says of bytes that it cannot decode
            raise _damaged(path, exc) from exc
        raise
    if footer.rows != metadata.num_rows:
        raise ConflictError(f"{path} is damaged", expected=f"{footer.rows} rows", found=f"{metadata.num_rows} rows")
    return footer


def checksum_of_file(home: Home, key: str, schema: pa.Schema = SCHEMA) -> RowsChecksum:
    """The checksum recomputed from a file's rows, row group by row group.

    Raises:
        ConflictError: the file's rows cannot be read.
    """
    checksum = RowsChecksum(schema)
    try:
        with home.open(key) as opened, pq.ParquetFile(opened) as file:
            if not file.schema_arrow.equals(schema):  # the checksum is of values, not of what they are called
                raise ValueError(f"columns other than {', '.join(schema.names)}")
            for rows in file.iter_batches(batch_size=8192):
                checksum.update(rows)
    except (pa.ArrowException, ValueError, OSError) as exc:
        raise ConflictError(f"the rows of {home.url(key)} cannot be read ({exc})") from exc
    return checksum


def _damaged(path: str, exc: Exception) -> ConflictError:
    return ConflictError(
        f"{path} is damaged, or was not written by Shardlake ({exc})",
        todo="Move it away and run the ingest step again, as long as the stream retains its records",
    )
