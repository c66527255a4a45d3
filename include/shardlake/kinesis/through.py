"""Where a range ends: a record seen a window ahead, or near the tip, found with a few cheap calls.

Calls per shard, GetShardIterator counted: 2 where one page reaches the tip or the end (so also for an idle shard,
however long it has been idle), 4 behind the tip, up to 8 near it; 3 more where the first page has no more than the
position's record. At most about one full page is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardlake.caught_up import CaughtUp
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.newest import page_near_tip
from shardlake.kinesis.page import Page
from shardlake.kinesis.pages import first_page, page_at
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start, Through
from shardlake.shards import Shard

LOOK_RECORDS = 1_000
"""Records of the first look at a shard: enough to see the tip of a quiet one and to estimate a busy one's rate."""

NEAR_TIP_MS = 60_000
"""A shard whose range ends less than this behind its tip counts as caught up."""

MAX_BYTES_PER_S = 2**20
"""What a shard takes in (service limit): a burst tells nothing of the rate behind it."""

LOOKS_FROM_NOW: tuple[int, ...] = (64, 8, 1)
LOOKS_FROM_WINDOW_END: tuple[int, ...] = (16, 1)
"""How far to look back for records near the tip; two calls each."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a range may reach: by arrival time, and by bytes (an estimate from the first page).

    Attributes:
        end: where the records that count end, a record seen or the shard's end: a range may reach there without a look
            for the tip. None: nobody knows.
    """

    window_ms: int
    range_bytes: int
    end: Through | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A range to pin; `behind` says that a next one should be planned soon."""

    range: SequenceRange
    behind: bool


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The record that reading would begin with is gone, and others may have gone with it.

    Attributes:
        oldest: the oldest record left; None where nothing is left.
        at_end: nothing can follow: the shard is closed.
    """

    oldest: SequenceNumber | None
    at_end: bool


def find_range(
    kinesis: Kinesis, shard: Shard, start: Start, caught_up: CaughtUp | None, retention_ms: int, limits: Limits
) -> Found | CaughtUp | Trimmed:
    """The next range of a shard whose position is `start`, or the note that there is none.

    Args:
        caught_up: the last note that the shard had nothing after `start`.
        retention_ms: the stream's retention now.
    """
    page = page_at(kinesis, shard.shard_id, start.number, LOOK_RECORDS)
    if is_trimmed(page, start, caught_up, retention_ms):
        return Trimmed(page.first, page.at_end)
    if page.first is not None and start == Start("AFTER", page.first):
        page = page.rows(1)
        if page.next_iterator and not page.at_tip and not len(page):
            page = first_page(kinesis, page.next_iterator, LOOK_RECORDS)
            again = page_at(kinesis, shard.shard_id, start.number, limit=1)  # trimming may have come in between
            if is_trimmed(again, start, caught_up, retention_ms):
                return Trimmed(again.first, again.at_end)
    if not len(page):
        if not page.at_end:
            return CaughtUp(start.key, page.service_time_ms, retention_ms)
        return Found(SequenceRange(shard.shard_id, start, SHARD_END, anchor=None), behind=False)
    through, behind = _through(kinesis, shard, page, retention_ms, limits)
    return Found(SequenceRange(shard.shard_id, start, through, anchor=page.first), behind)


def is_trimmed(page: Page, start: Start, caught_up: CaughtUp | None, retention_ms: int) -> bool:
    """Whether records after `start` may be gone, by the first page from its number on."""
    return not _follows(page.first, start) and _may_have_lost(page, caught_up, retention_ms)


def _follows(first: SequenceNumber | None, start: Start) -> bool:
    """Whether a read from the start's number on that gives `first` first has found its place."""
    return first is not None and (first == start.number or first.plus(-1).key == start.key)


def _may_have_lost(page: Page, caught_up: CaughtUp | None, retention_ms: int) -> bool:
    """Whether records may have come after the position and gone again."""
    return caught_up is None or not caught_up.rules_out_loss(page.service_time_ms, retention_ms)


def _through(kinesis: Kinesis, shard: Shard, page: Page, retention_ms: int, limits: Limits) -> tuple[Through, bool]:
    """The end of a range that begins with `page`'s records, and whether to plan a next one soon."""
    last = page.number(-1)
    fitting = _fitting(page, limits)
    if fitting < len(page):
        return page.number(fitting - 1), True
    if page.at_end:
        return SHARD_END, False
    if page.at_tip:
        return last, _ages(page, retention_ms)
    if sum(map(len, page.data)) >= limits.range_bytes:
        return last, True
    window_end_ms, looks = _window_end_ms(page, limits), LOOKS_FROM_NOW
    tip_ms = page.service_time_ms
    if window_end_ms < tip_ms:
        ahead = first_page(kinesis, kinesis.iterator_from_time(shard.shard_id, window_end_ms), limit=1)
        if ahead.first and ahead.at_end:
            return SHARD_END, False  # the shard's last record: behind it an empty range would be left
        if ahead.first:
            return max(ahead.first, last), True
        tip_ms, looks = window_end_ms, LOOKS_FROM_WINDOW_END
    if limits.end is not None:
        return max(limits.end, last, key=lambda through: through.key), False
    if shard.closed:
        return SHARD_END, False
    newest = page_near_tip(kinesis, shard.shard_id, max(page.arrivals_ms), tip_ms, looks)
    behind = newest.millis_behind_latest > NEAR_TIP_MS or _ages(newest, retention_ms)
    return max(newest.last or last, last), behind


def _ages(page: Page, retention_ms: int) -> bool:
    """Whether the last record may be gone before the next plan looks for it.

    Then a plan has to follow soon, to note that nothing was behind that record: without the note this would be a loss.
    """
    return len(page) > 0 and page.service_time_ms - page.arrivals_ms[-1] > retention_ms // 2


def _fitting(page: Page, limits: Limits) -> int:
    """How many of the page's records fit in the limits; at least one, so that a range always advances."""
    window_end_ms, total = min(page.arrivals_ms) + limits.window_ms, 0
    for row, data in enumerate(page.data):
        total += len(data)
        if total > limits.range_bytes or page.arrivals_ms[row] > window_end_ms:
            return max(row, 1)
    return len(page)


def _window_end_ms(page: Page, limits: Limits) -> int:
    """When the window ends, or the byte limit's worth of records has arrived at the page's own rate; a whole second."""
    begin_ms = min(page.arrivals_ms)
    span_ms, page_bytes = max(page.arrivals_ms) - begin_ms, max(sum(map(len, page.data)), 1)
    of_bytes_ms = max(span_ms * limits.range_bytes // page_bytes, limits.range_bytes * 1000 // MAX_BYTES_PER_S)
    return -(-(begin_ms + min(limits.window_ms, of_bytes_ms)) // 1000) * 1000


def still_there(kinesis: Kinesis, range_: SequenceRange) -> Trimmed | None:
    """Whether an open range can still be read from its anchor: None if so, else what is left of its shard."""
    if range_.anchor is None:
        return None
    page = page_at(kinesis, range_.shard_id, range_.anchor, limit=1)
    if page.first is not None and range_.begins_with(page.first):
        return None
    return Trimmed(page.first, page.at_end)
