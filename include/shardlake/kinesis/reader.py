"""Reading a range exactly: from its anchor to the whole record at its end, or not at all.

Loss is told, never guessed: whatever does not fit the range raises, and what was read so far must not be published.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from shardlake.errors import ConflictError, DataLossError, IngestError, UnavailableError
from shardlake.kinesis.client import MAX_PAGE_RECORDS, Kinesis
from shardlake.kinesis.failures import InvalidPositionError, IteratorExpiredError, ShardGoneError
from shardlake.kinesis.page import Page
from shardlake.kinesis.pages import EMPTY_PAGE_WAIT_S, HORIZON_CHECK, first_page, page_at
from shardlake.kinesis.quota import ReadQuota
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange

NEAR_HORIZON = 0.9
"""Share of the retention after which a record may be trimmed before those behind it are read."""

PAGE_BYTES = 2 * 2**20
"""What a page of large records is held to. The service's 10 MiB take seven times that while a reply is decoded, and
calls are no scarcer for it: a shard gives out 2 MiB and answers five calls a second."""

SILENCE_S = 600.0
"""How long a range may stay without a new record before reading gives up."""


def read_range(
    kinesis: Kinesis, range_: SequenceRange, retention_ms: int, read_fraction: float | None = None
) -> Iterator[Page]:
    """The records of a range, page by page, in sequence order; no page is empty.

    Args:
        read_fraction: the share of the shard's read limits to take; None: as fast as the service answers.

    Raises:
        DataLossError: records of the range are no longer retained.
        ConflictError: the shard does not hold what was seen when the range was planned.
        UnavailableError: the service did not give the range out within the budget.
    """
    if range_.anchor is None:
        return  # the shard was closed with nothing behind the start, and so it stays
    try:
        quota = ReadQuota(read_fraction) if read_fraction else None
        yield from _read(kinesis, range_, range_.anchor, retention_ms, quota)
    except ShardGoneError as exc:
        raise _lost(range_, None) from exc
    except InvalidPositionError as exc:
        raise _not_as_planned(range_, exc.what) from exc


def _read(
    kinesis: Kinesis, range_: SequenceRange, anchor: SequenceNumber, retention_ms: int, quota: ReadQuota | None
) -> Iterator[Page]:
    before: Page | None = None
    reached = anchor
    for page in _pages(kinesis, range_, anchor, quota):
        _check_follows(page, before, range_)
        if before and page.service_time_ms - before.arrivals_ms[-1] > NEAR_HORIZON * retention_ms:
            _check_retained(kinesis, range_, before.number(-1))
        part = _within(page, range_)
        if len(part):
            yield part
        before, reached = page, part.last or reached
        if page.number(-1).key >= range_.through.key:
            break
    if range_.through not in (SHARD_END, reached):
        _check_retained(kinesis, range_, reached)
        raise _not_as_planned(range_, f"{before.last if before else None} behind {reached}")


def _pages(kinesis: Kinesis, range_: SequenceRange, anchor: SequenceNumber, quota: ReadQuota | None) -> Iterator[Page]:
    """Pages with records from the anchor on, to the shard's end or for as long as one asks."""
    page = _first_page(kinesis, range_, anchor)
    last, deadline, empty, limit = page.number(0), 0.0, 0, MAX_PAGE_RECORDS
    while True:
        if len(page):
            limit = _limit(page)
            last, deadline, empty = page.number(-1), time.monotonic() + SILENCE_S, 0
            yield page
        if page.next_iterator is None:
            return
        if not len(page):
            empty += 1
            if empty % HORIZON_CHECK == 0:
                _check_retained(kinesis, range_, last)
            _wait(range_, deadline)
        if quota:
            quota.wait(sum(map(len, page.data)))
        page = _next_page(kinesis, range_, page.next_iterator, last, limit)


def _first_page(kinesis: Kinesis, range_: SequenceRange, anchor: SequenceNumber) -> Page:
    """The first page with records from the anchor on. Where there is none, older records tell that it is only late."""
    deadline = time.monotonic() + SILENCE_S
    while True:
        page = page_at(kinesis, range_.shard_id, anchor)
        if len(page):
            return page
        oldest = first_page(kinesis, kinesis.iterator_at_horizon(range_.shard_id), limit=1).first
        if page.at_end or oldest is None or oldest > anchor:
            raise _lost(range_, oldest)
        _wait(range_, deadline)


def _limit(page: Page) -> int:
    """How many records to ask for, so that the next page has about `PAGE_BYTES`."""
    return min(MAX_PAGE_RECORDS, max(1, PAGE_BYTES * len(page) // max(1, sum(map(len, page.data)))))


def _next_page(kinesis: Kinesis, range_: SequenceRange, iterator: str, last: SequenceNumber, limit: int) -> Page:
    try:
        return kinesis.get_records(iterator, limit)
    except IteratorExpiredError:
        return kinesis.get_records(kinesis.iterator_at(range_.shard_id, "AFTER_SEQUENCE_NUMBER", last), limit)


def _wait(range_: SequenceRange, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise UnavailableError(f"no record of range {range_} for {SILENCE_S:.0f} s", todo="Run the step again")
    time.sleep(EMPTY_PAGE_WAIT_S)


def _check_follows(page: Page, before: Page | None, range_: SequenceRange) -> None:
    """Check that a page is in order, and comes after the page before; or, if it is the first, loses nothing."""
    first = page.number(0)
    if before is None and not range_.begins_with(first):
        raise _lost(range_, first)
    numbers = page.sequence_numbers
    if len({len(number) for number in numbers}) == 1:  # texts of one length order as their integers, and faster
        ordered = all(a < b for a, b in pairwise(numbers))
    else:
        ordered = all(int(a) < int(b) for a, b in pairwise(numbers))
    if not ordered or (before and first <= before.number(-1)):
        raise IngestError(f"GetRecords gave records of {range_} out of order, from {first}", todo="Run the step again")


def _check_retained(kinesis: Kinesis, range_: SequenceRange, last: SequenceNumber) -> None:
    """Check that trimming has not overtaken the reading: what came behind `last` is complete while `last` is there.

    Raises:
        DataLossError: it is gone.
    """
    page = page_at(kinesis, range_.shard_id, last, limit=1)
    if page.first != last:
        raise _lost(range_, page.first)


def _within(page: Page, range_: SequenceRange) -> Page:
    """The page's records behind the start, up to and including `through`."""
    start = 1 if page.number(0).key == range_.start.key else 0
    if range_.through is SHARD_END:
        return page.rows(start)
    return page.rows(start, bisect_right(page.sequence_numbers, int(range_.through), key=int))


def _not_as_planned(range_: SequenceRange, found: str) -> ConflictError:
    return ConflictError(
        f"the records of range {range_} are not those that were seen when it was planned",
        expected=f"{range_.anchor} first and {range_.through} last",
        found=found,
        todo="Check whether the stream was recreated under its name",
    )


def _lost(range_: SequenceRange, oldest: SequenceNumber | None) -> DataLossError:
    return DataLossError(
        f"records of range {range_} are no longer retained",
        expected=range_.anchor,
        found=f"{oldest} as the oldest record left" if oldest else "nothing left",
        todo="Set on_data_loss: skip to record the loss and go on",
    )
