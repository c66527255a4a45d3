"""The rows of a row group that is not complete yet, in a file: what waits takes no memory of the worker's.

A worker reads many ranges side by side, as each of them waits for its shard's quota, and each would hold up to a row
group. The file has no name, so it is gone with its process. It is where this machine has its temporary files.
"""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa


class PendingRows:
    """Takes rows piece by piece, and gives them back as a table."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._file: IO[bytes] | None = None

    def add(self, piece: pa.RecordBatch) -> None:
        """Put rows behind those that are there.

        Raises:
            OSError: the disk does not take them.
        """
        with _named():
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 (open until the rows are taken)
                self._sink = pa.OSFile(f"/dev/fd/{self._file.fileno()}", "wb")
                self._writer = pa.ipc.new_stream(self._sink, self._schema)
            self._writer.write_batch(piece)

    def take(self) -> pa.Table:
        """All rows since the last time, in pieces as they came: they are read where they lie.

        Raises:
            OSError: the disk does not take them.
        """
        if self._file is None:
            return self._schema.empty_table()
        with _named():
            self._writer.close()
            self._sink.close()
        there = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self.close()
        return pa.ipc.open_stream(pa.py_buffer(there)).read_all()

    def close(self) -> None:
        """Give up what was not taken."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """Have an error name the place, which may be another disk than the dataset's."""
    try:
        yield
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, tempfile.gettempdir()) from exc
