"""Following a shard page by page, past empty pages, until there is something to decide on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shardlake.errors import UnavailableError
from shardlake.kinesis.client import MAX_PAGE_RECORDS, Kinesis
from shardlake.kinesis.failures import IteratorExpiredError
from shardlake.kinesis.page import Page
from shardlake.ranges import SequenceNumber

EMPTY_PAGE_WAIT_S = 0.2
"""A shard allows five calls a second; pages with records take longer than that to come."""

HORIZON_CHECK = 10
"""After how many empty pages the shard's horizon is asked whether the position has been trimmed."""


def pages(kinesis: Kinesis, iterator: str, limit: int = MAX_PAGE_RECORDS) -> Iterator[Page]:
    """The pages from an iterator on, empty ones included, ending with one at the tip or at the shard's end.

    An empty page is legal anywhere, also with records ahead, so it never ends the walk by itself. One that is nearer to
    the tip than the page before is progress, as records are: sparse ones lie behind many empty pages.

    Raises:
        UnavailableError: no progress for longer than the budget.
    """
    behind_ms = 0
    while True:
        page = kinesis.get_records(iterator, limit)
        if len(page) or page.at_tip or page.millis_behind_latest < behind_ms:
            kinesis.budget.renew()
        yield page
        if page.next_iterator is None or page.at_tip:
            return
        if not len(page):
            kinesis.budget.wait(EMPTY_PAGE_WAIT_S, _only_empty_pages(kinesis))
        iterator, behind_ms = page.next_iterator, page.millis_behind_latest


def _only_empty_pages(kinesis: Kinesis) -> UnavailableError:
    return UnavailableError(
        f"nothing but empty pages from stream {kinesis.stream_name}, with data ahead",
        todo="Run the step again; the service is not giving its records out",
    )


def first_page(kinesis: Kinesis, iterator: str, limit: int) -> Page:
    """The first page from an iterator on that has records, or the one at the tip or the end, which may have none."""
    for page in pages(kinesis, iterator, limit):
        if len(page) or page.at_tip:
            return page
    raise AssertionError("the walk ends with a page at the tip, or raises")


def page_at(kinesis: Kinesis, shard_id: str, number: SequenceNumber, limit: int = MAX_PAGE_RECORDS) -> Page:
    """The first page from AT `number` on that has records, or that says there are none.

    A trimmed position may answer with minutes of empty pages: then the oldest record that is left decides, so the
    page returned begins with it.
    """
    return unexpired(kinesis, lambda: _page_at(kinesis, shard_id, number, limit))


def _page_at(kinesis: Kinesis, shard_id: str, number: SequenceNumber, limit: int) -> Page:
    walk = pages(kinesis, kinesis.iterator_at(shard_id, "AT_SEQUENCE_NUMBER", number), limit)
    for count, page in enumerate(walk, start=1):
        if len(page) or page.at_tip:
            return page
        if count == HORIZON_CHECK:
            oldest = first_page(kinesis, kinesis.iterator_at_horizon(shard_id), limit)
            if oldest.first is None or oldest.first > number:
                return oldest
    raise AssertionError("the walk ends with a page at the tip, or raises")


def unexpired(kinesis: Kinesis, walk: Callable[[], Page]) -> Page:
    """The page that a walk finds, begun again where its iterator expired, as it does while calls fail for minutes."""
    while True:
        try:
            return walk()
        except IteratorExpiredError as exc:
            kinesis.budget.wait(EMPTY_PAGE_WAIT_S, UnavailableError(exc.what, todo="Run the step again"))
