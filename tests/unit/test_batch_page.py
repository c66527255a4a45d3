"""The page of a batch, and a task's log, say of the ranges what they were made from and what is not in their data."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings

from shardlake.airflow.batch_page import batch_page
from shardlake.plan import BatchPlan, Run, Stream, range_to_json
from shardlake.ranges import SequenceNumber, SequenceRange, Start
from shardlake.reports import RangeReport, report_to_text, sums_of_report
from support.fuzz import EXAMPLES, mutated

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


VERIFIED = json.dumps(
    [
        {"range": range_to_json(ONE), "contents": {"rows": 1234, "bytes": 56, "checksum": "c"}},
        {"range": range_to_json(TWO), "error": "ConflictError", "message": "m"},
    ]
)
FILES = {"plan.json": PLAN.to_text(), "report-0000.json": REPORT, "verified.json": VERIFIED}
HOSTILE = "</title></code></pre><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


class _Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def with_every_text_hostile(document: Any, key: str = "") -> Any:
    """A file in which every value that may be any text is hostile."""
    if isinstance(document, dict):
        return {key: with_every_text_hostile(value, key) for key, value in document.items()}
    if isinstance(document, list) and key not in ("start", "groups"):
        return [with_every_text_hostile(value) for value in document]
    fixed = ("through", "anchor", "aggregates", "shard_id", "range")
    return HOSTILE if isinstance(document, str) and key not in fixed else document


def test_nothing_that_a_file_says_becomes_html() -> None:
    """Kills: a value on the page that is not escaped."""
    files = {name: json.dumps(with_every_text_hostile(json.loads(text))) for name, text in FILES.items()}
    page = batch_page(HOSTILE, files | {f"report-{HOSTILE}.json": "[]"})
    assert "These files are not a batch" not in page
    assert page.count("&lt;script&gt;") > 10
    elements = _Elements(page).found
    assert {tag for tag, _ in elements}.isdisjoint({"script", "img"})
    attributes = {(name, value) for _, attrs in elements for name, value in attrs if name not in ("class", "lang")}
    assert {name for name, _ in attributes} == {"charset", "href"}
    (link,) = [value for name, value in attributes if name == "href"]
    assert re.fullmatch(r"\.\./\.\./dags/[A-Za-z0-9%._-]+/runs/[A-Za-z0-9%._-]+", str(link))


@pytest.mark.parametrize("name", FILES)
def test_whatever_a_file_says_there_is_a_page(name: str) -> None:
    """Kills: a file that is no batch's ending in a server's error instead of the files as they are."""

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
    @given(mutated(json.loads(FILES[name])))
    def check(document: Any) -> None:
        assert batch_page("run", FILES | {name: json.dumps(document)}).endswith("</html>")

    check()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("text", ["", "[" * 100_000, "7", "[7]", '[{"range": 1}]', '[{"range": [], "contents": "x"}]'])
def test_a_file_that_is_none_is_shown_as_it_is(name: str, text: str) -> None:
    page = batch_page("run", FILES | {name: text})
    assert f"<summary>{name}</summary><pre>{text.replace(chr(34), '&quot;')}</pre>" in page
