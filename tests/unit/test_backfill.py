"""What a person may ask of a backfill, how its bounds are stored, and what its folder may be called."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlake.backfill import BOUND, SHARD_LINE, Backfill, Request, parse_request
from shardlake.errors import ConfigError, ConflictError
from shardlake.names import LIVE, backfill_namespace, dataset_of
from shardlake.ranges import SHARD_END, Position, SequenceNumber, SequenceRange, Start, Through

SHARD, OTHER = "shardId-000000000000", "shardId-000000000001"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number(value: int) -> SequenceNumber:
    return SequenceNumber(str(value))


def stretch(shard_id: str, first: int, through: Through) -> SequenceRange:
    return SequenceRange(shard_id, Start("AT", number(first)), through, anchor=number(first))


class TestRequest:
    @pytest.mark.parametrize(
        ("text", "at_ms"),
        [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:01.5Z", 1500),
            ("1970-01-01t00:00:01z", 1000),
            ("1970-01-01 00:00:01+00:00", 1000),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970-01-01T0100+0100", 0),
            ("  1970-01-01T00:00:00Z\n", 0),
            pytest.param("1970-01-01T00:00:00.000001Z", 1, id="what arrives at 0 ms arrives before it"),
            pytest.param("1970-01-01T00:00:00.001001Z", 2, id="what arrives at 1 ms arrives before it"),
        ],
    )
    def test_a_time_is_the_first_millisecond_that_is_not_before_it(self, text: str, at_ms: int) -> None:
        assert parse_request({"from": text, "to": text}).begin == parse_request({"to": text}).end == at_ms

    @given(st.datetimes(EPOCH.replace(tzinfo=None), datetime.fromisoformat("9999-01-01"), timezones=st.just(UTC)))
    def test_every_time_since_1970_is_a_bound(self, at: datetime) -> None:
        found = parse_request({"from": at.isoformat()}).begin
        assert isinstance(found, int)
        assert timedelta(0) <= EPOCH + timedelta(milliseconds=found) - at < timedelta(milliseconds=1)

    def test_a_sequence_number_is_a_record_of_the_one_shard(self) -> None:
        request = parse_request({"from": "1", "to": "2" * 56, "shards": [SHARD]})
        assert (request.begin, request.end) == (number(1), SequenceNumber("2" * 56))

    def test_what_a_form_leaves_empty_is_not_asked_for(self) -> None:
        form = {"shards": None, "from": "", "to": None, "read_fraction": 0.5, "retained_only": False}
        assert parse_request(form) == parse_request({"shards": ["", " "]}) == Request()

    def test_shards_count_once_and_in_order_however_they_are_written(self) -> None:
        shards = [OTHER, f" {SHARD}", "", SHARD, OTHER]
        assert parse_request({"shards": shards}) == parse_request({"shards": (SHARD, OTHER)})
        assert parse_request({"shards": shards}).shards == (SHARD, OTHER)

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            (
                {"from": "yesterday"},
                "the backfill's from: expected shard ids; from and to: a sequence number or a time",
            ),
            ({"from": "2026-01-31T00:00:00"}, "the backfill's from:"),
            ({"to": "2026-02-30T00:00:00Z"}, "the backfill's from or to: day"),
            ({"to": "2026-01-31T25:00Z"}, "the backfill's from or to: "),
            ({"from": "1969-12-31T23:59:59Z"}, "a time before 1970: 1969"),
            ({"from": "0001-01-01T00:00:00+14:00"}, "a time before 1970"),
            ({"from": "1" * 57, "shards": [SHARD]}, "the backfill's from:"),
            ({"from": "-1", "shards": [SHARD]}, "the backfill's from:"),
            ({"from": "\u0661", "shards": [SHARD]}, "the backfill's from:"),
            ({"from": 1}, "the backfill's from:"),
            ({"from": "1"}, "which is one shard's: expected one shard, found all shards"),
            ({"to": "1", "shards": [SHARD, OTHER]}, "expected one shard, found 2 shards"),
            ({"shards": ["../x"]}, "the backfill's shards: expected shard ids, found '../x'"),
            ({"shards": [SHARD + "\0"]}, "the backfill's shards"),
            ({"shards": SHARD}, "the backfill's shards"),
            ({"shards": [None]}, "the backfill's shards"),
            ({"read_fraction": 0}, "the backfill's read_fraction"),
            ({"read_fraction": -0.1}, "the backfill's read_fraction"),
            ({"read_fraction": 1.01}, "the backfill's read_fraction"),
            ({"read_fraction": float("nan")}, "the backfill's read_fraction"),
            ({"read_fraction": float("inf")}, "the backfill's read_fraction"),
            ({"read_fraction": True}, "the backfill's read_fraction"),
            ({"read_fraction": "0.5"}, "the backfill's read_fraction"),
            ({"retained_only": "yes"}, "the backfill's retained_only"),
            ({"nonsense": 1, "self": 2}, "the backfill's nonsense, self"),
        ],
    )
    def test_anything_else_is_refused_by_its_name(self, asked: dict[str, Any], said: str) -> None:
        with pytest.raises(ConfigError, match=re.escape(said)):
            parse_request(asked)

    @given(
        st.dictionaries(
            st.one_of(st.sampled_from(["shards", "from", "to", "read_fraction", "retained_only"]), st.text(max_size=5)),
            st.recursive(
                st.one_of(
                    st.none(),
                    st.booleans(),
                    st.integers(),
                    st.floats(),
                    st.text(),
                    st.from_regex(BOUND),
                    st.from_regex(SHARD_LINE),
                ),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
            ),
            max_size=5,
        )
    )
    def test_whatever_is_asked_is_a_request_or_a_config_error(self, asked: dict[str, Any]) -> None:
        try:
            request = parse_request(asked)
        except ConfigError:
            return
        assert 0 < request.read_fraction <= 1
        assert parse_request(json.loads(request.model_dump_json(by_alias=True))) == request
        assert str(request)

    def test_it_says_what_it_asks_for(self) -> None:
        asked = {"shards": [SHARD], "from": "1", "retained_only": True, "read_fraction": 0.25}
        assert str(parse_request(asked)) == f"from 1 to the newest of {SHARD}, read fraction 0.25, retained only"
        assert str(Request()) == "from the oldest to the newest of all shards, read fraction 0.5"


class TestBackfill:
    def test_it_is_stored_as_it_is(self) -> None:
        request = parse_request({"shards": [SHARD, OTHER], "from": "2026-01-31T00:00:00Z", "read_fraction": 0.1})
        backfill = Backfill(request, (stretch(SHARD, 5, number(9)), stretch(OTHER, 1, SHARD_END)))
        assert Backfill.from_text(backfill.to_text()) == backfill

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", "[" * 10_000, '{"request": {}, "stretches": [1]}', '{"request": 1}']
    )
    def test_another_text_is_a_conflict(self, text: str) -> None:
        with pytest.raises(ConflictError, match="these are not the bounds of a backfill"):
            Backfill.from_text(text)

    @pytest.mark.parametrize(
        ("position", "left"),
        [
            (Start("AT", number(5)), stretch(SHARD, 5, number(9))),
            (Start("AFTER", number(8)), SequenceRange(SHARD, Start("AFTER", number(8)), number(9), anchor=number(8))),
            (Start("AFTER", number(9)), None),
            (Start("AT", number(10)), None),
            (SHARD_END, None),
        ],
    )
    def test_what_is_left_is_what_lies_behind_the_position(
        self, position: Position, left: SequenceRange | None
    ) -> None:
        backfill = Backfill(Request(), (stretch(SHARD, 5, number(9)),))
        assert backfill.left({SHARD: position}).stretches == ((left,) if left else ())


class TestNamespace:
    @pytest.mark.parametrize(
        "run_id",
        [
            LIVE,
            "",
            "..",
            "../x",
            "/etc",
            "a/b",
            "a\\b",
            "a.b",
            "a b",
            "a\n",
            "é",
            "\0",
            "x" * 101,
            "x" * 300,
            "manual__2026-01-31T00:00:00.123456+00:00",
        ],
    )
    def test_a_run_id_that_fits_no_path_is_made_to(self, run_id: str) -> None:
        namespace = backfill_namespace(run_id)
        assert re.fullmatch(r"[A-Za-z0-9_-]{0,80}-[0-9a-f]{12}", namespace)
        assert backfill_namespace(namespace) == namespace

    def test_one_that_fits_is_kept(self) -> None:
        assert backfill_namespace("Nightly_2026-01") == "Nightly_2026-01"
        assert backfill_namespace("x" * 100) == "x" * 100

    @given(st.text(max_size=300))
    def test_no_run_id_leaves_the_folder_or_means_the_live_pipeline(self, run_id: str) -> None:
        namespace = backfill_namespace(run_id)
        assert namespace != LIVE
        assert PurePosixPath(dataset_of("/lake", namespace)).parts == ("/", "lake", "backfill", namespace)

    @given(st.text(max_size=20), st.text(max_size=20))
    def test_two_run_ids_never_share_a_namespace(self, one: str, other: str) -> None:
        assert (backfill_namespace(one) == backfill_namespace(other)) == (one == other)

    @pytest.mark.parametrize("namespace", ["", "..", "../x", "a/b", "a\n", "x" * 101, "é"])
    def test_a_namespace_that_could_leave_the_folder_is_refused(self, namespace: str) -> None:
        with pytest.raises(ValueError, match="not a backfill's id"):
            dataset_of("/lake", namespace)
