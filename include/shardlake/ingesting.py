"""Step 2, ingest, inside the engine: read ranges of a plan and publish them. An error stays with its range."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Semaphore

import boto3

from shardlake.errors import ShardlakeError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.hands import Hands
from shardlake.kinesis.reader import read_range
from shardlake.lake.home import open_home
from shardlake.plan import BatchPlan
from shardlake.ranges import SequenceRange
from shardlake.reports import RangeReport
from shardlake.sinks.parquet import ParquetSink

PAGES_IN_HAND = 4
"""How many pages the ranges that are read side by side hold at once, together."""


def ingest_ranges(
    plan: BatchPlan,
    ranges: Sequence[SequenceRange],
    session: boto3.Session | None = None,
    side_by_side: int = 1,
) -> list[RangeReport]:
    """Publish ranges, whatever happens reporting what became of each.

    Args:
        session: a boto3 session with other credentials than the default chain's.
        side_by_side: how many ranges are read at once, each by a thread.
    """
    try:
        stream = plan.stream
        kinesis = Kinesis(stream.arn, stream.region, stream.endpoint_url, session, stream.role)
        sink = ParquetSink(open_home(plan.dataset, plan.storage, session))
    except Exception as exc:
        return [_failed(range_, exc) for range_ in ranges]
    side_by_side = min(side_by_side, len(ranges))
    ingest = partial(_ingest, plan, kinesis, sink, Semaphore(PAGES_IN_HAND))
    if side_by_side <= 1:
        return list(map(ingest, ranges))
    with ThreadPoolExecutor(side_by_side) as pool:
        return list(pool.map(ingest, ranges))


def _ingest(
    plan: BatchPlan, kinesis: Kinesis, sink: ParquetSink, pages: Semaphore, range_: SequenceRange
) -> RangeReport:
    how = plan.stream.retention_ms, plan.read_fraction, plan.retry_budget_s, plan.consumer_arn, Hands(pages)
    try:
        published = sink.write(plan, range_, lambda: read_range(kinesis, range_, *how))
    except Exception as exc:
        return _failed(range_, exc)
    contents, counts = published.contents, (published.records, published.quarantined, published.dropped)
    return RangeReport(range_.shard_id, str(range_), contents.rows, contents.bytes, None, None, *counts)


def _failed(range_: SequenceRange, exc: Exception) -> RangeReport:
    """The report of a range that is not published; the type in the message says that an error is a bug."""
    name, message = type(exc).__name__, str(exc)
    if not isinstance(exc, ShardlakeError):
        name, message = "IngestError", f"{name}: {message}"
    return RangeReport(range_.shard_id, str(range_), None, None, name, message)
