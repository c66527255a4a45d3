"""Bounds resolved to records seen, on a shard in memory: any arrival times, also out of order, pages of any size."""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlake.backfill import Bound, parse_request
from shardlake.config import Pipeline
from shardlake.errors import ConfigError, DataLossError
from shardlake.kinesis.budget import Budget
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import InvalidPositionError
from shardlake.kinesis.page import Page
from shardlake.kinesis.reader import read_range
from shardlake.kinesis.start import HORIZON_MARGIN_MS
from shardlake.kinesis.stretch import find_stretch
from shardlake.lake.local import LocalHome
from shardlake.ledger import Contents
from shardlake.ledger.memory import MemoryLedger
from shardlake.plan import Run, Stream
from shardlake.planning import Planner
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start, Through
from shardlake.shards import Shard

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS


@dataclass
class OneShard(Kinesis):
    """A shard in memory: records are pairs of a number and an arrival time, in sequence order."""

    records: list[tuple[int, int]]
    closed: bool = False
    page_size: int = 10_000
    empty_pages: int = 0
    trimmed: int = 0
    limits: list[int] = field(default_factory=list)
    stream_name: str = "s"
    budget: Budget = field(default_factory=lambda: Budget(1))

    @property
    def shard(self) -> Shard:
        return Shard("shardId-000000000000", (), "0", "0", "1", "9" * 20 if self.closed else None)

    def describe(self) -> tuple[Stream, int]:
        return Stream("s", "arn", NOW_MS - 30 * RETENTION_MS, RETENTION_MS, "us-east-1", None), NOW_MS

    def list_shards(self) -> list[Shard]:
        return [self.shard]

    def iterator_from_time(self, shard_id: str, at_ms: int) -> str:
        at_ms = at_ms // 1000 * 1000
        if at_ms > NOW_MS:
            raise InvalidPositionError("a time in the future")
        later = (row for row, (_, arrival_ms) in enumerate(self.records) if arrival_ms >= at_ms)
        return self._iterator_at_row(next(later, len(self.records)))

    def iterator_at(self, shard_id: str, kind: object, number: SequenceNumber) -> str:
        numbers = [number for number, _ in self.records]
        return self._iterator_at_row(bisect_left(numbers, int(number) + (kind == "AFTER_SEQUENCE_NUMBER")))

    def iterator_at_horizon(self, shard_id: str) -> str:
        return self._iterator_at_row(0)

    def get_records(self, iterator: str, limit: int = 10_000) -> Page:
        self.limits.append(limit)
        row, empty = map(int, iterator.split())
        stop = row if empty else min(row + min(limit, self.page_size), len(self.records))
        page, at_end = self.records[row:stop], stop == len(self.records)
        following = f"{stop} {empty - 1 if empty else self.empty_pages}"
        return Page(
            [str(number) for number, _ in page],
            ["k"] * len(page),
            [arrival_ms for _, arrival_ms in page],
            [b"x"] * len(page),
            None if self.closed and at_end else following,
            0 if at_end else 1,
            NOW_MS,
        )

    def _iterator_at_row(self, row: int) -> str:
        return f"{max(row, self.trimmed)} {self.empty_pages}"

    def stretch(self, begin: Bound = None, end: Bound = None) -> SequenceRange | None:
        return find_stretch(self, self.shard, begin, end, NOW_MS, RETENTION_MS)

    def held(self, begin: Bound = None, end: Bound = None) -> list[int]:
        """The numbers of the records that a backfill of these bounds holds."""
        stretch = self.stretch(begin, end)
        pages = read_range(self, stretch, RETENTION_MS) if stretch else ()
        return [int(number) for page in pages for number in page.sequence_numbers]


@pytest.fixture(autouse=True)
def _no_waiting(no_waiting: None) -> None:
    """Empty pages are followed at once."""


