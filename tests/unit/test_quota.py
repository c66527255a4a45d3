"""A reader's share of what a shard gives out, by a clock that only its waiting moves."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlake.kinesis.quota import SHARD_BYTES_PER_S, SHARD_CALLS_PER_S, ReadQuota, reading_s

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
        quota = ReadQuota(fraction)
        for size, late_s, taken_s in calls:
            clock.now_s += late_s
            called_at_s = clock.now_s
            clock.now_s += taken_s
            quota.wait(called_at_s, size)
        passed_s = clock.now_s - begun_s
    assert len(calls) <= SHARD_CALLS_PER_S * fraction * passed_s * 1.001
    assert sum(size for size, _, _ in calls) <= SHARD_BYTES_PER_S * fraction * passed_s * 1.001


def test_it_waits_no_longer_than_the_share_asks_for(clock: Clock) -> None:
    quota = ReadQuota(0.5)
    for size in (0, MIB, 4 * MIB):
        quota.wait(clock.now_s, size)
    assert clock.now_s - 1000 == pytest.approx(0.4 + 1 + 4)


def test_what_a_call_and_its_records_took_counts_as_waiting(clock: Clock) -> None:
    quota = ReadQuota(1.0)
    clock.now_s += 0.15
    quota.wait(1000, 0)
    assert clock.now_s == pytest.approx(1000.2)
    clock.now_s += 7
    quota.wait(1000.2, 0)
    assert clock.now_s == pytest.approx(1007.2)


def test_a_call_that_was_late_is_not_made_up_for(clock: Clock) -> None:
    quota = ReadQuota(1.0)
    for late_s in (0.05, 3600, 0):
        clock.now_s += late_s
        quota.wait(clock.now_s, 0)
    assert clock.now_s == pytest.approx(1000 + 3600.05 + 3 * 0.2)
