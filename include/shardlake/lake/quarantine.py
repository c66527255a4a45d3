"""The quarantine: raw records that could not be unpacked as they should, beside the data, with the reason.

Grain: one row a raw record. Order: sequence number. Names are those of the data files, and both become visible with
one commit: the quarantine file is published first, and the data file's footer says that it has to be there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from shardlake.errors import ConflictError
from shardlake.kinesis.user_records import SetAside
from shardlake.lake.columns import binaries, same_text, texts, timestamps
from shardlake.lake.footer import Footer, read_footer
from shardlake.lake.home import Home
from shardlake.lake.owner import refuse_other
from shardlake.lake.rows import RowsChecksum
from shardlake.names import FileKey

QUARANTINE_SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string(), nullable=False),
        pa.field("sequence_number", pa.string(), nullable=False),
        pa.field("partition_key", pa.string(), nullable=False),
        pa.field("approximate_arrival_timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)

BATCH_ROWS = 1_024
BATCH_BYTES = 4 * 2**20
"""Rows are handed on when they are this many, or their data this large: cut by the rows alone, like a data file's."""


class QuarantineRows:
    """Takes what is set aside, and hands it on as rows, some at a time.

    Args:
        stream: the stream's name.
        write: takes the rows.
    """

    def __init__(self, stream: str, write: Callable[[pa.RecordBatch], None]) -> None:
        self._stream, self._write = stream, write
        self._waiting, self._bytes = list[SetAside](), 0
        self._checksum, self._data_bytes = RowsChecksum(QUARANTINE_SCHEMA), 0

    def add(self, record: SetAside) -> None:
        """Set a record aside."""
        self._waiting.append(record)
        self._bytes += len(record.data)
        if len(self._waiting) == BATCH_ROWS or self._bytes >= BATCH_BYTES:
            self._hand_on()

    def checksum(self) -> RowsChecksum:
        """The checksum of all rows, once there are no more."""
        if self._waiting:
            self._hand_on()
        return self._checksum

    def footer(self, data: Footer) -> Footer:
        """What the footer of the quarantine file says, that of the range's data file being `data`."""
        checksum = self.checksum()
        return replace(
            data,
            rows=checksum.rows,
            data_bytes=self._data_bytes,
            checksum=checksum.hexdigest(),
            records=checksum.rows,
            quarantined=0,
            dropped=0,
            quarantine_checksum=None,
        )

    def _hand_on(self) -> None:
        columns = [
            same_text(self._stream, len(self._waiting)),
            texts([each.sequence_number for each in self._waiting]),
            texts([each.partition_key for each in self._waiting]),
            timestamps([each.arrival_ms for each in self._waiting]),
            binaries([each.data for each in self._waiting]),
            texts([each.reason for each in self._waiting]),
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=QUARANTINE_SCHEMA)
        self._checksum.update(rows)
        self._write(rows)
        self._data_bytes += self._bytes
        self._waiting, self._bytes = [], 0


def quarantine_footer(home: Home, key: FileKey) -> Footer | None:
    """The footer of a range's quarantine file, or None where there is no such file.

    Raises:
        ConflictError: it is damaged.
        OSError: it cannot be read; `home.errors` translates it.
    """
    try:
        return read_footer(home, key.quarantine)
    except FileNotFoundError:
        return None


def check_quarantine(home: Home, key: FileKey, data: Footer) -> None:
    """Check that the quarantine file is the one that the footer of the data file speaks of, if it does.

    Raises:
        ConflictError: it is damaged, or another one, or not there.
        OSError: it cannot be read; `home.errors` translates it.
    """
    if not data.quarantined:
        return
    footer = quarantine_footer(home, key)
    if footer is None:
        raise ConflictError(
            f"the quarantine of range {data.shard_id} {data.start} through {data.through} is not there",
            expected=f"{data.quarantined} records in {home.url(key.quarantine)}",
            todo="Put the file back, or give the range up with `shardlake abandon`",
        )
    expected = {name: getattr(data, name) for name in ("pipeline", "stream_arn", "stream_created_at_ms", "shard_id")}
    expected |= {"start": data.start, "through": data.through}
    found = {name: getattr(footer, name) for name in expected}
    refuse_other(found, expected, f"the file {key.quarantine} is another's")
    if (footer.rows, footer.checksum) != (data.quarantined, data.quarantine_checksum):
        raise ConflictError(
            f"the quarantine file {key.quarantine} is not the data file's",
            expected=f"{data.quarantined} records with checksum {data.quarantine_checksum}",
            found=f"{footer.rows} records with checksum {footer.checksum}",
            todo="Likely cause: another code version wrote one of them. Give the range up with `shardlake abandon`",
        )
