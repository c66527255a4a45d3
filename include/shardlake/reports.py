"""What became of the ranges of one submission, as its job tells it in the dataset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from shardlake.errors import ConflictError, ShardlakeError, error_named, most_severe


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
