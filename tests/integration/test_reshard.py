"""Resharding, against the local Kinesis: parents before children, and never a shard forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from shardlake.errors import DataLossError, UnavailableError
from shardlake.kinesis.client import Kinesis
from shardlake.names import LIVE
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange
from shardlake.shards import Shard
from support.planning import (
    HookedKinesis,
    after,
    at,
    lost,
    only,
    planned,
    shard_id,
)

if TYPE_CHECKING:
    from tests.integration.conftest import World

MakeWorld = Callable[..., "World"]


class TestListing:
    @pytest.fixture
    def world(self, make_world: MakeWorld) -> World:
        return make_world(shards=2500)

    def test_all_pages_of_a_listing_are_read(self, make_world: MakeWorld) -> None:
        world = make_world(shards=10_000)
        assert [shard.shard_id for shard in world.kinesis.list_shards()] == [shard_id(n) for n in range(10_000)]
        assert world.server.stats()["operations"]["ListShards"] == 10

    def test_a_listing_that_outlives_its_token_begins_again(self, world: World) -> None:
        pauses = iter([0, 301])
        kinesis = SlowListing(world, lambda: world.advance(seconds=next(pauses, 0)))
        assert [shard.shard_id for shard in kinesis.list_shards()] == [shard_id(n) for n in range(2500)]

    def test_a_listing_that_always_outlives_its_token_fails(self, world: World) -> None:
        kinesis = SlowListing(world, lambda: world.advance(seconds=301))
        with pytest.raises(UnavailableError, match="took longer than its page token lives, 3 times"):
            kinesis.list_shards()


class SlowListing(Kinesis):
    """A client that takes its time before each page of a listing."""

    def __init__(self, world: World, pause: Callable[[], None]) -> None:
        self.__dict__.update(world.kinesis.__dict__)
        real = self._client

        class Client:
            @staticmethod
            def list_shards(**request: object) -> object:
                pause()
                return real.list_shards(**request)

        self._client = Client()


class TestReshards:
    def test_children_come_only_after_their_parents_end_is_committed(self, make_world: MakeWorld) -> None:
        world = make_world()
        world.produce(20)
        world.split(0)
        world.produce(20)
        plan = world.plan("run-1")
        assert (planned(plan), only(plan).through, plan.behind) == ([shard_id(0)], SHARD_END, True)
        assert planned(world.plan("run-2")) == [shard_id(0)]
        world.run("run-2")
        assert planned(world.plan("run-3")) == [shard_id(1), shard_id(2)]

    def test_a_merged_shard_waits_for_both_parents(self, make_world: MakeWorld) -> None:
        world = make_world(shards=2, max_range_bytes=60)
        world.put(b"x" * 50)
        world.put(b"y" * 50, b"z" * 50, shard=1)
        world.merge(0, 1)
        (number,) = world.put(b"child", shard=2)
        assert planned(world.run("run-1")[0]) == [shard_id(0), shard_id(1)]
        assert planned(world.run("run-2")[0]) == [shard_id(1)]
        assert only(world.run("run-3")[0]) == SequenceRange(shard_id(2), at(number), number, number)

    def test_several_generations_and_update_shard_count(self, make_world: MakeWorld) -> None:
        world = make_world(shards=2)
        world.produce(30)
        world.split(0)
        world.produce(30)
        world.split(2)
        world.merge(3, 1)
        world.produce(30)
        world.run("run-1")
        world.client.update_shard_count(StreamName=world.stream, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
        world.produce(30)
        world.run_until_caught_up()
        world.assert_every_record_is_there_once()
        chains = world.ledger.chains("p", LIVE)
        assert set(chains) == set(world.ledger.shards("p"))
        closed = {shard.shard_id for shard in world.kinesis.list_shards() if shard.closed}
        assert {id_ for id_, chain in chains.items() if chain.position is SHARD_END} == closed

    def test_an_empty_shards_end_leaves_a_file_without_rows(self, world: World) -> None:
        world.split(0)
        _, committed = world.run()
        assert committed is not None
        assert committed.rows == 0
        assert [path.split("/")[0] for path in world.files()] == [f"shard_id={shard_id(0)}"]

    def test_a_child_keeps_its_place_from_when_it_was_first_seen_so_that_its_losses_are_told(
        self, world: World
    ) -> None:
        world.put(b"parent")
        world.split(0)
        numbers = world.put(b"0", b"1", shard=1)
        world.run("run-1")
        world.trim(before=numbers[1], shard=1)
        with pytest.raises(DataLossError, match=f"records of {shard_id(1)} after position AT {numbers[0]}"):
            world.plan("run-2")

    def test_a_parent_that_leaves_the_listing_unread_is_a_loss_and_holds_back_its_children_until_told(
        self, make_world: MakeWorld
    ) -> None:
        world = make_world()
        world.put(b"parent")
        world.plan("run-1")
        world.split(0)
        (number,) = world.put(b"child", shard=1)
        world.trim(shard=0)
        assert list(world.plan("run-2").ranges) == []  # one listing may be incomplete
        with pytest.raises(DataLossError, match=f"records of {shard_id(0)} .*found no record left.*on_data_loss: skip"):
            world.plan("run-3")
        world.settings["on_data_loss"] = "skip"
        plan = world.plan("run-4")
        assert (list(plan.ranges), plan.behind) == ([], True)
        assert [row.range.through for row in lost(world)] == [SHARD_END]
        assert only(world.plan("run-5")) == SequenceRange(shard_id(1), at(number), number, number)

    def test_a_shard_that_goes_before_its_first_record_is_found_is_none_and_its_children_are_read(
        self, world: World
    ) -> None:
        world.put(b"parent")
        world.split(0)
        (number,) = world.put(b"child", shard=1)
        calls: list[None] = []

        def expire() -> None:
            calls.append(None)
            if len(calls) == 2:
                world.trim(shard=0)

        plan = world.plan("run-1", HookedKinesis(world, expire))
        assert only(plan) == SequenceRange(shard_id(1), at(number), number, number)
        assert set(world.ledger.shards("p")) == {shard_id(1), shard_id(2)}

    def test_a_shard_that_goes_between_listing_and_looking_waits_for_the_next_listings(self, world: World) -> None:
        world.put(b"parent")
        world.run()
        world.split(0)
        world.put(b"child", shard=1)
        calls: list[None] = []

        def expire() -> None:
            calls.append(None)
            if len(calls) == 2:
                world.trim(shard=0)

        plan = world.plan("run-2", HookedKinesis(world, expire))
        assert list(plan.ranges) == []


class TestShardsThatCameAndWent:
    """Nobody has listed the stream for longer than its retention."""

    @pytest.fixture
    def world(self, make_world: MakeWorld) -> World:
        """The parent is read to its end before its children are listed."""
        world = make_world()
        world.put(b"parent")
        world.run()
        world.split(0)
        world.plan("to-the-end", HiddenChildren(world))
        world.run("to-the-end")
        assert world.chain().position is SHARD_END
        return world

    def test_what_a_child_has_lost_before_it_was_first_listed_is_told(self, world: World) -> None:
        world.put(b"lost", shard=1)
        world.advance(hours=25)
        (left,) = world.put(b"left", shard=1)
        with pytest.raises(DataLossError, match=f"records of {shard_id(1)} after position AFTER .* found {left} as"):
            world.plan("run-2")
        world.settings["on_data_loss"] = "skip"
        assert only(world.run("run-3")[0]) == SequenceRange(shard_id(1), at(left), left, left)
        assert [(row.range.start, row.range.through) for row in lost(world)] == [
            (after(SequenceNumber(world.shard(1).starting_sequence_number)), left.plus(-1))
        ]

    def test_a_child_that_is_younger_than_the_retention_is_asked_for_by_one_call_and_has_lost_nothing(
        self, world: World
    ) -> None:
        world.advance(hours=23)
        (first,) = world.put(b"first", shard=1)
        world.control(reset_stats=True)
        assert only(world.plan("run-2")) == SequenceRange(shard_id(1), at(first), first, first)
        assert world.server.stats()["operations"]["ListShards"] == 2

    def test_a_listing_without_news_is_one_call(self, world: World) -> None:
        world.plan("run-2")
        world.control(reset_stats=True)
        world.plan("run-3")
        assert world.server.stats()["operations"]["ListShards"] == 1

    def test_a_child_that_goes_before_its_first_record_is_found_is_told(self, world: World) -> None:
        world.put(b"lost", shard=1)
        world.split(1)
        (number,) = world.put(b"grandchild", shard=3)
        calls: list[None] = []

        def expire() -> None:
            calls.append(None)
            if len(calls) == 2:
                world.trim(shard=1)

        world.plan("run-2", HookedKinesis(world, expire))
        world.plan("run-3")
        with pytest.raises(DataLossError, match=f"records of {shard_id(1)} after .* found no record left"):
            world.plan("run-4")
        world.settings["on_data_loss"] = "skip"
        world.plan("run-5")
        assert only(world.plan("run-6")) == SequenceRange(shard_id(3), at(number), number, number)


class HiddenChildren(Kinesis):
    """A client whose listings show the first shard alone, as in the middle of a reshard."""

    def __init__(self, world: World) -> None:
        self.__dict__.update(world.kinesis.__dict__)

    def list_shards(self) -> list[Shard]:
        return super().list_shards()[:1]