def as_defined(records: list[tuple[int, int]], begin: Bound, end: Bound) -> list[int]:
    """The first record that arrived at `begin` or later .. the last before the first that arrived at `end` or later."""
    numbers = [number for number, _ in records]

    def row_of(bound: Bound, otherwise: int) -> int:
        if bound is None:
            return otherwise
        if isinstance(bound, SequenceNumber):
            return numbers.index(int(bound))
        return next((row for row, (_, at_ms) in enumerate(records) if at_ms >= bound), len(records))

    stop = row_of(end, len(records)) + isinstance(end, SequenceNumber)
    return numbers[row_of(begin, 0) : stop]


def ticks() -> st.SearchStrategy[int]:
    """Times some of which fall on one millisecond or second, others hours apart; all last long enough."""
    near = st.integers(0, 3_000)
    far = st.integers(0, RETENTION_MS - 2 * HORIZON_MARGIN_MS)
    return st.one_of(near, near.map(lambda ms: ms // 500 * 500), far).map(lambda ago_ms: NOW_MS - ago_ms)


@st.composite
def shelves(draw: st.DrawFn) -> tuple[OneShard, Bound, Bound]:
    """A shard and two bounds."""
    arrivals = draw(st.lists(ticks(), max_size=30))
    if not draw(st.booleans()):
        arrivals.sort()
    gaps = draw(st.lists(st.integers(1, 3), min_size=len(arrivals), max_size=len(arrivals)))
    records = [(sum(gaps[: row + 1]), at_ms) for row, at_ms in enumerate(arrivals)]
    shelf = OneShard(records, draw(st.booleans()), draw(st.integers(1, 40)), draw(st.integers(0, 2)))
    times = st.one_of(ticks(), *(st.just(at_ms + off) for _, at_ms in records[:5] for off in (-1, 0, 1)))
    bound = st.one_of(
        st.none(), times.map(lambda ms: min(ms, NOW_MS)), *(st.just(SequenceNumber(str(n))) for n, _ in records[:5])
    )
    return shelf, draw(bound), draw(bound)


@given(shelves())
def test_a_stretch_holds_exactly_the_records_that_its_bounds_name(drawn: tuple[OneShard, Bound, Bound]) -> None:
    shelf, begin, end = drawn
    assert shelf.held(begin, end) == as_defined(shelf.records, begin, end)


@settings(max_examples=60, deadline=None)
@given(shelves(), st.integers(1, 12), st.sampled_from(["1s", "30m", "12h"]))
def test_its_batches_hold_them_too_each_once(drawn: tuple[OneShard, Bound, Bound], most: int, window: str) -> None:
    shelf, begin, end = drawn
    expected = as_defined(shelf.records, begin, end)
    bounds = {name: _text(bound) for name, bound in (("from", begin), ("to", end)) if bound is not None}
    request = parse_request({"shards": [shelf.shard.shard_id], **bounds})
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(
            name="p",
            stream="s",
            region="us-east-1",
            dataset=folder,
            ledger="sqlite:///unused.db",
            max_range_bytes=most,
            max_window=window,
        )
        ledger, home = MemoryLedger(), LocalHome(f"{folder}/backfill/b")
        planner = Planner(pipeline, ledger, shelf, home, "b")
        if not expected:
            with pytest.raises(ConfigError, match="no records between"):
                planner.open_backfill(request, LocalHome(folder))
            return
        planner.open_backfill(request, LocalHome(folder))
        shelf.records = [*shelf.records, *([] if shelf.closed else [(10**6, NOW_MS)])]
        found: list[int] = []
        plans = [planner.plan(Run("dag", "0"))]
        while True:
            for range_ in plans[-1].ranges:
                found += [int(n) for page in read_range(shelf, range_, RETENTION_MS) for n in page.sequence_numbers]
                assert ledger.commit(plans[-1], {range_: Contents(1, 1, "c")}) == []
            if not plans[-1].behind:
                break
            plans.append(planner.plan(Run("dag", str(len(plans)))))
    assert found == expected
    assert len(plans) <= len(expected)
    assert all(list(plan.ranges) for plan in plans)


def _text(bound: Bound) -> str:
    if isinstance(bound, int):
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=bound)).isoformat()
    return str(bound)


