"""Records near a shard's tip, looked for back from now by arrival time: no iterator type gives the newest record."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from shardlake.kinesis.client import MAX_PAGE_RECORDS, Kinesis
from shardlake.kinesis.page import Page
from shardlake.kinesis.pages import first_page, pages
from shardlake.ranges import SequenceNumber

FIRST_LOOK_BACK_MS = 2_000
GROWTH = 4
LOOK_RECORDS = 1_000
"""Records of one look: about what a shard takes in in a second. Larger pages would eat up other readers' quota."""


def newest_record(
    kinesis: Kinesis, shard_id: str, to_ms: int, horizon_ms: int, before: SequenceNumber | None = None
) -> SequenceNumber | None:
    """The newest record of a shard, None where it retains none.

    Looks back in growing steps until there is something, then narrows the gap until one page reaches the end.

    Args:
        to_ms: where to look back from, milliseconds since the epoch: the service's time, or when `before` arrived.
        horizon_ms: how far to look back at most.
        before: where the shard's records count as ended: the one before this is the newest.
    """
    nothing_from_ms, look_back_ms = to_ms, FIRST_LOOK_BACK_MS

    def page_from(from_ms: int) -> Page:
        return _before(_page_from(kinesis, shard_id, from_ms, LOOK_RECORDS), before)

    while True:
        from_ms = max(to_ms - look_back_ms, horizon_ms)
        found = page_from(from_ms)
        if len(found):
            break
        if from_ms == horizon_ms:
            return None
        nothing_from_ms, look_back_ms = from_ms, look_back_ms * GROWTH
    while not found.at_tip and nothing_from_ms - from_ms > 1_000:
        middle_ms = (from_ms + nothing_from_ms) // 2
        page = page_from(middle_ms)
        if len(page):
            found, from_ms = page, middle_ms
        else:
            nothing_from_ms = middle_ms
    newest = found.last
    if not found.at_tip and found.next_iterator:
        for page in pages(kinesis, found.next_iterator, LOOK_RECORDS):
            part = _before(page, before)
            newest = part.last or newest
            if part.at_tip:
                break
    return newest


def _before(page: Page, end: SequenceNumber | None) -> Page:
    """The page, ended like one at the tip where `end` or what follows it would come."""
    if end is None or page.last is None or page.last < end:
        return page
    return replace(page.rows(0, bisect_left(page.sequence_numbers, int(end), key=int)), millis_behind_latest=0)


def page_near_tip(kinesis: Kinesis, shard_id: str, from_ms: int, to_ms: int, shares: tuple[int, ...]) -> Page:
    """A page of records that arrived late in a stretch of time, found with one look for each of `shares`.

    Every look goes back from the stretch's end by one share of its length, 1 being all of it. What is found need not be
    the newest record: a next call, with a shorter stretch, gets closer.

    Returns:
        A page without records where there are none at all.
    """
    for share in shares:
        look_back_ms = max((to_ms - from_ms) // share, FIRST_LOOK_BACK_MS)
        page = _page_from(kinesis, shard_id, max(to_ms - look_back_ms, from_ms), MAX_PAGE_RECORDS)
        if len(page):
            break
    return page


def _page_from(kinesis: Kinesis, shard_id: str, at_ms: int, limit: int) -> Page:
    return first_page(kinesis, kinesis.iterator_from_time(shard_id, at_ms), limit)
