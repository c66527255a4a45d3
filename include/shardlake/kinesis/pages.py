"""Following a shard page by page, past empty pages, until there is something to decide on."""

from __future__ import annotations

import time
from collections.abc import Iterator

from shardlake.errors import UnavailableError
from shardlake.kinesis.client import MAX_PAGE_RECORDS, Kinesis
from shardlake.kinesis.page import Page
from shardlake.ranges import SequenceNumber

MAX_EMPTY_PAGES = 1_000
"""Empty pages in a row that are followed before the shard counts as not answering."""

EMPTY_PAGE_WAIT_S = 0.2
"""A shard allows five calls a second; pages with records take longer than that to come."""

HORIZON_CHECK = 10
"""After how many empty pages the shard's horizon is asked whether the position has been trimmed."""


def pages(kinesis: Kinesis, iterator: str, limit: int = MAX_PAGE_RECORDS) -> Iterator[Page]:
    """The pages from an iterator on, empty ones included, ending with one at the tip or at the shard's end.

    An empty page is legal anywhere, also with records ahead, so it never ends the walk by itself.

    Raises:
        UnavailableError: too many empty pages in a row.
    """
    empty = 0
    while True:
        page = kinesis.get_records(iterator, limit)
        yield page
        if page.next_iterator is None or page.at_tip:
            return
        iterator = page.next_iterator
        empty = 0 if len(page) else empty + 1
        if empty >= MAX_EMPTY_PAGES:
            raise UnavailableError(
                f"{empty} empty pages in a row from stream {kinesis.stream_name}, with data ahead",
                todo="Run the step again; the service is not giving its records out",
            )
        if empty:
            time.sleep(EMPTY_PAGE_WAIT_S)


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
    walk = pages(kinesis, kinesis.iterator_at(shard_id, "AT_SEQUENCE_NUMBER", number), limit)
    for count, page in enumerate(walk, start=1):
        if len(page) or page.at_tip:
            return page
        if count == HORIZON_CHECK:
            oldest = first_page(kinesis, kinesis.iterator_at_horizon(shard_id), limit)
            if oldest.first is None or oldest.first > number:
                return oldest
    raise AssertionError("the walk ends with a page at the tip, or raises")
