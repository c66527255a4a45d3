"""The page of a batch, and a task's log, say of the ranges what they were made from and what is not in their data."""

from __future__ import annotations

import json
import re

from shardlake.airflow.batch_page import batch_page
from shardlake.ingesting import RangeReport, report_to_text, sums_of_report
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SequenceNumber, SequenceRange, Start

NUMBER = SequenceNumber("1")
ONE, TWO = (SequenceRange(shard_id, Start("AT", NUMBER), NUMBER.plus(1), NUMBER) for shard_id in ("s1", "s2"))
PLAN = BatchPlan(
    batch_id="b",
    pipeline="p",
    namespace="live",
    run=Run("dag", "run"),
    stream=Stream("s", "arn", 1, 2, "us-east-1", None),
    dataset="/lake",
    ledger_id="l",
    planned_at_ms=3,
    behind=False,
    groups=((ONE, TWO),),
    aggregates="drop",
)
REPORT = report_to_text(
    [
        RangeReport("s1", str(ONE), 1234, 56, None, None, records=40, quarantined=3, dropped=2),
        RangeReport("s2", str(TWO), None, None, "DataLossError", "gone"),
    ]
)


def columns(page: str) -> list[list[str]]:
    """The cells of the table's rows."""
    rows = page.partition("<table>")[2].partition("</table>")[0].split("<tr>")[1:]
    return [[re.sub("<.*?>", "", cell) for cell in re.split("<t[dh][^>]*>", row)[1:]] for row in rows]


def test_the_page_counts_raw_records_beside_user_records() -> None:
    page = batch_page("run", {"plan.json": PLAN.to_text(), "report-0000.json": REPORT})
    assert columns(page) == [
        ["Shard", "From", "Through", "Rows", "Records", "Quarantined", "Dropped", "Bytes", "State"],
        ["s1", "AT 1", "2", "1,234", "40", "3", "2", "56", "published"],
        ["s2", "AT 1", "2", *"–––––", "DataLossError: gone"],  # noqa: RUF001
    ]
    assert "40 in the stream, 3 in quarantine/, 2 dropped" in page


def test_a_report_of_earlier_code_has_no_counts() -> None:
    (old, _) = json.loads(REPORT)
    for name in ("records", "quarantined", "dropped"):
        del old[name]
    page = batch_page("run", {"plan.json": PLAN.to_text(), "report-0000.json": json.dumps([old])})
    assert columns(page)[1] == ["s1", "AT 1", "2", "1,234", "–", "–", "–", "56", "published"]  # noqa: RUF001


def test_the_log_sums_up_what_was_published() -> None:
    assert sums_of_report(REPORT) == (
        "published 1 of 2 ranges: 40 records of the stream, 1234 user records in data/;"
        " 3 records in quarantine/, 2 dropped"
    )
