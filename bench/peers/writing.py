"""What all peers write with: zstd Parquet of pyarrow, the columns of Shardlake's files, a file for each shard.

There is no checksum, no range in the footer, no publishing under a final name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP_ROWS = 32_768
"""About as many as a row group of Shardlake's files has."""

COLUMNS = {
    "sequence_number": pa.string(),
    "partition_key": pa.string(),
    "approximate_arrival_timestamp": pa.timestamp("us", "UTC"),
    "data": pa.binary(),
}


class ShardFile:
    """The file of one shard, or of whatever a peer can tell apart. Rows are kept until they are a row group.

    Args:
        columns: those of `COLUMNS` that the peer knows the values of.
    """

    def __init__(self, folder: str, stream: str, name: str, columns: tuple[str, ...] = tuple(COLUMNS)) -> None:
        self._stream, self._rows = stream, 0
        self._values: Mapping[str, list[Any]] = {column: [] for column in columns}
        fields = [pa.field("stream", pa.string(), nullable=False)]
        fields += [pa.field(column, COLUMNS[column], nullable=False) for column in columns]
        self._schema = pa.schema(fields)
        dictionary = [column for column in ("stream", "partition_key") if column in self._schema.names]
        path = Path(folder) / f"{name}.parquet"
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd", use_dictionary=dictionary)

    def add(self, **values: list[Any]) -> None:
        """Add rows, column by column."""
        for column, each in values.items():
            self._values[column].extend(each)
        self._rows += len(values["data"])
        if self._rows >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        columns = [pa.repeat(pa.scalar(self._stream), self._rows)]
        columns += [pa.array(values, COLUMNS[column]) for column, values in self._values.items()]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        for values in self._values.values():
            values.clear()
        self._rows = 0

    def close(self) -> None:
        """Write what is left, and the footer."""
        if self._rows:
            self._flush()
        self._writer.close()
