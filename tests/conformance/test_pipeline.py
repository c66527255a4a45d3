"""The pipeline on the local Kinesis and on kinesis-local: every record once, whatever the two disagree about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from shardlake.names import LIVE
from shardlake.ranges import SHARD_END
from support.command_line import CommandLine, entry_of, write_config

if TYPE_CHECKING:
    from tests.integration.conftest import World

MakeWorld = Callable[..., "World"]
EARLY = "2020-01-01T00:00:00Z"


def ended(world: World) -> list[str]:
    """The shards whose end is committed."""
    chains = world.ledger.chains("p", LIVE)
    return sorted(shard for shard, chain in chains.items() if chain.position is SHARD_END)


def closed(world: World) -> list[str]:
    return sorted(shard.shard_id for shard in world.kinesis.list_shards() if shard.closed)


@pytest.fixture
def shardlake(world: World, tmp_path: Path) -> CommandLine:
    return write_config(tmp_path / "pipelines.yaml", p=entry_of(world))


def test_runs_one_after_another_read_each_record_once(make_world: MakeWorld) -> None:
    world = make_world(shards=2)
    for run in range(3):
        world.produce(40)
        _, committed = world.run(f"run-{run}")
        assert committed is not None
        assert committed.rows == 40
    assert world.run("nothing-new")[1] is None
    world.assert_every_record_is_there_once()


def test_a_run_again_changes_nothing(world: World) -> None:
    world.produce(20)
    first = world.run()
    files = world.files()
    world.produce(20)
    assert world.run() == first
    assert world.files() == files


@pytest.mark.parametrize("runs_between", [True, False])
def test_a_reshard_is_followed_parents_first(make_world: MakeWorld, runs_between: bool) -> None:
    """Without runs between, the pipeline starts on a tree of closed parents that nobody has read."""
    world = make_world(shards=2)

    def go_on(run: str) -> None:
        world.produce(30)
        if runs_between:
            world.run(run)

    go_on("before")
    world.split(0)
    go_on("after-the-split")
    world.merge(3, 1)
    go_on("after-the-merge")
    world.run_until_caught_up()
    assert ended(world) == closed(world) == [f"shardId-{number:012d}" for number in (0, 1, 3)]
    world.assert_every_record_is_there_once()


def test_a_shard_that_closed_empty_is_ended(make_world: MakeWorld) -> None:
    world = make_world()
    world.split(0)
    world.produce(10)
    world.run_until_caught_up()
    assert ended(world) == closed(world)
    world.assert_every_record_is_there_once()


def test_ranges_are_cut_by_their_limit_and_leave_no_gap(make_world: MakeWorld) -> None:
    world = make_world(max_range_bytes=200)
    world.produce(60)
    assert world.run_until_caught_up() > 1
    world.assert_every_record_is_there_once()


def test_the_command_line_runs_audits_and_tells_the_status(world: World, shardlake: CommandLine) -> None:
    world.produce(25)
    assert shardlake("run", "p", "--until-caught-up").exit_code == 0
    world.assert_every_record_is_there_once()
    assert shardlake("audit", "p").exit_code == 0
    assert len(shardlake.json("files", "p")) == 1


def test_a_backfill_reads_a_stretch_again_over_a_reshard(world: World, shardlake: CommandLine) -> None:
    world.produce(15)
    world.split(0)
    world.produce(15)
    shardlake.lines("backfill", "p", "--from", EARLY, "--id", "again")
    rows = pq.read_table(world.path("backfill/again/data"), columns=["sequence_number"])
    expected = sorted(record.sequence_number for record in world.acknowledged)
    assert sorted(rows.column(0).to_pylist()) == expected


def test_a_repair_puts_back_the_file_byte_for_byte(world: World, shardlake: CommandLine) -> None:
    world.produce(25)
    assert shardlake("run", "p").exit_code == 0
    before = world.files()
    ((path, _),) = before.items()
    world.lake.delete(f"data/{path}")
    done = shardlake.json("repair", "p", "--reason", "lost", "--yes")
    assert (len(done["repaired"]), done["failed"]) == (1, [])
    assert world.files() == before
