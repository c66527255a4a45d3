"""Reading a range exactly: from its anchor to the whole record at its end, or not at all.

Loss is told, never guessed: whatever does not fit the range raises, and what was read so far must not be published.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from shardlake.errors import ConflictError, DataLossError, IngestError, UnavailableError
from shardlake.kinesis.client import IteratorExpiredError, Kinesis, NumberIterator, Page
from shardlake.kinesis.pages import page_at
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start

NEAR_HORIZON = 0.9
"""Share of the retention at which a page's records may be trimmed while they are read."""

SILENCE_S = 600.0
"""How long a range may stay without a new record before reading gives up."""


def read_range(kinesis: Kinesis, range_: SequenceRange, retention_ms: int) -> Iterator[Page]:
    """The records of a range, page by page, in sequence order; no page is empty.

    Raises:
        DataLossError: records of the range are no longer retained.
        ConflictError: the shard does not hold what was seen when the range was planned.
        UnavailableError: the service did not give the range out within the budget.
    """
    last: SequenceNumber | None = None
    for page in _walk(kinesis, range_):
        if not len(page):
            if page.at_end:
                break
            continue
        _in_order(page, last, range_)
        end = page.number(-1)
        if last is None:
            page = _anchored(page, range_)
        elif page.service_time_ms - min(page.arrivals_ms) > NEAR_HORIZON * retention_ms:
            _still_retained(kinesis, range_, last)
        if range_.through is not SHARD_END and end >= range_.through:
            yield _cut(page, range_.through, range_)
            return
        last = end
        if len(page):
            yield page
    if range_.through is not SHARD_END:
        raise ConflictError(
            f"the shard ends before its range {range_}",
            expected=range_.through,
            found=f"the end after {last}",
            todo="Check whether the stream was recreated under its name",
        )
    if last is None and range_.anchor is not None:
        raise _lost(range_, None)


def _walk(kinesis: Kinesis, range_: SequenceRange) -> Iterator[Page]:
    """Pages from the range's anchor on, taken up again behind the last record when an iterator expires."""
    deadline = time.monotonic() + SILENCE_S
    page = page_at(kinesis, range_.shard_id, range_.anchor or range_.start.number, limit=10_000)
    if not len(page) and page.at_tip and range_.anchor is not None:
        raise _lost(range_, None)
    last: SequenceNumber | None = None
    while True:
        yield page
        if len(page):
            last = page.number(-1)
            deadline = time.monotonic() + SILENCE_S
        elif time.monotonic() > deadline:
            raise UnavailableError(f"no record of range {range_} for {SILENCE_S:.0f} s, behind {last}")
        if page.next_iterator is None:
            return
        if not len(page) and page.at_tip:
            time.sleep(0.2)  # records seen when planning are not given out yet; five calls a second are allowed
        try:
            page = kinesis.get_records(page.next_iterator)
        except IteratorExpiredError:
            kind: NumberIterator = "AFTER_SEQUENCE_NUMBER" if last else "AT_SEQUENCE_NUMBER"
            number = last or range_.anchor or range_.start.number
            page = kinesis.get_records(kinesis.iterator_at(range_.shard_id, kind, number))


def _in_order(page: Page, last: SequenceNumber | None, range_: SequenceRange) -> None:
    numbers = page.sequence_numbers
    if len({len(number) for number in numbers}) == 1:  # texts of one length order as their integers, and faster
        ordered = all(a < b for a, b in pairwise(numbers))
    else:
        ordered = all(int(a) < int(b) for a, b in pairwise(numbers))
    if not ordered or (last is not None and page.number(0) <= last):
        raise IngestError(f"GetRecords gave records of {range_} out of order, after {last}", todo="Run the step again")


def _anchored(page: Page, range_: SequenceRange) -> Page:
    """The range's first page without the record that it starts after.

    Raises:
        DataLossError: records between the start and the page are gone.
    """
    first = page.number(0)
    if range_.anchor is None:
        raise ConflictError(f"records in a range planned without any, {range_}", found=first)
    if not range_.begins_with(first):
        raise _lost(range_, first)
    return page.rows(1) if range_.start == Start("AFTER", first) else page


def _cut(page: Page, through: SequenceNumber, range_: SequenceRange) -> Page:
    """The page up to and including the record `through`."""
    row = bisect_left(page.sequence_numbers, int(through), key=int)
    if page.number(row) != through:
        raise ConflictError(
            f"the last record of range {range_} is not there",
            expected=through,
            found=page.number(row),
            todo="Check whether the stream was recreated under its name",
        )
    return page.rows(0, row + 1)


def _still_retained(kinesis: Kinesis, range_: SequenceRange, last: SequenceNumber) -> None:
    """Near the horizon, trimming may overtake a slow read between two pages: the page before must still be there."""
    page = page_at(kinesis, range_.shard_id, last, limit=1)
    if not len(page) or page.number(0) != last:
        raise _lost(range_, page.number(0) if len(page) else None)


def _lost(range_: SequenceRange, oldest: SequenceNumber | None) -> DataLossError:
    return DataLossError(
        f"records of range {range_} are no longer retained",
        expected=range_.anchor,
        found=f"{oldest} as the oldest record left" if oldest else "nothing left",
        todo="Set on_data_loss: skip to record the loss and go on",
    )
