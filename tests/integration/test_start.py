"""Where the chains of the first listing begin, against the local Kinesis."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from shardlake.errors import ConfigError, DataLossError
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start
from support.aggregates import aggregate_of
from support.planning import (
    HookedKinesis,
    after,
    assert_nothing_is_written,
    at,
    beginning,
    lost,
    only,
    planned,
    ranges,
    shard_id,
)

if TYPE_CHECKING:
    from tests.integration.conftest import World

MakeWorld = Callable[..., "World"]


S0, S1, S2 = map(shard_id, range(3))


def arrivals_ms(world: World) -> list[int]:
    page = world.kinesis.get_records(world.kinesis.iterator_at_horizon(shard_id(0)))
    return page.arrivals_ms


def utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat()


class TestTrimHorizon:
    def test_a_full_shard_begins_at_its_oldest_record(self, world: World) -> None:
        numbers = world.put(b"0", b"1", b"2")
        assert only(world.plan()) == SequenceRange(shard_id(0), at(numbers[0]), numbers[2], numbers[0])

    def test_a_trimmed_shard_begins_at_the_oldest_record_left(self, world: World) -> None:
        numbers = world.put(b"0", b"1", b"2")
        world.trim(before=numbers[1])
        assert only(world.plan()) == SequenceRange(shard_id(0), at(numbers[1]), numbers[2], numbers[1])

    def test_an_empty_shard_begins_at_its_start_and_its_first_record_is_read(self, world: World) -> None:
        assert list(world.plan().ranges) == []
        assert world.chain().position == beginning(world)
        numbers = world.put(b"0")
        assert only(world.plan("run-2")) == SequenceRange(shard_id(0), beginning(world), numbers[0], numbers[0])

    def test_a_shard_whose_records_are_all_gone_begins_at_its_start(self, world: World) -> None:
        world.put(b"0")
        world.trim()
        assert list(world.plan().ranges) == []
        (number,) = world.put(b"1")
        assert only(world.plan("run-2")) == SequenceRange(shard_id(0), beginning(world), number, number)

    def test_records_about_to_expire_are_left_out_for_they_could_not_be_read(self, world: World) -> None:
        world.put(b"old")
        world.advance(hours=1)
        (younger,) = world.put(b"younger")
        world.advance(hours=22, seconds=3500)
        plan = world.plan()
        world.advance(seconds=300)  # Spark takes its time
        assert only(plan).start == at(younger)
        assert world.run()[0] == plan
        assert world.numbers() == [younger.text]

    def test_a_shard_with_nothing_but_records_about_to_expire_begins_at_the_oldest(self, world: World) -> None:
        numbers = world.put(b"0", b"1")
        world.advance(hours=23, seconds=3500)
        assert only(world.plan()).start == at(numbers[0])


class TestLatest:
    @pytest.fixture
    def world(self, make_world: MakeWorld) -> World:
        return make_world(start="latest")

    @pytest.mark.parametrize("age_s", [0, 5, 3600, 80_000])
    def test_a_full_shard_begins_behind_its_newest_record_however_old(self, world: World, age_s: int) -> None:
        world.put(b"0", b"1")
        world.advance(seconds=60)
        numbers = world.put(b"2", b"3")
        world.advance(seconds=age_s)
        assert list(world.plan().ranges) == []
        assert world.chain().position == after(numbers[1])
        later = world.put(b"4", b"5")
        assert only(world.plan("run-2")) == SequenceRange(shard_id(0), after(numbers[1]), later[1], later[0])

    def test_the_newest_record_of_many_is_found_without_reading_them_all(self, world: World) -> None:
        for _ in range(30):
            world.put(*[b"x"] * 1000)
            world.advance(seconds=60)
        newest = world.put(*[b"x"] * 1000)[-1]
        world.advance(seconds=4000)  # the step back from here to there covers all of them
        world.control(reset_stats=True)
        world.plan()
        assert world.chain().position == after(newest)
        assert world.calls()["records"] <= 12_000

    def test_an_empty_shard_begins_at_its_start_and_its_first_record_is_read(self, world: World) -> None:
        world.plan()
        assert world.chain().position == beginning(world)
        (number,) = world.put(b"0")
        assert only(world.plan("run-2")).through == number

    def test_closed_shards_are_finished_and_open_ones_are_read_from_now_on(self, world: World) -> None:
        world.put(b"old")
        world.split(0)
        world.plan()
        assert [world.chain(n).position for n in range(3)] == [SHARD_END, beginning(world, 1), beginning(world, 2)]
        world.put(b"new", shard=2)
        assert planned(world.plan("run-2")) == [shard_id(2)]

    def test_children_of_a_later_reshard_are_read_from_their_beginning(self, world: World) -> None:
        world.plan()
        world.split(0)
        (number,) = world.put(b"first of the child", shard=1)
        world.run("run-2")
        assert only(world.plan("run-3")).anchor == number


class TestAtTimestamp:
    def test_the_first_record_that_arrived_then_or_later_also_within_a_second(self, make_world: MakeWorld) -> None:
        for _ in range(5):
            world = make_world()
            world.advance(seconds=1)
            numbers = [world.put(b"%d" % n)[0] for n in range(4)]
            arrivals = arrivals_ms(world)
            if arrivals[1] < arrivals[2] and arrivals[1] // 1000 == arrivals[2] // 1000:
                break
        world.settings["start"] = {"at_timestamp": utc(arrivals[2])}
        assert only(world.plan()) == SequenceRange(shard_id(0), at(numbers[2]), numbers[3], numbers[2])

    def test_a_time_before_all_records_means_the_oldest(self, world: World) -> None:
        numbers = world.put(b"0", b"1")
        world.settings["start"] = {"at_timestamp": "2020-01-01T00:00:00Z"}
        assert only(world.plan()).start == at(numbers[0])

    def test_a_time_after_all_records_means_behind_the_newest(self, world: World) -> None:
        numbers = world.put(b"0", b"1")
        world.advance(seconds=20)
        world.settings["start"] = {"at_timestamp": utc(arrivals_ms(world)[1] + 10_000)}
        assert list(world.plan().ranges) == []
        assert world.chain().position == after(numbers[1])

    def test_an_empty_shard_begins_at_its_start(self, world: World) -> None:
        world.settings["start"] = {"at_timestamp": "2020-01-01T00:00:00Z"}
        world.plan()
        assert world.chain().position == beginning(world)

    def test_a_closed_shard_without_records_since_then_is_finished(self, world: World) -> None:
        world.put(b"old")
        world.advance(seconds=20)
        world.split(0)
        (number,) = world.put(b"new", shard=1)
        page = world.kinesis.get_records(world.kinesis.iterator_at_horizon(shard_id(1)))
        world.settings["start"] = {"at_timestamp": utc(page.arrivals_ms[0] - 5_000)}
        assert only(world.plan()).start == at(number)
        assert world.chain(0).position is SHARD_END

    def test_a_record_that_arrives_while_the_start_is_looked_for_is_not_missed(self, world: World) -> None:
        (before,) = world.put(b"before")
        world.advance(seconds=20)
        world.settings["start"] = {"at_timestamp": utc(arrivals_ms(world)[0] + 10_000)}
        came: list[SequenceNumber] = []
        calls: list[None] = []

        def arrive_after_the_first_look() -> None:
            calls.append(None)
            if len(calls) == 4:  # the listing, one iterator and its page have been
                came.extend(world.put(b"between"))

        plan = world.plan(kinesis=HookedKinesis(world, arrive_after_the_first_look))
        assert only(plan) == SequenceRange(shard_id(0), at(came[0]), came[0], came[0])
        assert before < came[0]

    def test_a_time_in_the_future_is_refused_before_anything_is_written(self, world: World) -> None:
        world.put(b"0")
        world.settings["start"] = {"at_timestamp": "2099-01-01T00:00:00Z"}
        with pytest.raises(
            ConfigError, match=r"pipeline p: start.at_timestamp lies in the future.*2099-01-01T00:00:00"
        ):
            world.plan()
        assert_nothing_is_written(world)

    def test_the_start_does_not_matter_any_more_once_the_pipeline_is_under_way(self, world: World) -> None:
        world.put(b"0")
        world.run()
        world.settings["start"] = {"at_timestamp": "2099-01-01T00:00:00Z"}
        (number,) = world.put(b"1")
        assert only(world.plan("run-2")).through == number


@pytest.mark.parametrize("start", ["trim_horizon", "latest", {"at_timestamp": "2020-01-01T00:00:00Z"}])
def test_records_that_arrive_between_two_calls_are_never_missed(make_world: MakeWorld, start: object) -> None:
    world = make_world(start=start)
    world.plan("first")
    came: list[SequenceNumber] = []
    kinesis = HookedKinesis(world, lambda: came.extend(world.put(b"x")))
    for number in range(12):
        world.plan(f"run-{number}", kinesis)
        world.run(f"run-{number}")
    world.run_until_caught_up()
    assert len(came) > 30
    assert world.numbers() == [number.text for number in came]


class TestShardStarts:
    """Over shards in every state; `test_shard_trees.py` has the trees."""

    def test_each_shard_begins_as_it_says_and_the_others_at_start(self, make_world: MakeWorld) -> None:
        world = make_world(shards=5, start="latest")
        numbers = [world.put(b"0", b"1", b"2", shard=shard) for shard in range(5)]
        early = {"at_timestamp": "2020-01-01T00:00:00Z"}
        world.settings["shard_starts"] = {
            S0: "trim_horizon",
            S1: {"at_sequence_number": numbers[1][1].text},
            S2: {"after_sequence_number": numbers[2][1].text},
            shard_id(3): early,
        }
        found = ranges(world.plan())
        assert [found[id_].start for id_ in sorted(found)] == [
            at(numbers[0][0]),
            at(numbers[1][1]),
            after(numbers[2][1]),
            at(numbers[3][0]),
        ]
        assert found[S2].anchor == numbers[2][2]
        assert world.chain(4).position == after(numbers[4][2])
        world.run()
        assert [world.numbers(shard) for shard in range(5)] == [
            [number.text for number in numbers[shard][left_out:]] for shard, left_out in enumerate((0, 1, 2, 0, 3))
        ]

    def test_a_start_behind_the_newest_record_reads_what_comes_next(self, world: World) -> None:
        (number,) = world.put(b"0")
        world.settings["shard_starts"] = {S0: {"after_sequence_number": number.text}}
        assert list(world.plan().ranges) == []
        later = world.put(b"1")[0]
        assert only(world.plan("run-2")) == SequenceRange(S0, after(number), later, later)

    def test_a_start_behind_the_last_record_of_a_closed_shard_reads_its_end_and_then_its_children(
        self, make_world: MakeWorld
    ) -> None:
        world = make_world(start="latest")
        (number,) = world.put(b"0")
        world.split(0)
        (first,) = world.put(b"1", shard=1)
        world.settings["shard_starts"] = {S0: {"after_sequence_number": number.text}}
        assert only(world.run()[0]) == SequenceRange(S0, after(number), SHARD_END, None)
        assert only(world.run("run-2")[0]) == SequenceRange(S1, at(first), first, first)
        assert (world.numbers(0), world.numbers(1)) == ([], [first.text])

    def test_a_number_keeps_its_place_whatever_the_configuration_says_later(self, world: World) -> None:
        numbers = world.put(b"0", b"1")
        world.settings["shard_starts"] = {S0: {"after_sequence_number": numbers[0].text}}
        assert only(world.plan()).start == after(numbers[0])
        world.settings["shard_starts"] = {S0: {"at_sequence_number": numbers[0].text}, S1: "latest"}
        assert only(world.plan("run-2")).start == after(numbers[0])

    def test_a_named_shard_that_is_not_listed_is_refused(self, world: World) -> None:
        world.put(b"0")
        world.settings["shard_starts"] = {S0: "latest", S1: "latest", S2: "trim_horizon"}
        with pytest.raises(ConfigError, match=f"does not list, {S1}, {S2}: found {S0}. Leave out shards"):
            world.plan()
        assert_nothing_is_written(world)

    def test_a_time_in_the_future_is_refused(self, world: World) -> None:
        world.settings["shard_starts"] = {S0: {"at_timestamp": "2099-01-01T00:00:00Z"}}
        with pytest.raises(
            ConfigError, match=rf"shard_starts\.{S0}\.at_timestamp lies in the future.*2099-01-01T00:00"
        ):
            world.plan()
        assert_nothing_is_written(world)

    @pytest.mark.parametrize("key", ["at_sequence_number", "after_sequence_number"])
    @pytest.mark.parametrize("where", ["in a gap", "behind all", "of another shard"])
    def test_a_number_that_is_no_records_is_refused(self, world: World, key: str, where: str) -> None:
        numbers = world.put(*[b"x"] * 20)
        before, behind = next(pair for pair in pairwise(numbers) if int(pair[1]) - int(pair[0]) > 1)
        number, found = {
            "in a gap": (before.plus(1), f"{behind} behind it"),
            "behind all": (numbers[-1].plus(10**6), "nothing behind it"),
            "of another shard": (numbers[-1].plus(10**50), "did not come from this shard"),
        }[where]
        world.settings["shard_starts"] = {S0: {key: number.text}}
        with pytest.raises(ConfigError, match=f"{S0} has no record {number}: found .*{found}.*Name a record, or give"):
            world.plan()
        assert_nothing_is_written(world)

    @pytest.mark.parametrize(("key", "position"), [("at_sequence_number", at), ("after_sequence_number", after)])
    def test_a_record_that_is_gone_is_told_as_a_loss_and_skipped_as_one(
        self, world: World, key: str, position: Callable[[SequenceNumber], Start]
    ) -> None:
        numbers = world.put(b"0", b"1", b"2")
        world.trim(before=numbers[2])
        world.settings["shard_starts"] = {S0: {key: numbers[0].text}}
        with pytest.raises(DataLossError, match=f"{S0} after position .* {numbers[0]} are no longer retained"):
            world.plan()
        world.settings["on_data_loss"] = "skip"
        assert only(world.run("run-2")[0]).start == at(numbers[2])
        assert [(row.range.start, row.range.through) for row in lost(world)] == [
            (position(numbers[0]), numbers[2].plus(-1))
        ]

    def test_a_start_behind_a_record_that_is_gone_is_told_also_with_nothing_left(self, world: World) -> None:
        (number,) = world.put(b"0")
        world.trim()
        world.settings["shard_starts"] = {S0: {"after_sequence_number": number.text}}
        with pytest.raises(DataLossError, match="found no record left"):
            world.plan()

    def test_a_number_of_a_shard_that_goes_before_it_is_looked_for_is_told(self, world: World) -> None:
        (number,) = world.put(b"0")
        world.split(0)
        world.settings["shard_starts"] = {S0: {"after_sequence_number": number.text}}
        calls: list[None] = []

        def expire() -> None:
            calls.append(None)
            if len(calls) == 2:
                world.trim(shard=0)

        world.plan("run-1", HookedKinesis(world, expire))
        assert world.chain(0).position == after(number)
        world.plan("run-2")
        with pytest.raises(DataLossError, match=f"records of {S0} after position AFTER {number}"):
            world.plan("run-3")

    def test_a_range_that_begins_with_an_aggregate_holds_the_whole_of_it(self, world: World) -> None:
        numbers = world.put(b"0", aggregate_of(b"a", b"b"), b"1")
        world.settings["shard_starts"] = {S0: {"at_sequence_number": numbers[1].text}}
        world.run()
        assert world.numbers() == [numbers[1].text, numbers[1].text, numbers[2].text]
        assert only(world.plan()).start == at(numbers[1])


class TestTwoFirstRuns:
    """Both have found an empty ledger: the slower one's starts are not those of a first listing."""

    def test_children_opened_in_between_are_read_from_their_beginning(self, make_world: MakeWorld) -> None:
        world = make_world(start="latest")
        (before,) = world.put(b"before")
        between: list[SequenceNumber] = []

        def overtaken() -> None:
            if not world.ledger.shards("p"):
                world.plan("quicker")  # it lists the parent alone
                world.split(0)
                between.extend(world.put(b"between", shard=1))

        plan = world.plan("slower", HookedKinesis(world, overtaken))
        assert only(plan) == SequenceRange(S0, after(before), SHARD_END, None)
        world.run_until_caught_up()
        assert (world.numbers(0), world.numbers(1)) == ([], [between[0].text])
