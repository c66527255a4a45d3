"""How many pages the readers of a worker hold at once: decoding and writing one takes many times its size.

What is in a reader's hands counts, from the call for a page until its rows have been passed on. Readers that wait, for
their shard's quota or for trouble to pass, hold none, so a few are enough for many readers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Hands:
    """Those of one reader.

    Args:
        free: how many more pages the readers that share it may hold; None: as many as they like.
    """

    def __init__(self, free: threading.Semaphore | None = None) -> None:
        self._free, self._full = free, False

    def take(self) -> None:
        """Wait until a page may be taken."""
        if self._free:
            self._free.acquire()
            self._full = True

    def let_go(self) -> None:
        """Let another reader take one, if this one holds one."""
        if self._free and self._full:
            self._full = False
            self._free.release()

    @contextlib.contextmanager
    def empty(self) -> Iterator[None]:
        """Hold none for the length of a `with` block."""
        full = self._full
        self.let_go()
        try:
            yield
        finally:
            if full:
                self.take()
