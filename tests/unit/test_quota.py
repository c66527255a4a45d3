"""A reader's share of what a shard gives out, by a clock that only its waiting moves."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_kinesis.limits import Bucket
from shardlake.kinesis.quota import SHARD_BYTES_PER_S, SHARD_CALLS_PER_S, ReadQuota, reading_s
from shardlake.kinesis.reader import PACED_PAGE_BYTES

MIB = 2**20


class Clock:
    """A monotonic clock that stands still but for sleep, and for what `now_s` is moved by."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now_s += seconds


@pytest.fixture
def clock() -> Iterator[Clock]:
    with patch("shardlake.kinesis.quota.time", Clock()) as clock:
        yield clock


@pytest.mark.parametrize(
    ("calls", "size", "fraction", "seconds"),
    [(5, 0, 1.0, 1.0), (1, 2 * MIB, 1.0, 1.0), (1, 10 * MIB, 0.5, 10.0), (10, 2 * MIB, 0.5, 4.0), (0, 0, 1.0, 0.0)],
)
def test_a_share_takes_longer_for_calls_or_for_bytes(calls: int, size: int, fraction: float, seconds: float) -> None:
    assert reading_s(calls, size, fraction) == pytest.approx(seconds)


@given(
    st.lists(st.tuples(st.integers(0, 10 * MIB), st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=50),
    st.floats(0.01, 1),
)
def test_calls_and_bytes_stay_within_the_share_whatever_the_calls_and_what_comes_between_take(
    calls: list[tuple[int, float, float]], fraction: float
) -> None:
    with patch("shardlake.kinesis.quota.time", Clock()) as clock:
        begun_s = clock.now_s
        quota = ReadQuota(fraction, begun_s)
        for size, late_s, taken_s in calls:
            clock.now_s += late_s
            called_at_s = clock.now_s
            clock.now_s += taken_s
            quota.wait(called_at_s, size)
        passed_s = clock.now_s - begun_s
    assert len(calls) <= SHARD_CALLS_PER_S * fraction * passed_s * 1.001
    assert sum(size for size, _, _ in calls) <= SHARD_BYTES_PER_S * fraction * passed_s * 1.001


@given(
    st.sampled_from([1000, MIB // 2, PACED_PAGE_BYTES]),
    st.lists(st.tuples(st.floats(0, 0.09), st.floats(0, 0.1) | st.floats(0, 3)), min_size=1, max_size=50),
    st.floats(0, 1),
)
def test_a_shard_that_is_read_by_nobody_else_refuses_no_call_after_the_first_that_it_refused(
    size: int, calls: list[tuple[float, float]], since_s: float
) -> None:
    """Kills: making up for more than the shard holds; calls that come so close that the way to it decides."""
    by_bytes, by_calls = Bucket(SHARD_BYTES_PER_S), Bucket(SHARD_CALLS_PER_S)
    with patch("shardlake.kinesis.quota.time", Clock()) as clock:
        by_bytes.has(1, int(clock.now_s * 1e9))
        by_bytes.take(SHARD_BYTES_PER_S)
        quota = ReadQuota(1.0, clock.now_s)
        clock.now_s += since_s
        quota.wait(clock.now_s, size)
        for way_s, late_s in calls:
            called_at_s = clock.now_s
            clock.now_s += way_s
            now_ns = int(clock.now_s * 1e9)
            assert by_bytes.has(1, now_ns)
            assert by_calls.has(1, now_ns)
            by_bytes.take(size)
            by_calls.take(1)
            clock.now_s += late_s
            quota.wait(called_at_s, size)


def test_it_waits_no_longer_than_the_share_asks_for(clock: Clock) -> None:
    quota = ReadQuota(0.5, clock.now_s - 1)
    for size in (0, MIB, 4 * MIB):
        quota.wait(clock.now_s, size)
    assert clock.now_s - 1000 == pytest.approx(0.4 + 1 + 4)


def test_what_a_call_and_its_records_took_counts_as_waiting(clock: Clock) -> None:
    quota = ReadQuota(1.0, clock.now_s - 1)
    clock.now_s += 0.7
    quota.wait(1000, 2 * MIB)
    assert clock.now_s == pytest.approx(1001)


def paced(quota: ReadQuota, clock: Clock, calls: int) -> list[float]:
    """When calls for half a MiB each are made, one after another."""
    made = []
    for _ in range(calls):
        made.append(clock.now_s)
        quota.wait(clock.now_s, MIB // 2)
    return made


def test_a_call_that_was_late_is_made_up_for(clock: Clock) -> None:
    """Kills: a shard whose limits are never used up by a reader that writes a row group now and then."""
    quota = ReadQuota(1.0, 1000)
    quota.wait(clock.now_s, MIB // 2)
    first = paced(quota, clock, 4)
    clock.now_s += 0.4
    late = paced(quota, clock, 10)
    assert late[0] - first[0] == pytest.approx(4 * 0.25 + 0.4)
    assert late[1] == late[0]
    assert late[-1] - first[0] == pytest.approx(13 * 0.25)


def test_no_more_is_made_up_for_than_the_shard_holds(clock: Clock) -> None:
    quota = ReadQuota(1.0, 1000)
    clock.now_s += 3600
    assert [at_s - 4600 for at_s in paced(quota, clock, 5)] == pytest.approx([0, 0, 0, 0.1, 0.35])


def test_a_call_that_was_refused_leaves_nothing_to_make_up_from(clock: Clock) -> None:
    quota = ReadQuota(1.0, 1000)
    clock.now_s += 3600
    quota.found_empty(4599.5)
    quota.found_empty(1000)
    assert [at_s - 4600 for at_s in paced(quota, clock, 4)] == pytest.approx([0, 0.1, 0.35, 0.6])
