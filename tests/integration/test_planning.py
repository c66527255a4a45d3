"""Planning against the local Kinesis: where ranges end, what it costs, and what losses are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from shardlake.backfill import Request
from shardlake.batch import Steps
from shardlake.errors import ConfigError, ConflictError, DataLossError, UnavailableError
from shardlake.kinesis.client import Kinesis
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import LIVE
from shardlake.plan import Run
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Through
from support.planning import (
    HookedKinesis,
    after,
    assert_nothing_is_written,
    at,
    lost,
    only,
    planned,
    ranges,
    shard_id,
)

if TYPE_CHECKING:
    from tests.integration.conftest import World

MakeWorld = Callable[..., "World"]


class AncientKinesis(Kinesis):
    """A client for which every record arrived long ago when it is asked for one that arrived later."""

    def __init__(self, world: World) -> None:
        self.__dict__.update(world.kinesis.__dict__)

    def iterator_from_time(self, shard_id: str, at_ms: int) -> str:
        return self.iterator_at_horizon(shard_id)


class TestCalls:
    @pytest.mark.parametrize("idle_hours", [0, 1, 200])
    def test_an_idle_shard_costs_one_call_of_each_kind_however_long_it_is_idle(
        self, make_world: MakeWorld, idle_hours: int
    ) -> None:
        world = make_world(shards=2)
        world.put(b"0")
        world.run()
        for hour in range(0, idle_hours, 20):
            world.advance(hours=20)
            world.plan(f"idle-{hour}")
        world.control(reset_stats=True)
        world.plan("run-2")
        expected = {"GetShardIterator": 1, "GetRecords": 1}
        assert [{**world.calls(n), "records": 0} for n in (0, 1)] == [{**expected, "records": 0}] * 2
        assert world.server.stats()["operations"] == {
            "DescribeStreamSummary": 1,
            "ListShards": 1,
            "GetShardIterator": 2,
            "GetRecords": 2,
        }

    def test_a_quiet_shard_costs_one_call_of_each_kind(self, world: World) -> None:
        world.run()
        world.put(*[b"x"] * 1000)
        world.control(reset_stats=True)
        world.plan("run-2")
        assert world.calls() == {"GetShardIterator": 1, "GetRecords": 1, "records": 1000}

    def test_far_behind_the_tip_two_calls_of_each_kind_and_no_full_page(self, make_world: MakeWorld) -> None:
        world = backlog(make_world(max_window="10m"), minutes=60, records_a_minute=1_000)
        world.control(reset_stats=True)
        plan = world.plan("run-2")
        assert world.calls() == {"GetShardIterator": 2, "GetRecords": 2, "records": 1001}
        assert plan.behind

    @pytest.mark.slow
    def test_near_the_tip_a_page_and_a_few_calls(self, make_world: MakeWorld) -> None:
        world = backlog(make_world(), minutes=50, records_a_minute=2_000)
        world.control(reset_stats=True)
        plan = world.plan("run-2")
        calls = world.calls()
        assert calls["GetShardIterator"] + calls["GetRecords"] <= 8
        assert calls["records"] <= 1_000 + 10_000
        (last,) = world.put(b"last")
        assert int(last) > int(str(only(plan).through))
        world.run("run-2")
        assert len(world.numbers()) > 90_000
        assert world.run_until_caught_up() <= 2
        assert len(world.numbers()) == 50 * 2_000 + 1

    @pytest.mark.parametrize(("window", "idle_s"), [("1h", 3_000), ("10m", 40_000), ("1h", 40_000)])
    def test_a_burst_long_ago_is_caught_up_with_in_few_calls_each_time(
        self, make_world: MakeWorld, window: str, idle_s: int
    ) -> None:
        world = make_world(max_window=window)
        world.run()
        numbers = world.put(*[b"x"] * 6_000)
        world.advance(seconds=idle_s)
        world.control(reset_stats=True)
        plan = world.plan("run-2")
        calls = world.calls()
        assert calls["GetShardIterator"] + calls["GetRecords"] <= 8
        assert calls["records"] <= 1_000 + 10_000
        assert only(plan).through == numbers[-1]
        assert not plan.behind


def backlog(world: World, minutes: int, records_a_minute: int) -> World:
    """A shard that takes records for a while after a first, empty run."""
    world.run()
    for _ in range(minutes):
        world.put(*[b"x"] * records_a_minute)
        world.advance(seconds=60)
    return world


class TestLimits:
    def test_a_range_ends_with_the_first_record_behind_the_window(self, make_world: MakeWorld) -> None:
        world = make_world(max_window="30m")
        numbers = []
        for _ in range(20):
            numbers += world.put(*[b"x"] * 300)
            world.advance(seconds=290)
        plan = world.plan()
        assert numbers.index(SequenceNumber(str(only(plan).through))) == 7 * 300  # 7 blocks in 29 minutes, and one more
        assert plan.behind

    def test_a_window_cuts_sparse_records_too(self, make_world: MakeWorld) -> None:
        world = make_world(max_window="30m")
        numbers = []
        for _ in range(10):
            numbers += world.put(b"x")
            world.advance(seconds=600)
        assert only(world.plan()).through == numbers[2]  # minutes 0, 10 and 20; what arrived at 30 came a moment later

    @pytest.mark.parametrize("window", ["10m", "1h"])
    def test_a_probe_that_gives_records_before_the_position_does_not_move_the_end_back(
        self, make_world: MakeWorld, window: str
    ) -> None:
        # Arrival times are neither exact nor ordered.
        world = make_world(max_window=window)
        numbers = world.put(*[b"x"] * 1000)
        world.run()
        numbers += world.put(*[b"x"] * 2000)
        world.advance(seconds=1800)
        world.put(b"x")
        world.control(page_limit=900)
        assert only(world.plan("run-2", AncientKinesis(world))).through == numbers[999 + 899]

    def test_a_closed_shard_is_read_window_after_window_too(self, make_world: MakeWorld) -> None:
        world = make_world(max_window="10m")
        for _ in range(4):
            world.produce(1500)
            world.advance(seconds=700)
        world.split(0)
        ends: list[Through] = []
        while not ends or world.chain().position is not SHARD_END:
            ends.append(only(world.run(f"run-{len(ends)}")[0]).through)
        assert [end is SHARD_END for end in ends] == [False, False, False, True]
        world.assert_every_record_is_there_once()

    def test_a_gap_longer_than_the_window_is_stepped_over(self, make_world: MakeWorld) -> None:
        world = make_world(max_window="1m")
        first = world.put(b"x")
        world.advance(hours=10)
        second = world.put(b"x")
        assert only(world.run()[0]).through == first[0]
        assert only(world.run("run-2")[0]) == SequenceRange(shard_id(0), after(first[0]), second[0], second[0])

    def test_the_byte_limit_holds_within_a_page(self, make_world: MakeWorld) -> None:
        world = make_world(max_range_bytes=1000)
        numbers = world.put(*[b"x" * 300] * 10)
        plan = world.plan()
        assert only(plan).through == numbers[2]
        assert plan.behind

    def test_a_record_larger_than_the_byte_limit_makes_a_range_of_its_own(self, make_world: MakeWorld) -> None:
        world = make_world(max_range_bytes=10)
        numbers = world.put(b"x" * 300, b"y")
        assert only(world.run()[0]).through == numbers[0]
        assert only(world.run("run-2")[0]).through == numbers[1]

    def test_the_byte_limit_is_estimated_from_the_first_pages_rate(self, make_world: MakeWorld) -> None:
        world = make_world(max_range_bytes=100 * 1200)
        numbers = []
        for _ in range(60):
            numbers += world.put(*[b"x" * 100] * 50)
            world.advance(seconds=10)
        end = numbers.index(SequenceNumber(str(only(world.plan()).through)))
        assert end == pytest.approx(1200, rel=0.1)

    def test_a_backlog_of_bursts_is_not_taken_one_burst_at_a_time(self, make_world: MakeWorld) -> None:
        world = make_world()
        for _ in range(16):
            world.put(*[b"x" * 1000] * 1200)
            world.advance(seconds=60)
        assert world.run_until_caught_up() <= 3
        assert len(world.numbers()) == 16 * 1200

    def test_an_outage_is_caught_up_with_window_after_window_and_behind_tells_when_to_go_on(
        self, make_world: MakeWorld
    ) -> None:
        world = make_world(max_window="1h")
        for _ in range(30):
            world.produce(100)
            world.advance(seconds=600)
        behind: list[bool] = []
        while (batch := world.run(f"run-{len(behind)}"))[1]:
            behind.append(batch[0].behind)
        assert behind == [True, True, True, True, False]
        assert not batch[0].behind
        world.assert_every_record_is_there_once()


class TestGroups:
    def test_groups_are_cut_by_the_configured_count(self, make_world: MakeWorld) -> None:
        world = make_world(shards=5, max_group_ranges=2)
        for n in range(5):
            world.put(b"x", shard=n)
        assert [len(group) for group in world.plan().groups] == [2, 2, 1]

    def test_more_groups_than_airflow_maps_are_avoided(
        self, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shardlake.planning.MAX_GROUPS", 3)
        world = make_world(shards=8, max_group_ranges=1)
        for n in range(8):
            world.put(b"x", shard=n)
        assert [len(group) for group in world.plan().groups] == [3, 3, 2]


class TestTheSameRunAgain:
    def test_its_batch_comes_back_as_the_same_text_also_after_more_records(self, world: World) -> None:
        world.put(b"0")
        plan = world.plan()
        plan_file = world.path(f"_shardlake/batches/{plan.batch_id}/plan.json")
        text = plan_file.read_text()
        assert text == world.ledger.batch(plan.batch_id)
        world.put(b"1")
        assert world.plan() == plan
        plan_file.unlink()
        world.run()
        assert world.plan() == plan
        assert plan_file.read_text() == text

    def test_an_empty_batch_is_not_pinned_so_the_run_may_find_records_later(self, world: World) -> None:
        plan = world.plan()
        assert (plan.groups, plan.behind, world.ledger.batch(plan.batch_id)) == ((), False, None)
        (number,) = world.put(b"0")
        assert only(world.plan()).through == number

    def test_two_at_once_get_one_batch(self, make_world: MakeWorld) -> None:
        world = make_world(shards=3)
        world.produce(200)
        with ThreadPoolExecutor(4) as pool:
            plans = list(pool.map(lambda _: world.plan(), range(4)))
        assert plans == [plans[0]] * 4

    def test_two_runs_at_once_get_the_same_ranges(self, make_world: MakeWorld) -> None:
        world = make_world(shards=3)
        world.produce(200)
        with ThreadPoolExecutor(4) as pool:
            plans = list(pool.map(lambda n: world.plan(f"run-{n}"), range(4)))
        assert {tuple(plan.ranges) for plan in plans} == {tuple(plans[0].ranges)}


class TestOpenRanges:
    def test_an_open_range_of_an_earlier_run_is_taken_over_as_it_is(self, world: World) -> None:
        world.put(b"0")
        first = world.plan("run-1")
        world.put(b"1")
        second = world.plan("run-2")
        assert list(second.ranges) == list(first.ranges)
        assert second.behind
        assert world.run("run-2")[1] is not None
        (number,) = world.put(b"2")
        assert only(world.plan("run-3")).through == number

    def test_a_published_open_range_is_taken_over_though_its_records_are_gone(self, world: World) -> None:
        numbers = world.put(b"0", b"1")
        plan = world.plan("run-1")
        from shardlake.ingesting import ingest_ranges

        assert [report.error for report in ingest_ranges(plan, [only(plan)])] == [None]
        world.trim()
        _, committed = world.run("run-2")
        assert committed is not None
        assert committed.rows == 2
        assert world.chain().position == after(numbers[1])

    def test_the_open_end_of_an_empty_closed_shard_is_taken_over_though_the_shard_is_gone(self, world: World) -> None:
        world.put(b"0")
        world.run()
        world.split(0)
        plan = world.plan("run-2")
        assert only(plan).through is SHARD_END
        assert only(plan).anchor is None
        world.trim()
        _, committed = world.run("run-3")
        assert committed is not None
        assert committed.rows == 0
        assert world.chain().position is SHARD_END


class TestIdleAndOld:
    def test_idle_for_longer_than_the_retention_and_then_a_record_is_no_loss(self, world: World) -> None:
        (first,) = world.put(b"0")
        world.run()
        for n in range(10):
            world.advance(hours=6)
            assert list(world.plan(f"idle-{n}").ranges) == []
        (second,) = world.put(b"1")
        assert only(world.run("run-2")[0]) == SequenceRange(shard_id(0), after(first), second, second)
        assert world.numbers() == [first.text, second.text]

    def test_an_empty_shard_idle_for_longer_than_the_retention_and_then_a_record_is_no_loss(self, world: World) -> None:
        for n in range(10):
            world.advance(hours=6)
            assert list(world.plan(f"idle-{n}").ranges) == []
        (number,) = world.put(b"1")
        assert only(world.plan()).through == number

    def test_not_looked_at_for_longer_than_the_retention_is_told_for_nobody_can_know(self, world: World) -> None:
        world.put(b"0")
        world.run()
        world.plan("idle")
        world.advance(hours=25)
        with pytest.raises(DataLossError, match="found no record left"):
            world.plan("run-2")

    def test_an_old_record_at_the_tip_has_a_plan_follow_soon_that_notes_that_nothing_is_behind_it(
        self, world: World
    ) -> None:
        world.put(b"0")
        world.advance(hours=20)
        plan, _ = world.run()
        assert plan.behind
        assert list(world.plan("run-2").ranges) == []
        world.advance(hours=6)
        assert list(world.plan("run-3").ranges) == []

    def test_a_first_plan_cut_short_behind_the_listing_of_an_empty_shard_hides_no_loss(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Interrupted(Exception):
            pass

        record_listing = MemoryLedger.record_listing

        def die(*arguments: Any, **named: Any) -> None:
            record_listing(*arguments, **named)
            raise Interrupted

        with monkeypatch.context() as patch:
            patch.setattr(MemoryLedger, "record_listing", die)
            with pytest.raises(Interrupted):
                world.plan()
        world.put(b"0", b"1")
        world.advance(hours=25)
        world.put(b"2")
        with pytest.raises(DataLossError, match="no longer retained"):
            world.plan()


class TestLosses:
    @pytest.fixture
    def world(self, make_world: MakeWorld) -> World:
        """Two shards, read through their first record; the first one has lost two of the next three."""
        world = make_world(shards=2)
        world.put(b"0")
        world.put(b"0", shard=1)
        world.run("first")
        return world

    def test_fail_leaves_the_shard_out_commits_the_others_and_then_fails(self, world: World) -> None:
        numbers = world.put(b"1", b"2", b"3")
        others = world.put(b"1", shard=1)
        world.trim(before=numbers[2])
        plan = world.plan("run-2")
        assert planned(plan) == [shard_id(1)]
        with pytest.raises(DataLossError, match=f"1 of 1 ranges.*{shard_id(0)}.*found {numbers[2]} as the oldest"):
            world.run("run-2")
        assert world.chain(1).position == after(others[0])
        assert lost(world) == []
        with pytest.raises(DataLossError, match="no longer retained"):
            world.plan("run-3")

    def test_skip_records_what_is_lost_and_goes_on_behind_it(self, world: World) -> None:
        (position,) = [world.chain().position]
        numbers = world.put(b"1", b"2", b"3", b"4")
        world.put(b"1", shard=1)
        world.trim(before=numbers[2])
        world.settings["on_data_loss"] = "skip"
        plan, committed = world.run("run-2")
        assert committed is not None
        assert plan.losses == ()
        assert ranges(plan)[shard_id(0)] == SequenceRange(shard_id(0), at(numbers[2]), numbers[3], numbers[2])
        (row,) = lost(world)
        assert (row.range.start, row.range.through) == (position, numbers[2].plus(-1))
        (marker,) = world.path(f"_shardlake/lost/shard_id={shard_id(0)}").iterdir()
        assert marker.name == f"{row.range.start.key}-{row.range.through.key}.json"
        facts = json.loads(marker.read_text())
        assert (facts["batch"], facts["pipeline"]) == (plan.batch_id, "p")
        assert world.numbers()[1:] == [number.text for number in numbers[2:]]

    def test_skip_keeps_the_end_of_an_open_range(self, world: World) -> None:
        numbers = world.put(b"1", b"2", b"3")
        first = world.plan("run-2")
        world.put(b"4")
        world.trim(before=numbers[1])
        world.settings["on_data_loss"] = "skip"
        assert only(world.plan("run-3")) == SequenceRange(shard_id(0), at(numbers[1]), numbers[2], numbers[1])
        assert only(first).through == numbers[2]
        world.run("run-3")
        assert world.chain().position == after(numbers[2])

    def test_skip_goes_on_where_all_of_an_open_range_is_lost(self, world: World) -> None:
        world.put(b"1", b"2")
        world.plan("run-2")
        (later,) = world.put(b"3")
        world.trim(before=later)
        world.settings["on_data_loss"] = "skip"
        assert only(world.run("run-3")[0]) == SequenceRange(shard_id(0), at(later), later, later)
        assert len(lost(world)) == 1

    def test_skip_with_nothing_left_goes_on_with_the_next_record(self, world: World) -> None:
        world.put(b"1", b"2")
        world.trim()
        world.settings["on_data_loss"] = "skip"
        assert list(world.plan("run-2").ranges) == []
        assert lost(world) == []
        (number,) = world.put(b"3")
        assert only(world.plan("run-3")) == SequenceRange(shard_id(0), at(number), number, number)
        assert [row.range.through for row in lost(world)] == [number.plus(-1)]

    def test_skip_goes_to_a_record_that_lasts_until_it_is_read(self, world: World) -> None:
        world.put(b"1")
        world.advance(hours=1)
        world.put(b"2")
        world.advance(seconds=120)
        world.put(b"3")
        world.advance(seconds=900)
        (lasting,) = world.put(b"4")
        world.advance(hours=24, seconds=-1000)
        world.settings["on_data_loss"] = "skip"
        plan = world.plan("run-2")
        world.advance(seconds=300)
        world.run("run-2")
        assert only(plan).start == at(lasting)

    def test_a_marker_that_was_not_written_is_written_by_the_next_plan(self, world: World) -> None:
        numbers = world.put(b"1", b"2")
        world.trim(before=numbers[1])
        world.settings["on_data_loss"] = "skip"
        world.plan("run-2")
        (marker,) = world.path("_shardlake/lost").glob("*/*")
        text = marker.read_text()
        marker.unlink()
        world.plan("run-3")
        assert marker.read_text() == text

    def test_a_marker_is_written_also_once_the_loss_is_to_fail_again(self, world: World) -> None:
        numbers = world.put(b"1", b"2")
        world.trim(before=numbers[1])
        world.settings["on_data_loss"] = "skip"
        world.plan("run-2")
        (marker,) = world.path("_shardlake/lost").glob("*/*")
        marker.unlink()
        world.settings["on_data_loss"] = "fail"
        world.plan("run-3")
        assert marker.exists()

    def test_a_run_that_was_quicker_with_the_loss_is_left_to_it(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        numbers = world.put(b"1", b"2", b"3")
        world.trim(before=numbers[1])
        world.settings["on_data_loss"] = "skip"
        declare_lost = MemoryLedger.declare_lost

        def late(*arguments: object) -> None:
            monkeypatch.setattr(MemoryLedger, "declare_lost", declare_lost)
            world.trim(before=numbers[2])
            world.plan("quicker")
            declare_lost(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(MemoryLedger, "declare_lost", late)
        plan = world.plan("run-2")
        assert (only(plan).start if plan.groups else None, plan.behind) == (None, True)
        assert [row.range.through for row in lost(world)] == [numbers[2].plus(-1)]


class TestServiceTrouble:
    def test_a_shard_that_cannot_be_looked_at_is_left_out_and_the_others_go_on(
        self, make_world: MakeWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        world = make_world(shards=2)
        world.run("first")
        world.put(b"1")
        world.put(b"1", shard=1)
        kinesis = ThrottledKinesis(world, shard_id(0))
        plan = world.plan("run-2", kinesis)
        assert (planned(plan), plan.behind) == ([shard_id(1)], True)
        assert f"{shard_id(0)} is left out of this batch: throttled" in caplog.text

    def test_a_shard_that_cannot_be_looked_at_fails_the_plan_where_there_is_nothing_else_to_do(
        self, make_world: MakeWorld
    ) -> None:
        world = make_world(shards=2)
        world.run("first")
        with pytest.raises(UnavailableError, match="throttled"):
            world.plan("run-2", ThrottledKinesis(world, shard_id(0)))


class ThrottledKinesis(Kinesis):
    """A client that is never let at one shard."""

    def __init__(self, world: World, throttled: str) -> None:
        self.__dict__.update(world.kinesis.__dict__)
        self._throttled = throttled

    def _iterator(self, shard_id: str, **position: object) -> str:
        if shard_id == self._throttled:
            raise UnavailableError("throttled")
        return super()._iterator(shard_id, **position)


class TestRefusals:
    """Each ends before anything is written."""

    def test_a_stream_recreated_under_its_name(self, world: World) -> None:
        world.put(b"0")
        world.run()
        world.client.delete_stream(StreamName=world.stream)
        world.advance(seconds=5)
        world.client.create_stream(StreamName=world.stream, ShardCount=1)
        world.put(b"1")
        before = self.state(world)
        with pytest.raises(ConflictError, match=r"stream_created_at_ms.*deleted and made anew"):
            world.plan("run-2")
        assert self.state(world) == before

    def test_a_dataset_of_another_pipeline(self, make_world: MakeWorld) -> None:
        world = make_world()
        world.put(b"0")
        world.run()
        world.settings["name"] = "q"
        before = self.state(world)
        with pytest.raises(ConflictError, match="expected q, found p.*belongs to another pipeline"):
            world.plan()
        assert self.state(world) == before
        assert world.ledger.shards("q") == {}

    def test_another_ledger(self, world: World) -> None:
        world.put(b"0")
        world.run()
        world.ledger = MemoryLedger()
        before = self.state(world)
        with pytest.raises(ConflictError, match="ledger_id.*restored or emptied"):
            world.plan()
        assert self.state(world) == before

    def test_a_moved_dataset(self, world: World) -> None:
        world.put(b"0")
        world.run()
        before = self.state(world)
        world.settings["dataset"] = str(world.root / "elsewhere" / "lake")
        with pytest.raises(ConflictError, match="the ledger knows pipeline p otherwise, dataset"):
            world.plan("run-2")
        del world.settings["dataset"]
        assert self.state(world) == before

    def test_a_folder_that_holds_data_already(self, world: World) -> None:
        world.put(b"0")
        foreign = world.path("data/shard_id=shardId-000000000000/foreign.parquet")
        foreign.parent.mkdir(parents=True)
        foreign.touch()
        with pytest.raises(ConflictError, match=r"has files in data/ but no _shardlake/owner.json"):
            world.plan()
        assert world.ledger.shards("p") == {}

    @pytest.mark.parametrize("denied", ["DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"])
    def test_access_denied(self, world: World, denied: str) -> None:
        world.put(b"0")
        world.control(deny=[denied])
        with pytest.raises(ConfigError, match=rf"no access: {denied} on stream .*Grant kinesis:DescribeStreamSummary"):
            world.plan()
        assert_nothing_is_written(world)

    def test_a_missing_stream(self, world: World) -> None:
        world.settings["stream"] = "no-such-stream"
        with pytest.raises(ConfigError, match=r"stream no-such-stream is not there, at http.*Check stream, region"):
            world.plan()
        assert_nothing_is_written(world)

    def test_a_stream_of_another_region(self, world: World) -> None:
        world.settings["region"] = "eu-west-1"
        with pytest.raises(ConfigError, match=f"stream {world.stream} is not there"):
            world.plan()
        assert_nothing_is_written(world)

    def test_an_endpoint_that_does_not_answer_may_be_tried_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
        world.settings["endpoint_url"] = "http://127.0.0.1:9"
        with pytest.raises(UnavailableError, match=r"the Kinesis endpoint http://127.0.0.1:9 does not answer"):
            world.plan()
        assert_nothing_is_written(world)

    def test_an_unwritable_dataset(self, world: World) -> None:
        world.root.mkdir()
        world.root.joinpath("lake").write_text("a file, not a folder")
        with pytest.raises(ConfigError, match=f"dataset {world.root}/lake: .*Give the dataset a folder"):
            world.plan()
        assert world.ledger.shards("p") == {}

    @staticmethod
    def state(world: World) -> object:
        files = {str(path): path.read_bytes() for path in world.root.rglob("*") if path.is_file()}
        return files, sorted(map(str, world.root.rglob("*"))), world.ledger.shards("p"), world.ledger.chains("p", LIVE)


class TestTheDatasetIsGone:
    """Its disk is not mounted, or the folder was emptied: that is no dataset to begin."""

    @pytest.fixture(autouse=True)
    def begun(self, world: World) -> None:
        world.produce(20)
        world.run("begun")

    @pytest.mark.parametrize("open_range", [False, True], ids=["nothing open", "an open range"])
    def test_it_is_not_begun_anew_and_gone_on_with_once_it_is_back(self, world: World, open_range: bool) -> None:
        """Kills: the dataset claimed anew, though the ledger knows positions in it."""
        world.produce(20)
        if open_range:
            world.plan("open")
        before = world.ledger.chains("p", LIVE)
        away = world.path("").rename(world.root / "unmounted")
        with pytest.raises(ConflictError, match=r"lake has lost its _shardlake/owner.json.*its disk is not mounted"):
            world.run("unmounted")
        assert not world.path("").exists()
        assert world.ledger.chains("p", LIVE) == before
        away.rename(world.path(""))
        world.run_until_caught_up()
        world.assert_every_record_is_there_once()

    def test_while_it_is_planned(self, world: World) -> None:
        """Kills: looked at before the shards are, and claimed behind that."""
        before = world.ledger.chains("p", LIVE)
        away = world.root / "unmounted"
        unmount = HookedKinesis(world, lambda: away.exists() or world.path("").rename(away))
        with pytest.raises(ConflictError, match=r"has lost its _shardlake/owner.json"):
            world.plan("unmounted", unmount)
        assert not world.path("").exists()
        assert world.ledger.chains("p", LIVE) == before

    def test_a_dry_run_tells_too(self, world: World) -> None:
        world.path("").rename(world.root / "unmounted")
        planner = world.planner()
        with pytest.raises(ConflictError, match=r"has lost its _shardlake/owner.json"):
            planner.propose(planner.draft(Run("dag", "dry")))

    def test_no_backfill_is_opened_beside_it(self, world: World) -> None:
        world.path("").rename(world.root / "unmounted")
        with pytest.raises(ConflictError, match=r"lake has lost its _shardlake/owner.json"):
            Steps(world.pipeline, world.ledger, namespace="b").open_backfill(Request())
        assert not world.path("").exists()
        assert world.ledger.backfills("p") == {}

    def test_a_backfill_of_it_is_not_gone_on_with(self, world: World) -> None:
        """Kills: only the live pipeline's folder asked for."""
        steps = Steps(world.pipeline, world.ledger, namespace="b")
        steps.open_backfill(Request())
        world.path("backfill/b").rename(world.root / "away")
        with pytest.raises(ConflictError, match=r"backfill/b has lost its _shardlake/owner.json"):
            steps.plan(Run("dag", "fill"))
        assert not world.path("backfill/b").exists()


class TestDryRun:
    def test_it_shows_the_ranges_and_writes_nothing(self, world: World) -> None:
        numbers = world.put(b"0", b"1")
        planner = world.planner()
        draft, proposed = planner.propose(planner.draft(Run("dag", "dry")))
        assert proposed == [SequenceRange(shard_id(0), at(numbers[0]), numbers[1], numbers[0])]
        assert not draft.behind
        assert_nothing_is_written(world)

    def test_it_tells_losses_but_does_not_record_them(self, make_world: MakeWorld) -> None:
        world = make_world(on_data_loss="skip")
        world.put(b"0")
        world.run()
        numbers = world.put(b"1", b"2")
        world.trim(before=numbers[1])
        planner = world.planner()
        with pytest.raises(DataLossError, match=f"found {numbers[1]} as the oldest record left"):
            planner.propose(planner.draft(Run("dag", "dry")))
        assert lost(world) == []
