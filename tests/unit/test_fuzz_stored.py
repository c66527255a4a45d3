"""What one step stored for another one may be anything by then: it is what was stored, or one clear error.

A longer run: FUZZ_EXAMPLES=10000.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlake.backfill import Backfill, Request, parse_request
from shardlake.batch import Steps
from shardlake.config import Pipeline
from shardlake.errors import ConfigError, ConflictError, IngestError, ShardlakeError
from shardlake.kinesis.page import Page
from shardlake.lake.footer import checksum_of_file, read_footer
from shardlake.lake.local import LocalHome
from shardlake.lake.owner import check_owner, claim_dataset, owning_ledger
from shardlake.lake.parquet import write_range
from shardlake.ledger.memory import MemoryLedger
from shardlake.lost_markers import lost_range
from shardlake.names import LIVE, OWNER, FileKey, backfill_namespace, batch_directory, dataset_of
from shardlake.plan import BatchPlan, digest, range_to_json
from shardlake.ranges import SequenceNumber, SequenceRange, Start
from shardlake.reports import RangeReport, error_of_report, report_to_text, sums_of_report
from support.fuzz import EXAMPLES, mutated, plan_of

fuzzed = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)

SHARD = "shardId-000000000000"
ARN = "arn:aws:kinesis:eu-west-1:000000000000:stream/s"
RANGE = SequenceRange(SHARD, Start("AFTER", SequenceNumber("10")), SequenceNumber("40"), SequenceNumber("11"))
PLAN = plan_of(RANGE)
NOT_TEXT = [b"\xff", b"", b"[" * 100_000, b"1" * 5_000, b'"\\ud800"', b"NaN", b"{}\xff"]


def contents(document: Any) -> st.SearchStrategy[bytes]:
    """A file's bytes: the document, changed; or something else altogether."""
    changed: st.SearchStrategy[bytes] = mutated(document).map(lambda each: json.dumps(each).encode())
    return changed | st.sampled_from(NOT_TEXT) | st.binary(max_size=30)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> LocalHome:
    home = LocalHome(str(tmp_path_factory.mktemp("lake")))
    claim_dataset(home, PLAN)
    return home


def write(home: LocalHome, key: str, content: bytes) -> None:
    home.path(key).parent.mkdir(parents=True, exist_ok=True)
    home.path(key).write_bytes(content)


def refused(call: Callable[[], object], *errors: type[ShardlakeError]) -> bool:
    """Whether a call ends in one of these errors; any other one is not caught."""
    try:
        call()
    except errors:
        return True
    return False


@fuzzed
@given(mutated(json.loads(PLAN.to_text())))
def test_a_plan_is_one_of_the_right_types_or_refused(document: Any) -> None:
    text = json.dumps(document)
    try:
        plan = BatchPlan.from_text(text)
    except ConflictError:
        return
    again = BatchPlan.from_text(plan.to_text())
    assert again == plan or "NaN" in plan.to_text()
    assert {type(each) for each in (plan.planned_at_ms, plan.stream.created_at_ms, plan.stream.retention_ms)} == {int}
    assert {type(each) for each in (plan.dataset, plan.run.run_id, plan.stream.arn, plan.ledger_id)} == {str}
    assert digest(plan.to_text()) == digest(PLAN.to_text()) or plan != PLAN


@fuzzed
@given(
    mutated(
        json.loads(
            report_to_text(
                [
                    RangeReport(SHARD, "x", 1, 2, None, None, 1, 0, 0),
                    RangeReport(SHARD, "x", None, None, "ConflictError", "m"),
                ]
            )
        )
    ).map(json.dumps)
    | st.text(max_size=9)
)
def test_a_report_is_summed_up_or_refused(text: str) -> None:
    assert refused(lambda: sums_of_report(text), ConflictError) == refused(lambda: error_of_report(text), ConflictError)


@pytest.mark.parametrize(
    "name", ["most_severe", "annotations", "ShardlakeError", "Exception", "ShardGoneError", "__doc__"]
)
def test_an_error_of_an_unknown_name_may_be_tried_again(name: str) -> None:
    report = report_to_text([RangeReport(SHARD, "x", None, None, name, "what was said")])
    found = error_of_report(report)
    assert (type(found), str(found)) == (IngestError, "what was said")


