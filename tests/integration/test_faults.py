"""What the service and the way to it do wrong: a range is read exactly, or not at all and with a clear error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from shardlake.errors import IngestError, UnavailableError
from shardlake.ranges import SequenceNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.conftest import World

PASSING: dict[str, dict[str, Any]] = {
    "throttled": {"kind": "throttle", "every": 2},
    "throttled by KMS": {"kind": "throttle", "error": "KMSThrottlingException", "every": 2},
    "500": {"kind": "server_error", "every": 2},
    "503": {"kind": "server_error", "status": 503, "every": 2},
    "reset before the reply": {"kind": "reset", "every": 2},
    "reset in the reply": {"kind": "reset", "at": "middle", "every": 2},
    "reply lost": {"kind": "lost_reply", "every": 2},
    "body truncated": {"kind": "truncated_body", "every": 2},
    "body cut": {"kind": "cut_json", "every": 2},
    "slow": {"kind": "slow", "piece_bytes": 4096, "pause_ms": 1, "every": 3},
    "page empty": {"kind": "empty_page", "every": 2},
    "iterator expired": {"kind": "expired_iterator", "every": 3},
}
OF_GET_RECORDS = ("empty_page", "expired_iterator")


@pytest.fixture(autouse=True)
def calm(world: World, monkeypatch: pytest.MonkeyPatch, no_waiting: None) -> Iterator[None]:
    """No waiting between tries, and no faults afterwards."""
    monkeypatch.setattr("shardlake.kinesis.client.random.uniform", lambda *_: 0.0)
    yield
    world.control(faults=[])


@pytest.mark.parametrize(
    ("fault", "operation"),
    [
        pytest.param(fault, operation, id=f"{operation}-{name}")
        for name, fault in PASSING.items()
        for operation in ("GetRecords", "GetShardIterator", "ListShards", "DescribeStreamSummary")
        if operation == "GetRecords" or fault["kind"] not in OF_GET_RECORDS
    ],
)
def test_what_passes_is_tried_again_and_every_record_is_there_once(
    world: World, fault: dict[str, Any], operation: str
) -> None:
    world.produce(60)
    if fault["kind"] == "expired_iterator":
        world.plan()  # planning keeps no iterator for long
    world.control(page_limit=7, faults=[{**fault, "operation": operation, "stream": world.stream}])
    world.run()
    world.control(faults=[], page_limit=None)
    world.run_until_caught_up()
    world.assert_every_record_is_there_once()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"kind": "throttle"}, "ProvisionedThroughputExceededException: Rate exceeded"),
        ({"kind": "throttle", "error": "KMSThrottlingException"}, "KMSThrottlingException"),
        ({"kind": "server_error"}, "InternalFailure"),
        ({"kind": "reset"}, "does not answer as it should"),
        ({"kind": "truncated_body"}, "does not answer as it should|breaks off"),
        ({"kind": "cut_json"}, "to get_records breaks off"),
        ({"kind": "empty_page"}, "nothing but empty pages"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_what_outlasts_the_budget_is_a_clear_error_that_may_be_retried_and_publishes_nothing(
    world: World, fault: dict[str, Any], said: str
) -> None:
    """Kills: a budget that is not the plan's; one that is never used up."""
    world.produce(60)
    world.settings["retry_budget"] = "1s"
    plan = world.plan()
    world.control(faults=[{**fault, "operation": "GetRecords", "stream": world.stream}])
    with pytest.raises(UnavailableError, match=rf"({said}).*; no progress for 1 s\. "):
        world.run()
    assert world.home.names("data") == []
    world.control(faults=[])
    assert world.plan() == plan
    world.run_until_caught_up()
    world.assert_every_record_is_there_once()


