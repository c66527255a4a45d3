"""Many applications on one stream, many streams in one account: each reads its own once, and no other's state."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shardlake.errors import ConflictError, DataLossError
from shardlake.ledger import Ledger, open_ledger
from shardlake.names import LIVE
from support.command_line import entry_of, write_config
from support.lakes import PLACES

if TYPE_CHECKING:
    from tests.integration.conftest import World

MakeWorld = Callable[..., "World"]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """One ledger database for all pipelines of a test."""
    return open_ledger(f"sqlite:///{tmp_path}/ledger.db")


def another(world: World, name: str, **settings: Any) -> World:
    """Another pipeline on the same stream and ledger, with a dataset of its own."""
    return replace(world, root=world.root.with_name(f"{world.root.name}-{name}"), settings={"name": name, **settings})


def state(world: World) -> object:
    """All that the ledger and the dataset hold of a pipeline."""
    name, ledger = world.pipeline.name, world.ledger
    kept = ledger.shards(name), ledger.chains(name, LIVE), list(ledger.ranges(name, LIVE)), ledger.journal(name)
    return kept, {key: world.lake.read(key) for key in world.lake.keys("")}


class TestOneStream:
    @pytest.mark.parametrize("bucket", PLACES, indirect=True)
    def test_is_read_by_each_at_its_own_pace(self, make_world: MakeWorld, ledger: Ledger) -> None:
        quick = make_world(2, ledger=ledger)
        slow, late = another(quick, "slow"), another(quick, "late", start="latest")
        quick.produce(60)
        quick.run("same-run")
        quick.split(0)
        quick.produce(60)
        quick.run_until_caught_up()
        before = state(quick)
        slow.run("same-run")
        late.run("same-run")
        slow.run_until_caught_up()
        late.run_until_caught_up()
        assert state(quick) == before
        quick.assert_every_record_is_there_once()
        slow.assert_every_record_is_there_once()
        quick.produce(30)
        for world in (late, quick, slow):
            world.run("last")
        quick.assert_every_record_is_there_once()
        slow.assert_every_record_is_there_once()
        late_only = replace(late, acknowledged=quick.acknowledged[-30:])
        found = sorted(number for shard in range(4) for number in late_only.numbers(shard))
        assert found == sorted(record.sequence_number for record in late_only.acknowledged)

    def test_is_read_by_many_at_once(self, make_world: MakeWorld, ledger: Ledger) -> None:
        first = make_world(2, ledger=ledger)
        worlds = [first, *(another(first, f"p{number}") for number in range(5))]
        first.produce(60)
        for world in worlds:
            world.kinesis.describe()  # boto3 does not make clients in threads
        with ThreadPoolExecutor(len(worlds)) as pool:
            list(pool.map(lambda world: world.run(), worlds))
        for world in worlds:
            world.assert_every_record_is_there_once()

    def test_what_one_has_lost_another_has(self, make_world: MakeWorld, ledger: Ledger) -> None:
        had = make_world(ledger=ledger)
        lost, fails = another(had, "lost", on_data_loss="skip"), another(had, "fails")
        had.produce(30)
        for world in (had, lost, fails):
            world.run()
        had.produce(30)
        had.run_until_caught_up()
        had.trim()
        had.produce(30)
        before = state(had)
        assert lost.run_until_caught_up() == 1
        assert [row.state for row in ledger.ranges("lost", LIVE)] == ["committed", "lost", "committed"]
        with pytest.raises(DataLossError):
            fails.run("run-2")
        assert state(had) == before
        had.run("run-3")
        had.assert_every_record_is_there_once()
        assert [row.state for row in ledger.ranges("p", LIVE)] == ["committed"] * 3

    def test_what_one_gives_up_another_keeps(self, make_world: MakeWorld, tmp_path: Path) -> None:
        shared = f"sqlite:///{tmp_path}/ledger.db"
        gives_up = make_world(ledger=open_ledger(shared))
        keeps = another(gives_up, "keeps")
        gives_up.produce(30)
        gives_up.plan()
        keeps.plan()
        before = state(keeps)
        shardlake = write_config(
            tmp_path / "p.yaml", p=entry_of(gives_up, ledger=shared), keeps=entry_of(keeps, ledger=shared)
        )
        done = shardlake("abandon", "p", "--shard", "shardId-000000000000", "--reason", "x", "--yes")
        assert done.exit_code == 0, done.output
        assert state(keeps) == before
        assert [chain.open_range for chain in keeps.ledger.chains("p", LIVE).values()] == [None]
        keeps.run()
        keeps.assert_every_record_is_there_once()


class TestManyStreams:
    def test_of_the_same_name_and_shards_in_two_regions(self, make_world: MakeWorld, ledger: Ledger) -> None:
        here = make_world(2, ledger=ledger)
        client = here.server.client("eu-west-1")
        client.create_stream(StreamName=here.stream, ShardCount=2)
        try:
            there = replace(another(here, "there", region="eu-west-1"), client=client, acknowledged=[])
            here.produce(40)
            there.produce(70)
            plans = [world.run()[0] for world in (here, there)]
            here.assert_every_record_is_there_once()
            there.assert_every_record_is_there_once()
        finally:
            client.delete_stream(StreamName=here.stream)
        assert [plan.stream.arn for plan in plans] == [
            f"arn:aws:kinesis:{region}:000000000000:stream/{here.stream}" for region in ("us-east-1", "eu-west-1")
        ]
        assert {range_.shard_id for range_ in plans[0].ranges} == {range_.shard_id for range_ in plans[1].ranges}


class TestOneName:
    """A pipeline of one name on one ledger is one pipeline: a second deployment of it is refused."""

    @pytest.fixture
    def world(self, make_world: MakeWorld, ledger: Ledger) -> World:
        world = make_world(ledger=ledger)
        world.produce(30)
        world.run()
        return world

    def test_for_another_stream(self, make_world: MakeWorld, world: World) -> None:
        second = make_world(ledger=world.ledger)
        second.produce(30)
        before = state(world)
        with pytest.raises(ConflictError, match=r"the ledger knows pipeline p otherwise, stream_arn: .*names another"):
            second.plan("run-2")
        assert state(world) == before
        assert second.lake.keys("") == []

    def test_for_another_dataset(self, world: World) -> None:
        second = another(world, "p")
        before = state(world)
        with pytest.raises(ConflictError, match=r"the ledger knows pipeline p otherwise, dataset: .*has changed"):
            second.plan("run-2")
        assert state(world) == before
        assert second.lake.keys("") == []
