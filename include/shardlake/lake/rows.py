"""The columns of a data file, and the checksum of rows.

Grain: one row a user record. Order: sequence number, then sub-sequence number. `shard_id` is not a column of the
file: readers take it from the folder's name, so it is there once.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardlake.kinesis.user_records import UserRecords
from shardlake.lake.columns import binaries, numbers, same_text, texts, texts_or_nulls, timestamps

SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string(), nullable=False),
        pa.field("sequence_number", pa.string(), nullable=False),
        pa.field("sub_sequence_number", pa.int32(), nullable=False),
        pa.field("partition_key", pa.string(), nullable=False),
        pa.field("explicit_hash_key", pa.string()),
        pa.field("approximate_arrival_timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)


def rows_of(records: UserRecords, stream: str) -> pa.RecordBatch:
    """User records as rows. A record that is no aggregate's has sub-sequence number 0 and no explicit hash key."""
    count, subs, hash_keys = len(records), records.sub_sequence_numbers, records.explicit_hash_keys
    columns = [
        same_text(stream, count),
        texts(records.sequence_numbers),
        numbers(np.zeros(count, np.int32) if subs is None else np.array(subs, np.int32)),
        texts(records.partition_keys),
        pa.nulls(count, pa.string()) if hash_keys is None else texts_or_nulls(hash_keys),
        timestamps(records.arrivals_ms),
        binaries(records.data),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class RowsChecksum:
    """SHA-256 over rows of a schema, column by column: it does not depend on how the rows are cut into batches.

    Per column one digest of the values' bytes and one of their lengths (-1 for null); over all of them and the number
    of rows the final one.
    """

    def __init__(self, schema: pa.Schema = SCHEMA) -> None:
        self._columns = [(hashlib.sha256(), hashlib.sha256()) for _ in schema]
        self.rows = 0

    def update(self, rows: pa.RecordBatch) -> None:
        """Add rows behind those added before."""
        self.rows += rows.num_rows
        for column, (lengths, values) in zip(rows.columns, self._columns, strict=True):
            if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
                lengths.update(lengths_of(column).data)
                values.update(_variable_width_bytes(column))
            else:
                values.update(_fixed_width_bytes(column))

    def hexdigest(self) -> str:
        """The checksum of all rows so far."""
        digests = b"".join(lengths.digest() + values.digest() for lengths, values in self._columns)
        return hashlib.sha256(struct.pack("<q", self.rows) + digests).hexdigest()


def data_bytes(rows: pa.RecordBatch) -> int:
    """The sum of the sizes of the records' data, in bytes."""
    return len(_variable_width_bytes(rows.column("data")))


def lengths_of(column: pa.Array) -> NDArray[np.int32]:
    """The lengths of a string or binary column's values; -1 for null."""
    lengths = np.diff(_ends(column))
    if column.null_count:
        first, offset = divmod(column.offset, 8)
        valid = np.unpackbits(np.frombuffer(column.buffers()[0], np.uint8)[first:], bitorder="little")
        lengths[valid[offset : offset + len(column)] == 0] = -1
    return lengths


# Buffers are read as they are: the first use of a pyarrow compute kernel takes 45 MiB of memory.


def _fixed_width_bytes(column: pa.Array) -> memoryview:
    width = column.type.bit_width // 8
    values = column.buffers()[1]
    return memoryview(values or b"")[column.offset * width : (column.offset + len(column)) * width]


def _variable_width_bytes(column: pa.Array) -> memoryview:
    values, ends = column.buffers()[2], _ends(column)
    return memoryview(values)[ends[0] : ends[-1]] if values and len(column) else memoryview(b"")


def _ends(column: pa.Array) -> NDArray[np.int32]:
    """Where the values of a string or binary column begin and end in its buffer: one more than there are values."""
    return np.frombuffer(column.buffers()[1] or bytes(4), np.int32)[column.offset : column.offset + len(column) + 1]