def verified(rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"range": range_to_json(RANGE), **rows}]


def with_a_range_to_commit(home: LocalHome, content: bytes) -> tuple[Steps, MemoryLedger]:
    """The steps of a pipeline whose one range is open; verify has left `content`."""
    ledger = MemoryLedger()
    place = {"stream": "s", "region": "eu-west-1", "dataset": str(home.root), "ledger": "sqlite:///unused.db"}
    steps = Steps(Pipeline(name="p", **place), ledger)  # type: ignore[arg-type]
    ledger.record_listing("p", LIVE, [], {SHARD: RANGE.start})
    ledger.pin(replace(PLAN, groups=()), [RANGE], 1)
    write(home, f"{batch_directory('b')}/verified.json", content)
    return steps, ledger


@fuzzed
@given(
    contents(verified({"contents": {"rows": 3, "bytes": 5, "checksum": "c"}}))
    | contents(verified({"error": "ConflictError", "message": "m"}))
)
def test_what_verify_found_is_committed_as_it_was_found_or_not_at_all(home: LocalHome, content: bytes) -> None:
    steps, ledger = with_a_range_to_commit(home, content)
    fails = refused(lambda: steps.commit("b"), ConflictError, IngestError)
    (row,) = ledger.ranges("p", LIVE)
    assert fails == (row.state == "planned")
    if held := row.contents:
        told = json.loads(content)[0]["contents"]
        assert [type(each) for each in (held.rows, held.bytes, held.checksum)] == [int, int, str]
        assert (held.rows, held.bytes, held.checksum) == (told["rows"], told["bytes"], told["checksum"])


@pytest.mark.parametrize("rows", ["3", 3.0, True, None])
def test_rows_are_a_number_not_something_like_one(home: LocalHome, rows: object) -> None:
    document = verified({"contents": {"rows": rows, "bytes": 5, "checksum": "c"}})
    steps, _ = with_a_range_to_commit(home, json.dumps(document).encode())
    with pytest.raises(ConflictError, match="what verify found of batch b cannot be understood"):
        steps.commit("b")


@fuzzed
@given(contents({"pipeline": "p", "stream_arn": ARN, "stream_created_at_ms": 1, "ledger_id": "a" * 32}))
def test_an_owner_is_this_pipeline_or_refused(home: LocalHome, content: bytes) -> None:
    write(home, OWNER, content)
    if not refused(lambda: check_owner(home, PLAN), ConflictError):
        assert json.loads(content)["ledger_id"] == PLAN.ledger_id
        assert owning_ledger(home, PLAN) == PLAN.ledger_id
    refused(lambda: owning_ledger(home, PLAN), ConflictError)


@fuzzed
@given(contents({**range_to_json(RANGE), "pipeline": "p", "stream": ARN, "batch": "b"}))
def test_a_marker_is_that_of_its_range_or_refused(home: LocalHome, content: bytes) -> None:
    key = FileKey.of(RANGE).lost_marker
    write(home, key, content)
    try:
        range_, _ = lost_range(home, PLAN, key)
    except ConflictError:
        return
    assert FileKey.of(range_) == FileKey.of(RANGE)


@fuzzed
@given(mutated(json.loads(Backfill(Request(), (RANGE,)).to_text())).map(json.dumps) | st.text(max_size=9))
def test_the_bounds_of_a_backfill_are_some_or_refused(text: str) -> None:
    try:
        backfill = Backfill.from_text(text)
    except ConflictError:
        return
    assert Backfill.from_text(backfill.to_text()) == backfill


_BOUNDS = st.sampled_from(
    [
        *("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-01-01T00:00:00+99:99", "2026-13-01T00:00Z"),
        *("2026-01-01T24:00:00Z", "1" * 56, "1" * 57, "٣٣٣", " 5 ", "2026-01-01T..........Z", "2026-01-01T00:00:60Z"),
    ]
)
_FORM = {"shards": [SHARD], "from": "2026-01-01T00:00:00Z", "to": None, "read_fraction": 0.5, "retained_only": False}


@fuzzed
@given(mutated(_FORM).filter(lambda form: isinstance(form, dict)), st.none() | _BOUNDS, st.none() | _BOUNDS)
def test_a_form_is_a_request_or_refused(form: dict[str, Any], begin: str | None, end: str | None) -> None:
    form |= {key: bound for key, bound in (("from", begin), ("to", end)) if bound is not None}
    try:
        request = parse_request(form)
    except ConfigError:
        return
    assert Request.model_validate(request.model_dump(by_alias=True)) == request
    assert type(request.begin) in (int, SequenceNumber, type(None))


