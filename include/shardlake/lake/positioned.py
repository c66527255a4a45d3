"""A file of a known size that is read from any position: what botocore sends, and what pyarrow reads."""

from __future__ import annotations

import io


class Positioned(io.RawIOBase):
    """Keeps the position; who derives from it reads there, in `readinto`.

    Args:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        self._size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at
