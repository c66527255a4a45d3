"""What the service and the way to it do wrong: a range is read exactly, or not at all and with a clear error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shardlake.errors import IngestError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)
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


@pytest.mark.parametrize("kind", ["throttle", "server_error", "reset", "truncated_body", "cut_json"])
def test_what_lasts_ends_in_a_clear_error_that_may_be_retried_and_publishes_nothing(world: World, kind: str) -> None:
    world.produce(60)
    plan = world.plan()
    world.control(faults=[{"kind": kind, "operation": "GetRecords", "stream": world.stream, "every": 1}])
    with pytest.raises(IngestError) as failed:
        world.run()
    assert not failed.value.terminal
    assert "KeyError" not in str(failed.value)
    assert world.home.names("data") == []
    world.control(faults=[])
    assert world.plan() == plan
    world.run_until_caught_up()
    world.assert_every_record_is_there_once()


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
    world.control(faults=[{"kind": "cut_json", "operation": operation, "every": 1}])
    with pytest.raises(UnavailableError, match="break off, 5 times in a row"):
        world.plan()
