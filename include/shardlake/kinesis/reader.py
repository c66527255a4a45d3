"""Reading a range exactly: from its anchor to the whole record at its end, or not at all.

Loss is told, never guessed: whatever does not fit the range raises, and what was read so far must not be published.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from operator import lt

from shardlake.errors import ConflictError, DataLossError, IngestError, UnavailableError
from shardlake.kinesis.budget import Budget
from shardlake.kinesis.client import MAX_PAGE_RECORDS, Kinesis
from shardlake.kinesis.continuity import Continuity
from shardlake.kinesis.failures import InvalidPositionError, IteratorExpiredError, ShardGoneError
from shardlake.kinesis.fan_out import fan_out
from shardlake.kinesis.hands import Hands
from shardlake.kinesis.page import Page
from shardlake.kinesis.pages import EMPTY_PAGE_WAIT_S, HORIZON_CHECK, first_page, page_at, unexpired
from shardlake.kinesis.quota import ReadQuota
from shardlake.plan import RETRY_BUDGET_S
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange

PAGE_BYTES = 2 * 2**20
"""What a page of large records is held to. The service's 10 MiB take seven times that while a reply is decoded, and
calls are no scarcer for it: a shard gives out 2 MiB and answers five calls a second."""

PACED_PAGE_BYTES = 2**20
"""The same at the pace of the shard's limits: half of what a shard holds, so that one that is late can be made up for.
Two calls a second leave room for two looks back (`continuity`) within the five."""

FIRST_RECORDS = 250
"""Records of a range's first page, which tells how large they are."""


def read_range(
    kinesis: Kinesis,
    range_: SequenceRange,
    retention_ms: int,
    read_fraction: float | None = None,
    retry_budget_s: float = RETRY_BUDGET_S,
    consumer_arn: str | None = None,
    hands: Hands | None = None,
) -> Iterator[Page]:
    """The records of a range, page by page, in sequence order; no page is empty.

    Args:
        retention_ms: the stream's retention when planning. One that was lowered since shows by what it took away.
        read_fraction: the share of the shard's read limits to take; None: as fast as the service answers.
        retry_budget_s: how long to go on without a new record while calls fail or pages are empty.
        consumer_arn: the registered consumer to read by (enhanced fan-out); None: poll.
        hands: hold a page from the call for it until the next one is asked for.

    Raises:
        DataLossError: records of the range are no longer retained.
        ConflictError: the shard does not hold what was seen when the range was planned.
        UnavailableError: the service did not give the range out within the budget.
    """
    if range_.anchor is None:
        return  # the shard was closed with nothing behind the start, and so it stays
    try:
        kinesis = kinesis.within(Budget(retry_budget_s, hands))
        poll = partial(_pages, kinesis, range_, read_fraction=read_fraction)
        shard_id, anchor = range_.shard_id, range_.anchor
        pages = fan_out(kinesis, consumer_arn, shard_id, anchor, poll) if consumer_arn else poll(anchor)
        yield from _read(kinesis, range_, retention_ms, pages)
    except ShardGoneError as exc:
        raise _lost(range_, None) from exc
    except InvalidPositionError as exc:
        raise _not_as_planned(range_, exc.what) from exc


def _read(kinesis: Kinesis, range_: SequenceRange, retention_ms: int, pages: Iterator[Page]) -> Iterator[Page]:
    """The part of `pages` that is the range's, each checked to follow on the one before without a gap.

    Args:
        pages: the records from the anchor on, or from what is left of them; no page is empty.
    """
    continuity = Continuity(retention_ms, lambda number: _check_retained(kinesis, range_, number))
    last: SequenceNumber | None = None
    reached = range_.anchor
    for page in pages:
        kinesis.budget.renew()
        _check_follows(page, last, range_)
        continuity.follow(page)
        last = page.number(-1)
        page = _within(page, range_)
        reached = page.last or reached
        if len(page):
            yield page
        del page  # or it would stay in memory while the next one comes in
        if last.key >= range_.through.key:
            break
    if reached and range_.through not in (SHARD_END, reached):
        _check_retained(kinesis, range_, reached)
        raise _not_as_planned(range_, f"{last} behind {reached}")
    continuity.prove()