class TestParquet:
    """Bits flipped, bytes overwritten, ends cut off: a data file is what it was, or damaged, or of another checksum."""

    @pytest.fixture(scope="class")
    @staticmethod
    def good(home: LocalHome) -> bytes:
        numbers = range(11, 41)
        page = Page(
            [str(number) for number in numbers],
            [f"key-{number % 5}" for number in numbers],
            [1_790_000_000_000 + number for number in numbers],
            [b"record %d" % number * 5 for number in numbers],
            None,
            0,
            1_790_000_000_000,
        )
        write_range(home.root / "good", home.root / "aside", PLAN, RANGE, iter([page]))
        return (home.root / "good").read_bytes()

    @pytest.mark.parametrize("seed", range(4))
    def test_a_damaged_file_is_never_taken_for_another(self, home: LocalHome, good: bytes, seed: int) -> None:
        chance, told = random.Random(seed), 0
        footer, checksum = read_footer(home, "good"), checksum_of_file(home, "good").hexdigest()
        rows = pq.read_table(home.root / "good", partitioning=None)
        for _ in range(EXAMPLES):
            (home.root / "bad").write_bytes(damaged(good, chance))
            try:
                found, again = read_footer(home, "bad"), checksum_of_file(home, "bad").hexdigest()
            except ConflictError:
                told += 1
                continue
            if again == checksum:
                assert pq.read_table(home.root / "bad", partitioning=None).equals(rows)
            told += (found, again) != (footer, checksum)
        assert told > EXAMPLES // 3

    def test_values_of_the_footer_that_are_no_values(self, home: LocalHome, good: bytes) -> None:
        table = pq.read_table(home.root / "good", partitioning=None)
        metadata = dict(pq.read_metadata(home.root / "good").metadata)
        read_footer(home, "good")
        for key in metadata:
            for value in NOT_TEXT:
                pq.write_table(table.replace_schema_metadata({**metadata, key: value}), home.root / "other")
                try:
                    read_footer(home, "other")
                except ConflictError:
                    continue
                assert json.loads(value) != json.loads(metadata[key])


def damaged(good: bytes, chance: random.Random) -> bytes:
    """The file with one kind of damage, half of the time in its footer."""
    content = bytearray(good)
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    begin = chance.choice([0, footer])
    match chance.choice(["bit", "bytes", "cut", "swap", "zeros"]):
        case "bit":
            content[chance.randrange(begin, len(good))] ^= 1 << chance.randrange(8)
        case "bytes":
            for _ in range(3):
                content[chance.randrange(begin, len(good))] = chance.randrange(256)
        case "cut":
            del content[chance.randrange(len(good)) :]
        case "swap":
            one, other = (chance.randrange(begin, len(good) - 8) for _ in range(2))
            content[one : one + 8], content[other : other + 8] = content[other : other + 8], content[one : one + 8]
        case "zeros":
            one = chance.randrange(begin, len(good) - 16)
            content[one : one + 16] = bytes(16)
    return bytes(content)


class TestNames:
    """Neither a shard nor a run nor a backfill leaves the dataset: in a folder, or below a prefix of a bucket."""

    @fuzzed
    @given(st.text(max_size=12) | st.sampled_from(["..", ".", "../x", "/etc", "a/../..", "a\\..", "\0", "shard_id=.."]))
    def test_no_name_leaves_the_dataset(self, name: str) -> None:
        lake = PurePosixPath("/lakes/one")
        keys = [backfill_namespace(name)]
        for made in ("path", "quarantine", "lost_marker", "directory", "quarantine_directory"):
            try:
                keys.append(getattr(FileKey(name, "0" * 56, "1" * 56), made))
            except ValueError:
                continue
        for key in keys:
            assert ".." not in PurePosixPath(key).parts
            assert not key.startswith("/")
            assert (lake / key).is_relative_to(lake)
            assert not set(key) & set("\0\\\n")
        assert Path(dataset_of(str(lake), backfill_namespace(name))).parent == Path("/lakes/one/backfill")
