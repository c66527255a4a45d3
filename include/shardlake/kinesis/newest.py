"""Records near a shard's tip, looked for back from now by arrival time: no iterator type gives the newest record."""

from __future__ import annotations

from shardlake.kinesis.client import MAX_PAGE_RECORDS, Kinesis
from shardlake.kinesis.page import Page
from shardlake.kinesis.pages import first_page, pages
from shardlake.ranges import SequenceNumber

FIRST_LOOK_BACK_MS = 2_000
GROWTH = 4
LOOK_RECORDS = 1_000


def newest_record(kinesis: Kinesis, shard_id: str, now_ms: int, retention_ms: int) -> SequenceNumber | None:
    """The newest record of an open shard, None where it retains none.

    Looks back from now in growing steps until there is something, then narrows the gap until one page reaches the tip.

    Args:
        now_ms: the service's time, milliseconds since the epoch.
    """
    horizon_ms, nothing_from_ms, look_back_ms = now_ms - retention_ms, now_ms, FIRST_LOOK_BACK_MS
    while True:
        from_ms = max(now_ms - look_back_ms, horizon_ms)
        found = _page_from(kinesis, shard_id, from_ms, LOOK_RECORDS)
        if len(found):
            break
        if from_ms == horizon_ms:
            return None
        nothing_from_ms, look_back_ms = from_ms, look_back_ms * GROWTH
    while not found.at_tip and nothing_from_ms - from_ms > 1_000:
        middle_ms = (from_ms + nothing_from_ms) // 2
        page = _page_from(kinesis, shard_id, middle_ms, LOOK_RECORDS)
        if len(page):
            found, from_ms = page, middle_ms
        else:
            nothing_from_ms = middle_ms
    newest = found.last
    if not found.at_tip and found.next_iterator:
        for page in pages(kinesis, found.next_iterator):
            newest = page.last or newest
    return newest


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