def _pages(
    kinesis: Kinesis, range_: SequenceRange, anchor: SequenceNumber, read_fraction: float | None
) -> Iterator[Page]:
    """Pages with records from the anchor on, to the shard's end or for as long as one asks.

    Replies without a new record have a budget of their own: looking back at an old one is no progress. A shard that has
    refused a call is read at the pace of its limits from then on: waiting by guess would leave some of them unused.
    """
    hands = kinesis.budget.hands
    silence = Budget(kinesis.budget.seconds, hands)
    quota = ReadQuota(read_fraction, time.monotonic()) if read_fraction else None
    last, empty, limit = anchor, 0, FIRST_RECORDS
    hands.take()
    try:
        page = _first_page(kinesis, range_, anchor, silence)
        while True:
            if kinesis.refused_at_s is not None:
                quota = quota or ReadQuota(1.0, kinesis.refused_at_s)
                quota.found_empty(kinesis.refused_at_s)
            iterator, count, size, called_at_s = page.next_iterator, len(page), page.size, kinesis.called_at_s
            if count:
                silence.renew()
                last, empty, limit = page.number(-1), 0, _limit(page, PACED_PAGE_BYTES if quota else PAGE_BYTES)
                yield page
            del page  # or it would stay in memory while the next one comes in
            hands.let_go()
            if iterator is None:
                return
            if not count:
                empty += 1
                if empty % HORIZON_CHECK == 0:
                    _check_retained(kinesis, range_, last)
                silence.wait(EMPTY_PAGE_WAIT_S, _silent(range_))
            if quota:
                quota.wait(called_at_s, size)
            hands.take()
            page = _next_page(kinesis, range_, iterator, last, limit)
    finally:
        hands.let_go()


def _first_page(kinesis: Kinesis, range_: SequenceRange, anchor: SequenceNumber, silence: Budget) -> Page:
    """The first page with records from the anchor on. Where there is none, older records tell that it is only late."""
    shard_id = range_.shard_id
    while True:
        page = page_at(kinesis, shard_id, anchor, FIRST_RECORDS)
        if len(page):
            return page
        horizon = unexpired(kinesis, lambda: first_page(kinesis, kinesis.iterator_at_horizon(shard_id), limit=1))
        if page.at_end or horizon.first is None or horizon.first > anchor:
            raise _lost(range_, horizon.first)
        silence.wait(EMPTY_PAGE_WAIT_S, _silent(range_))


def _limit(page: Page, size_bytes: int) -> int:
    """How many records to ask for, so that the next page has about so many bytes."""
    return min(MAX_PAGE_RECORDS, max(1, size_bytes * len(page) // max(1, page.size)))


def _next_page(kinesis: Kinesis, range_: SequenceRange, iterator: str, last: SequenceNumber, limit: int) -> Page:
    def behind_last() -> Page:
        return kinesis.get_records(kinesis.iterator_at(range_.shard_id, "AFTER_SEQUENCE_NUMBER", last), limit)

    try:
        return kinesis.get_records(iterator, limit)
    except IteratorExpiredError:
        return unexpired(kinesis, behind_last)


def _silent(range_: SequenceRange) -> UnavailableError:
    return UnavailableError(f"no record of range {range_}", todo="Run the step again")


def _check_follows(page: Page, last: SequenceNumber | None, range_: SequenceRange) -> None:
    """Check that a page is in order, and comes after the last record; or, if it is the first, loses nothing."""
    first = page.number(0)
    if last is None and not range_.begins_with(first):
        raise _lost(range_, first)
    numbers = page.sequence_numbers
    if len({len(number) for number in numbers}) == 1:  # texts of one length order as their integers, and faster
        ordered = all(map(lt, numbers, numbers[1:]))
    else:
        keys = list(map(int, numbers))
        ordered = all(map(lt, keys, keys[1:]))
    if not ordered or (last and first <= last):
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