def at(number: int) -> Start:
    return Start("AT", SequenceNumber(str(number)))


SECOND = [(10, NOW_MS - 5_200), (20, NOW_MS - 5_100), (30, NOW_MS - 5_100), (40, NOW_MS - 5_099), (50, NOW_MS - 4_000)]


@pytest.mark.parametrize(
    ("begin", "end", "held"),
    [
        pytest.param(NOW_MS - 5_201, None, [10, 20, 30, 40, 50], id="before all"),
        pytest.param(NOW_MS - 5_200, None, [10, 20, 30, 40, 50], id="on the first"),
        pytest.param(NOW_MS - 5_199, None, [20, 30, 40, 50], id="behind the first, in its second"),
        pytest.param(NOW_MS - 5_100, NOW_MS - 5_099, [20, 30], id="one millisecond"),
        pytest.param(NOW_MS - 5_101, NOW_MS - 5_100, [], id="a millisecond without records"),
        pytest.param(None, NOW_MS - 5_100, [10], id="to is left out"),
        pytest.param(None, NOW_MS - 5_200, [], id="to on the first"),
        pytest.param(None, 0, [], id="to long ago"),
        pytest.param(None, NOW_MS, [10, 20, 30, 40, 50], id="to now"),
        pytest.param(NOW_MS - 3_999, None, [], id="from behind the last"),
        pytest.param(NOW_MS - 4_000, NOW_MS - 5_000, [], id="from behind to"),
    ],
)
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("page_size", [1, 10_000])
def test_times_within_one_second(begin: Bound, end: Bound, held: list[int], closed: bool, page_size: int) -> None:
    assert OneShard(SECOND, closed, page_size).held(begin, end) == held


@pytest.mark.parametrize(
    ("closed", "end", "through"),
    [
        (False, None, SequenceNumber("50")),
        (True, None, SHARD_END),
        (True, NOW_MS - 1, SHARD_END),
        (True, NOW_MS - 4_000, SequenceNumber("40")),
        (True, SequenceNumber("50"), SequenceNumber("50")),
    ],
)
def test_a_stretch_begins_and_ends_with_records_seen(closed: bool, end: Bound, through: Through) -> None:
    stretch = OneShard(SECOND, closed).stretch(SequenceNumber("20"), end)
    assert stretch == SequenceRange("shardId-000000000000", at(20), through, anchor=SequenceNumber("20"))


def test_a_record_that_arrives_between_two_looks_is_beyond_a_time_that_has_come() -> None:
    shelf = OneShard(SECOND[:-1])

    looks: list[int] = []
    first_look = shelf.iterator_from_time

    def from_time(shard_id: str, at_ms: int) -> str:
        looks.append(at_ms)
        if len(looks) == 2:
            shelf.records = [*shelf.records, (60, NOW_MS)]
        return first_look(shard_id, at_ms)

    shelf.iterator_from_time = from_time  # type: ignore[method-assign]
    assert shelf.held(None, NOW_MS - 1) == [10, 20, 30, 40]


def test_looking_for_bounds_takes_small_pages_for_others_read_the_shard_too() -> None:
    shelf = OneShard([(n, NOW_MS - 7_200_000 + n * 10) for n in range(1, 100_000)])
    assert shelf.stretch(NOW_MS - 7_000_000, NOW_MS - 6_500_000)
    assert shelf.stretch(None, None)
    assert max(shelf.limits) == 1_000
    assert len(shelf.limits) < 50


@pytest.mark.parametrize("begin", [None, SequenceNumber("1")])
def test_what_will_be_gone_before_it_is_read_is_left_out_or_told(begin: Bound) -> None:
    dying_ms = NOW_MS - RETENTION_MS + HORIZON_MARGIN_MS
    shelf = OneShard([(1, dying_ms - 1_000), (2, dying_ms)])
    if begin is None:
        assert shelf.held() == [2]
    else:
        with pytest.raises(DataLossError, match="record 1 of .* will no longer be retained when it is read.*with 2 or"):
            shelf.stretch(begin)
        assert shelf.held(SequenceNumber("2")) == [2]
