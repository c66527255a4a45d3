"""Step 2, ingest, inside the engine: read ranges of a plan and publish them. An error stays with its range."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from threading import Semaphore

import boto3
from pydantic import TypeAdapter

from shardlake.errors import ConflictError, ShardlakeError, error_named, most_severe
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.hands import Hands
from shardlake.kinesis.reader import read_range
from shardlake.lake.home import open_home
from shardlake.plan import BatchPlan, digest
from shardlake.ranges import SequenceRange
from shardlake.sinks.parquet import ParquetSink

PAGES_IN_HAND = 4
"""How many pages the ranges that are read side by side hold at once, together."""


@dataclass(frozen=True, slots=True)
class RangeReport:
    """What became of one range.

    Attributes:
        rows: the user records in its file.
        bytes: the file's size.
        error: the name of a class in `errors`, or None where the range is published.
        records: the raw records that it was made from; None: not counted, or not published.
        quarantined: how many of them are in the quarantine instead.
        dropped: how many of them are nowhere, as `aggregates: drop` wants it.
    """

    shard_id: str
    range: str
    rows: int | None
    bytes: int | None
    error: str | None
    message: str | None
    records: int | None = None
    quarantined: int | None = None
    dropped: int | None = None


def load_plan(text: str, expected_digest: str) -> BatchPlan:
    """The plan in a plan file, checked to be the ledger's.

    Raises:
        ConflictError: it is another one.
    """
    found = digest(text)
    if found != expected_digest:
        raise ConflictError(
            "the plan file is not the ledger's plan", expected=expected_digest, found=found, todo="Run plan again"
        )
    return BatchPlan.from_text(text)


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


def report_to_text(reports: Sequence[RangeReport]) -> str:
    """The report of one submission, as JSON."""
    return json.dumps([asdict(report) for report in reports], indent=1)


def sums_of_report(text: str) -> str:
    """What the ranges of a report hold together, for a task's log. What was left out of the data is told always.

    Raises:
        ConflictError: it is no report.
    """
    every = _reports(text)
    reports = [report for report in every if not report.error]
    names = ("records", "rows", "quarantined", "dropped")
    records, rows, quarantined, dropped = (sum(getattr(report, name) or 0 for report in reports) for name in names)
    return (
        f"published {len(reports)} of {len(every)} ranges: {records} records of the stream,"
        f" {rows} user records in data/; {quarantined} records in quarantine/, {dropped} dropped"
    )


def error_of_report(text: str) -> ShardlakeError | None:
    """The most severe error that a report tells of, or None where every range is published.

    Raises:
        ConflictError: it is no report.
    """
    found = [error_named(report.error, report.message or "") for report in _reports(text) if report.error]
    return most_severe(found) if found else None


def _reports(text: str) -> list[RangeReport]:
    try:
        return TypeAdapter(list[RangeReport]).validate_json(text, strict=True)
    except ValueError as exc:
        raise ConflictError("a report cannot be understood", todo="Run the ingest step again") from exc
