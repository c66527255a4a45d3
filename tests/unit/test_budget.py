"""How long trouble may last, by a clock that only waiting moves."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import boto3
import pytest

from shardlake.errors import UnavailableError
from shardlake.kinesis.budget import Budget
from shardlake.kinesis.client import PLANNING_S, Kinesis

FAILURE = UnavailableError("the service is away", found="nothing", todo="Run the step again")


class Clock:
    """A monotonic clock that stands still but for sleep, and for what `now_s` is moved by."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock() -> Iterator[Clock]:
    with patch("shardlake.kinesis.budget.time", Clock()) as clock:
        yield clock


def test_trouble_may_last_as_long_as_the_budget_and_no_longer(clock: Clock) -> None:
    budget = Budget(10)
    for _ in range(5):
        budget.wait(2, FAILURE)
    assert clock.now_s == 1010
    with pytest.raises(
        UnavailableError, match=r"^the service is away; no progress for 10 s\. Run the step again$"
    ) as failed:
        budget.wait(0.1, FAILURE)
    assert failed.value.__cause__ is FAILURE
    assert clock.now_s == 1010


def test_a_pause_that_would_outlast_it_is_cut_so_that_the_last_try_is_at_its_end(clock: Clock) -> None:
    """Kills: giving up after half of the budget, since the next pause was a long one."""
    budget = Budget(10)
    budget.wait(6, FAILURE)
    budget.wait(12, FAILURE)
    assert clock.now_s == 1010
    with pytest.raises(UnavailableError):
        budget.wait(0, FAILURE)


def test_progress_gives_the_whole_budget_again(clock: Clock) -> None:
    budget = Budget(10)
    for _ in range(4):
        budget.wait(9, FAILURE)
        budget.renew()
    budget.wait(10, FAILURE)


def test_the_time_of_calls_counts_and_the_time_before_trouble_does_not(clock: Clock) -> None:
    budget = Budget(10)
    clock.now_s += 3600
    budget.wait(1, FAILURE)
    clock.now_s += 9.5
    with pytest.raises(UnavailableError):
        budget.wait(0, FAILURE)


def test_used_up_it_stays_so_until_there_is_progress(clock: Clock) -> None:
    budget = Budget(10)
    budget.wait(10, FAILURE)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            budget.wait(1, FAILURE)
    budget.renew()
    budget.wait(1, FAILURE)


def test_ranges_that_are_read_by_one_client_have_a_budget_each() -> None:
    """Kills: the progress of one range that lets the trouble of another last."""
    kinesis = Kinesis("s", "eu-west-1", None, boto3.Session("id", "secret"))
    one, other = kinesis.within(Budget(1)), kinesis.within(Budget(2))
    assert [each.budget.seconds for each in (one, other, kinesis)] == [1, 2, PLANNING_S]