class Clock:
    """A clock that only waiting moves."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(("tries", "in_time"), [(100, True), (150, False)])
def test_the_budget_is_for_trouble_between_two_pages_not_for_all_of_a_range(
    world: World, monkeypatch: pytest.MonkeyPatch, tries: int, in_time: bool
) -> None:
    """Kills: a budget that new records do not renew. A page costs 8 min of waiting here, or 12; the range has four."""
    clock = Clock()
    monkeypatch.setattr("shardlake.kinesis.budget.time", clock)
    monkeypatch.setattr("shardlake.kinesis.client.random.uniform", lambda _, longest: longest)
    world.produce(8)
    world.plan()
    failing = [page * (tries + 1) + n for page in range(4) for n in range(1, tries + 1)]
    throttle = {"kind": "throttle", "error": "KMSThrottlingException", "operation": "GetRecords"}
    world.control(page_limit=2, faults=[{**throttle, "stream": world.stream, "nth": failing}])
    if in_time:
        world.run()
        world.assert_every_record_is_there_once()
        assert clock.now_s == 4 * (sum(0.25 * 1.5**n for n in range(8)) + 92 * 5)
    else:
        with pytest.raises(UnavailableError, match="KMSThrottlingException.*; no progress for 600 s"):
            world.run()
        assert 595 < clock.now_s <= 600


def test_credentials_that_have_expired_are_not_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: ten minutes of the same call with the same credentials."""
    calls = []

    def refuse(**_: object) -> None:
        calls.append(1)
        raise ClientError({"Error": {"Code": "ExpiredTokenException", "Message": "old"}}, "GetRecords")

    kinesis = world.kinesis
    monkeypatch.setattr(kinesis._client, "get_records", refuse)
    with pytest.raises(IngestError, match="credentials have expired: run the step again with new ones") as failed:
        kinesis.get_records("iterator")
    assert (len(calls), failed.value.terminal) == (1, False)


@pytest.mark.parametrize("kind", ["truncated_body", "cut_json"])
def test_a_reply_that_breaks_off_is_not_the_end_of_a_closed_shard(world: World, kind: str) -> None:
    """Kills: taking a reply without its members for one."""
    world.produce(60)
    world.split(0)
    world.control(
        page_limit=7, faults=[{"kind": kind, "operation": "GetRecords", "stream": world.stream, "nth": [3, 5]}]
    )
    world.run_until_caught_up()
    world.assert_every_record_is_there_once()


@pytest.mark.parametrize("operation", ["DescribeStreamSummary", "ListShards"])
def test_planning_tells_that_replies_break_off(world: World, operation: str) -> None:
    world.control(faults=[{"kind": "cut_json", "operation": operation}])
    with pytest.raises(UnavailableError, match=r"breaks off; no progress for 2 s\. Run the step again"):
        world.plan()


def test_planning_has_one_budget_for_all_shards_together(make_world: Callable[..., World]) -> None:
    """Kills: a budget a shard, or one that each reply renews. 96 shards are three rounds of side by side."""
    world = make_world(shards=96)
    world.run("listed")
    throttle = {"kind": "throttle", "error": "KMSThrottlingException", "operation": "GetRecords"}
    world.control(faults=[{**throttle, "stream": world.stream}])
    begun_s = time.monotonic()
    with pytest.raises(UnavailableError, match="KMSThrottlingException.*; no progress for 2 s"):
        world.plan()
    assert 2 <= time.monotonic() - begun_s < 4


def test_planning_gets_past_empty_pages_for_longer_than_its_budget_as_long_as_the_tip_comes_nearer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: empty pages counted, by number or by time, whether or not there is progress."""
    monkeypatch.setattr("shardlake.kinesis.pages.EMPTY_PAGE_WAIT_S", 0.1)
    world.produce(5)
    empty = {"kind": "empty_page", "operation": "GetRecords", "stream": world.stream}
    world.control(faults=[{**empty, "behind_ms": 90_000 - n * 1000, "nth": n} for n in range(1, 31)])
    (range_,) = world.plan().ranges
    assert range_.through == SequenceNumber(world.acknowledged[-1].sequence_number)
