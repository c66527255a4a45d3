"""Whether trimming has overtaken a reading. Where it has, the service goes on at the oldest record left, unasked.

What was read behind a record is complete if that record is still there afterwards: a shard is trimmed from its
beginning on. So one record in many is looked up again: often near the horizon, and rarely far from it, because the
retention that is known from planning may have been lowered since.
"""

from __future__ import annotations

from collections.abc import Callable

from shardlake.kinesis.page import Page
from shardlake.ranges import SequenceNumber

NEAR_HORIZON = 0.9
"""Share of the retention after which a record may be trimmed before those behind it are read."""

FAR_PAGES = 100
"""Far from the horizon, pages from one look to the next: two calls in a hundred."""


class Continuity:
    """The proof that a reading has no gap, page after page.

    Args:
        retention_ms: the stream's retention as it was when planning.
        check_retained: raises if a record is gone.
    """

    def __init__(self, retention_ms: int, check_retained: Callable[[SequenceNumber], None]) -> None:
        self._near_ms, self._check = NEAR_HORIZON * retention_ms, check_retained
        self._proven: tuple[SequenceNumber, int] | None = None
        self._pages = 0

    def follow(self, page: Page) -> None:
        """Take note of a page, and prove it with those before it where that is due.

        Raises:
            DataLossError: from `check_retained`.
        """
        if self._proven:
            self._pages += 1
            if self._pages < FAR_PAGES and page.service_time_ms - self._proven[1] <= self._near_ms:
                return
            self.prove()
        self._proven = page.number(-1), page.arrivals_ms[-1]

    def prove(self) -> None:
        """Prove every page followed so far. One page alone has no gap.

        Raises:
            DataLossError: from `check_retained`.
        """
        if self._proven and self._pages:
            self._check(self._proven[0])
        self._pages = 0
