"""Step 2, ingest, inside the engine: read one range of a plan and publish it. An error stays with its range."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import boto3

from shardlake import errors
from shardlake.errors import ConflictError, ShardlakeError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.reader import read_range
from shardlake.lake.home import open_home
from shardlake.plan import BatchPlan, digest
from shardlake.ranges import SequenceRange
from shardlake.sinks.parquet import ParquetSink

ATTEMPTS = 10
"""Tries per call while reading a range; with botocore's backoff that is minutes of throttling."""


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


def ingest_range(plan: BatchPlan, range_: SequenceRange, session: boto3.Session | None = None) -> RangeReport:
    """Publish one range, whatever happens reporting what became of it.

    Args:
        session: a boto3 session with other credentials than the default chain's.
    """
    stream = plan.stream
    try:
        kinesis = Kinesis(stream.arn, stream.region, stream.endpoint_url, ATTEMPTS, session)
        sink = ParquetSink(open_home(plan.dataset, plan.storage, session))
        published = sink.write(
            plan, range_, lambda: read_range(kinesis, range_, stream.retention_ms, plan.read_fraction)
        )
    except ShardlakeError as exc:
        return RangeReport(range_.shard_id, str(range_), None, None, type(exc).__name__, str(exc))
    except Exception as exc:  # the other ranges go on; the type says that this one is a bug
        return RangeReport(range_.shard_id, str(range_), None, None, "IngestError", f"{type(exc).__name__}: {exc}")
    contents, counts = published.contents, (published.records, published.quarantined, published.dropped)
    return RangeReport(range_.shard_id, str(range_), contents.rows, contents.bytes, None, None, *counts)


def report_to_text(reports: Sequence[RangeReport]) -> str:
    """The report of one submission, as JSON."""
    return json.dumps([asdict(report) for report in reports], indent=1)


def sums_of_report(text: str) -> str:
    """What the ranges of a report hold together, for a task's log. What was left out of the data is told always."""
    every: list[dict[str, Any]] = json.loads(text)
    reports = [report for report in every if not report["error"]]
    names = ("records", "rows", "quarantined", "dropped")
    records, rows, quarantined, dropped = (sum(report.get(name) or 0 for report in reports) for name in names)
    return (
        f"published {len(reports)} of {len(every)} ranges: {records} records of the stream,"
        f" {rows} user records in data/; {quarantined} records in quarantine/, {dropped} dropped"
    )


def error_of_report(text: str) -> ShardlakeError | None:
    """The most severe error that a report tells of, or None where every range is published."""
    failed: list[dict[str, Any]] = [report for report in json.loads(text) if report["error"]]
    found = [getattr(errors, report["error"], errors.IngestError)(report["message"]) for report in failed]
    return errors.most_severe(found) if found else None
