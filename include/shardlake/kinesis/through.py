"""Where a range ends: a record seen a window ahead, or near the tip, found with a few cheap calls.

Calls per shard, GetShardIterator counted: 2 where one page reaches the tip or the end (so also for an idle shard,
however long it has been idle), 4 behind the tip, 4 and two more per look back near it. At most one full page is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardlake.kinesis.client import Kinesis, Page
from shardlake.kinesis.pages import first_page, page_at
from shardlake.kinesis.start import newest_page
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start, Through
from shardlake.shards import Shard

LOOK_RECORDS = 1_000
"""Records of the first look at a shard: enough to see the tip of a quiet one and to estimate a busy one's rate."""

NEAR_TIP_MS = 60_000
"""A shard whose range ends less than this behind its tip counts as caught up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a range may reach: by arrival time, and by bytes (an estimate from the first page)."""

    window_ms: int
    range_bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """A range to pin; `behind` says that records are left for a next one."""

    range: SequenceRange
    behind: bool


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing after the position, as of the service's time."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The record that reading would begin with is gone, and others may have gone with it.

    Attributes:
        oldest: the oldest record left; None where nothing is left.
        at_end: the shard is closed, and nothing follows `oldest` (or the position, where it is None).
    """

    oldest: SequenceNumber | None
    at_end: bool


def find_range(
    kinesis: Kinesis, shard: Shard, start: Start, caught_up_at_ms: int | None, retention_ms: int, limits: Limits
) -> Found | Idle | Trimmed:
    """The next range of a shard whose position is `start`.

    Args:
        caught_up_at_ms: when the shard was last seen to have nothing after `start`. What arrived since then is
            retained as long as that is less than the retention ago, so a position trimmed meanwhile lost nothing.
    """
    page = page_at(kinesis, shard.shard_id, start.number, LOOK_RECORDS)
    first = page.number(0) if len(page) else None
    untrimmed = first is not None and (first == start.number or first.plus(-1).key == start.key)
    if not untrimmed and (caught_up_at_ms is None or caught_up_at_ms < page.service_time_ms - retention_ms):
        return Trimmed(first, page.at_end)
    if first is not None and start == Start("AFTER", first):
        page = page.rows(1)
        if not len(page) and not page.at_tip:
            assert page.next_iterator is not None
            page = first_page(kinesis, page.next_iterator, LOOK_RECORDS)
    if page.at_end:
        return Found(SequenceRange(shard.shard_id, start, SHARD_END, first), behind=False)
    if not len(page):
        return Idle(page.service_time_ms)
    through, behind = _through(kinesis, shard, page, limits)
    return Found(SequenceRange(shard.shard_id, start, through, first or page.number(0)), behind)


def _through(kinesis: Kinesis, shard: Shard, page: Page, limits: Limits) -> tuple[Through, bool]:
    """The end of a range that begins with `page`'s records, and whether more is left behind it."""
    fitting = _fitting(page, limits.range_bytes)
    if fitting < len(page):
        return page.number(fitting - 1), True
    if page.at_tip:
        return page.number(-1), False
    window_end_ms = min(page.arrivals_ms) + min(limits.window_ms, _time_of_bytes_ms(page, limits.range_bytes))
    if window_end_ms < page.service_time_ms:
        ahead = first_page(kinesis, kinesis.iterator_from_time(shard.shard_id, window_end_ms), limit=1)
        if len(ahead):
            return max(ahead.number(0), page.number(-1)), True
    if shard.closed:
        return SHARD_END, False
    newest = newest_page(kinesis, shard.shard_id, page.service_time_ms, not_before_ms=max(page.arrivals_ms))
    if newest is None:
        return page.number(-1), True
    return max(newest.number(-1), page.number(-1)), newest.millis_behind_latest > NEAR_TIP_MS


def _fitting(page: Page, range_bytes: int) -> int:
    """How many of the page's records fit in the byte limit; at least one, so that a range always advances."""
    total = 0
    for row, data in enumerate(page.data):
        total += len(data)
        if total > range_bytes:
            return max(row, 1)
    return len(page)


def _time_of_bytes_ms(page: Page, range_bytes: int) -> int:
    """How long it took the byte limit's worth of records to arrive, at the page's own rate."""
    span_ms = max(page.arrivals_ms) - min(page.arrivals_ms)
    page_bytes = max(sum(map(len, page.data)), 1)
    return max(span_ms, 1) * range_bytes // page_bytes


def still_there(kinesis: Kinesis, range_: SequenceRange) -> Trimmed | None:
    """Whether an open range can still be read from its anchor: None if so, else what is left of its shard."""
    if range_.anchor is None:
        return None
    page = page_at(kinesis, range_.shard_id, range_.anchor, limit=1)
    if len(page) and range_.begins_with(page.number(0)):
        return None
    return Trimmed(page.number(0) if len(page) else None, page.at_end)


