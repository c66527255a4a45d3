"""What reading a backfill will take, estimated from a few pages of each stretch, before anything is read."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import ceil

from shardlake.backfill import Backfill
from shardlake.config import Pipeline
from shardlake.kinesis.client import MAX_PAGE_RECORDS, Kinesis
from shardlake.kinesis.newest import newest_record
from shardlake.kinesis.page import Page
from shardlake.kinesis.pages import first_page, page_at
from shardlake.kinesis.quota import reading_s
from shardlake.kinesis.reader import PACED_PAGE_BYTES
from shardlake.look import side_by_side
from shardlake.plan import BatchPlan
from shardlake.ranges import SequenceNumber, SequenceRange, Start

SAMPLES = 4
SAMPLE_RECORDS = 1_000
"""Pages looked at, spread evenly over a stretch's time, and the records of each."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one stretch will take.

    Attributes:
        ranges: how many ranges, one after the other, it is cut into.
        records: as the stream counts them; an aggregate is one.
        bytes: of the records' data.
        calls: GetRecords.
        seconds: at the share of the shard's limits; shards are read side by side.
    """

    stretch: SequenceRange
    ranges: int
    records: int
    bytes: int
    calls: int
    seconds: float


def estimate(pipeline: Pipeline, kinesis: Kinesis, draft: BatchPlan, backfill: Backfill) -> list[Estimate]:
    """What each stretch of a backfill will take.

    Args:
        draft: a batch of it, with the stream and the service's time.
    """
    now_ms = draft.planned_at_ms
    window_ms = int(pipeline.max_window.total_seconds() * 1000)

    def of(stretch: SequenceRange) -> Estimate:
        records, size, span_ms = _sampled(kinesis, stretch, now_ms, now_ms - draft.stream.retention_ms)
        ranges = max(1, ceil(size / pipeline.max_range_bytes), ceil(span_ms / window_ms))
        calls = max(ranges, ceil(size / PACED_PAGE_BYTES), ceil(records / MAX_PAGE_RECORDS))
        return Estimate(stretch, ranges, records, size, calls, reading_s(calls, size, backfill.request.read_fraction))

    return side_by_side(of, backfill.stretches)


def _sampled(kinesis: Kinesis, stretch: SequenceRange, now_ms: int, horizon_ms: int) -> tuple[int, int, int]:
    """Records and bytes of a stretch, and the time in which they arrived, milliseconds.

    Exact where one page holds it all.
    """
    shard_id, last = stretch.shard_id, stretch.through
    if not isinstance(last, SequenceNumber):
        last = newest_record(kinesis, shard_id, now_ms, horizon_ms) or stretch.start.number
    page = page_at(kinesis, shard_id, stretch.start.number, SAMPLE_RECORDS)
    inside, complete = _inside(page, stretch.start, last)
    if complete:
        span_ms = max(inside.arrivals_ms) - min(inside.arrivals_ms) if len(inside) else 0
        return len(inside), sum(map(len, inside.data)), span_ms
    begin_ms = inside.arrivals_ms[0]
    end_ms = max([*page_at(kinesis, shard_id, last, limit=1).arrivals_ms, begin_ms]) + 1
    records = size = 0.0
    for sample in range(SAMPLES):
        from_ms, to_ms = (begin_ms + (end_ms - begin_ms) * n // SAMPLES for n in (sample, sample + 1))
        if sample:
            page = first_page(kinesis, kinesis.iterator_from_time(shard_id, from_ms), SAMPLE_RECORDS)
        sampled_records, sampled_bytes = _in_segment(*_inside(page, stretch.start, last), from_ms, to_ms)
        records += sampled_records
        size += sampled_bytes
    return round(records), round(size), end_ms - begin_ms


def _inside(page: Page, start: Start, last: SequenceNumber) -> tuple[Page, bool]:
    """The part of a page that lies behind `start` and up to `last`, and whether `last` is in it or none follows."""
    numbers = [int(number) for number in page.sequence_numbers]
    inside = page.rows(bisect_right(numbers, int(start.key)), bisect_right(numbers, int(last)))
    return inside, page.at_tip or (page.last is not None and page.last >= last)


def _in_segment(page: Page, complete: bool, from_ms: int, to_ms: int) -> tuple[float, float]:
    """Records and bytes between two arrival times, as the page of records from the first one on lets them be estimated.

    Args:
        complete: nothing follows the page.
    """
    found = [(at_ms, len(data)) for at_ms, data in zip(page.arrivals_ms, page.data, strict=True) if at_ms >= from_ms]
    inside = [(at_ms, size) for at_ms, size in found if at_ms < to_ms]
    if complete or not inside or len(inside) < len(found):
        return len(inside), sum(size for _, size in inside)
    first_ms, last_ms = inside[0][0], inside[-1][0]
    # What arrived with the last one may be cut: what came before it is the rate. More than the service lets a shard
    # take in, a record a millisecond, is a burst that tells nothing of the rate behind it.
    before = [size for at_ms, size in inside if at_ms < last_ms]
    if last_ms - first_ms < len(before) or not before:
        before, last_ms = [size for _, size in inside], first_ms + len(inside)
    share = (to_ms - first_ms) / (last_ms - first_ms)
    return len(before) * share, sum(before) * share
