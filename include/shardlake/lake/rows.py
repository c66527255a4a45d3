"""The columns of a data file, and the checksum of rows.

Grain: one row a user record. Order: sequence number, then sub-sequence number. `shard_id` is not a column of the
file: readers take it from the folder's name, so it is there once.
"""

from __future__ import annotations

import hashlib
import struct

import pyarrow as pa
import pyarrow.compute as pc

from shardlake.kinesis.page import Page

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


def rows_of(page: Page, stream: str) -> pa.RecordBatch:
    """A page's records as rows. GetRecords tells no explicit hash key, and a plain record has sub-sequence number 0."""
    count = len(page)
    arrivals = pa.array(page.arrivals_ms, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    columns = [
        pa.repeat(pa.scalar(stream), count),
        pa.array(page.sequence_numbers, pa.string()),
        pa.repeat(pa.scalar(0, pa.int32()), count),
        pa.array(page.partition_keys, pa.string()),
        pa.nulls(count, pa.string()),
        arrivals,
        pa.array(page.data, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class RowsChecksum:
    """SHA-256 over rows of `SCHEMA`, column by column: it does not depend on how the rows are cut into batches.

    Per column one digest of the values' bytes and one of their lengths (-1 for null); over all of them and the number
    of rows the final one.
    """

    def __init__(self) -> None:
        self._columns = [(hashlib.sha256(), hashlib.sha256()) for _ in SCHEMA]
        self.rows = 0

    def update(self, rows: pa.RecordBatch) -> None:
        """Add rows behind those added before."""
        self.rows += rows.num_rows
        for array, (lengths, values) in zip(rows.columns, self._columns, strict=True):
            if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
                lengths.update(_fixed_width_bytes(pc.binary_length(array).fill_null(-1)))
                values.update(_variable_width_bytes(array))
            else:
                values.update(_fixed_width_bytes(array))

    def hexdigest(self) -> str:
        """The checksum of all rows so far."""
        digests = b"".join(lengths.digest() + values.digest() for lengths, values in self._columns)
        return hashlib.sha256(struct.pack("<q", self.rows) + digests).hexdigest()


def _fixed_width_bytes(array: pa.Array) -> memoryview:
    width = array.type.bit_width // 8
    values = array.buffers()[1]
    return memoryview(values or b"")[array.offset * width : (array.offset + len(array)) * width]


def _variable_width_bytes(array: pa.Array) -> memoryview:
    _, offsets, values = array.buffers()
    if not len(array) or values is None:
        return memoryview(b"")
    ends = memoryview(offsets).cast("i")
    return memoryview(values)[ends[array.offset] : ends[array.offset + len(array)]]
