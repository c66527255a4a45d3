"""A ledger that was lost is rebuilt from the dataset, and the pipeline goes on as if nothing had been."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shardlake.abandon import abandon
from shardlake.auditing import audit
from shardlake.backfill import Request
from shardlake.batch import Steps
from shardlake.caught_up import CaughtUp
from shardlake.errors import ConflictError, DataLossError, ShardlakeError
from shardlake.ledger import JournalEntry, Ledger, open_ledger
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import LIVE, OWNER
from shardlake.plan import BatchPlan, Run
from shardlake.ranges import SHARD_END
from shardlake.rebuild import Rebuilt, rebuilt, restore
from support.aggregates import User, protobuf, sealed
from support.command_line import CommandLine, entry_of, write_config
from support.effects import Effects
from support.inline_engine import InlineEngine
from support.lakes import PLACES

if TYPE_CHECKING:
    from tests.integration.conftest import World

MakeWorld = Callable[..., "World"]

EVERYWHERE = pytest.mark.parametrize("bucket", PLACES, indirect=True)
BAD = sealed(protobuf([b"k"], [User(0, b"x"), User(3, b"x")]))
"""An aggregate that goes to the quarantine."""


def shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


def contents(ledger: Ledger, namespace: str = LIVE) -> list[tuple[object, ...]]:
    """What a ledger says of the ranges of a namespace, but for when it was."""
    rows = ledger.ranges("p", namespace)
    return [(row.range, row.range.anchor, str(row.range.start), row.state, row.batch_id, row.contents) for row in rows]


def without_batches(ledger: Ledger, namespace: str = LIVE) -> list[tuple[object, ...]]:
    """The same without the batches that planned them first: of two in one second, nobody knows which it was."""
    return [(*row[:4], row[5]) for row in contents(ledger, namespace)]


def plans(world: World, ledger: Ledger) -> dict[str, BatchPlan | None]:
    """The plans that a ledger has of the batches in the dataset, but for whose they are."""
    found = {}
    for batch_id in world.home.names("_shardlake/batches"):
        text = ledger.batch(batch_id)
        found[batch_id] = replace(BatchPlan.from_text(text), ledger_id="") if text else None
    return found


def lose_the_ledger(world: World) -> Ledger:
    """Give the world an empty ledger; the one that it had."""
    lost, world.ledger = world.ledger, MemoryLedger()
    return lost


def owner_of(world: World, key: str = OWNER) -> str:
    """The ledger that a dataset belongs to."""
    return str(json.loads(world.lake.read(key))["ledger_id"])


def rebuild(world: World) -> Rebuilt:
    found = rebuilt(world.steps)
    restore(world.steps, found)
    return found


def ingest(world: World, run: str) -> BatchPlan:
    """A run that ends before its commit."""
    plan = world.plan(run)
    world.steps.ingest(plan.batch_id, 0, InlineEngine(), lambda line: None)
    return plan


def assert_audit_is_clean(world: World, namespace: str = LIVE) -> None:
    steps = Steps(world.pipeline, world.ledger, namespace=namespace)
    assert [finding for one in audit(steps) for finding in one.findings] == []


def assert_goes_on(world: World, run: str = "after") -> None:
    """Records that come now are read, each record of all time is there once, and nothing differs anywhere."""
    world.produce(20)
    world.run_until_caught_up(run)
    world.assert_every_record_is_there_once()
    assert_audit_is_clean(world)


class TestEqual:
    """What the data can tell is as it was."""

    @pytest.fixture
    def world(self, make_world: MakeWorld) -> World:
        """Two shards, one of them split, read in four batches."""
        world = make_world(2)
        for run in range(2):
            world.produce(30)
            world.run(f"run-{run}")
        world.split(0)
        world.produce(30)
        world.run_until_caught_up()
        return world

    @EVERYWHERE
    def test_chains_contents_and_batches(self, world: World) -> None:
        lost = lose_the_ledger(world)
        found = rebuild(world)
        assert contents(world.ledger) == contents(lost)
        assert plans(world, world.ledger) == plans(world, lost)
        assert world.ledger.shards("p") == lost.shards("p")
        positions = {id_: chain.position for id_, chain in world.ledger.chains("p", LIVE).items()}
        assert positions == {id_: chain.position for id_, chain in lost.chains("p", LIVE).items()}
        assert (found.owner, found.notes, found.conflicts) == (lost.ledger_id, (), ())
        assert_goes_on(world)

    def test_a_run_of_before_that_is_cleared_does_nothing(self, world: World) -> None:
        """Kills: batches left out, so that a cleared run plans anew under its old name."""
        lose_the_ledger(world)
        rebuild(world)
        before, rows = world.files(), contents(world.ledger)
        world.produce(5)
        plan, committed = world.run("run-0")
        assert committed
        assert [each["shard_id"] for each in committed.ranges] == [range_.shard_id for range_ in plan.ranges]
        assert (world.files(), contents(world.ledger)) == (before, rows)

    def test_without_copies_of_plans_names_and_footers_are_enough(self, world: World) -> None:
        for key in world.lake.keys("_shardlake/batches/"):
            world.lake.delete(key)
        lost = lose_the_ledger(world)
        rebuild(world)
        assert without_batches(world.ledger) == without_batches(lost)
        assert {row[4] for row in contents(world.ledger)} == {"rebuilt"}
        before = world.files()
        world.run("run-0")  # its batch is another one now
        assert world.files() == before
        assert_goes_on(world)

    def test_it_can_be_lost_again_and_again(self, world: World) -> None:
        for again in range(3):
            lost = lose_the_ledger(world)
            rebuild(world)
            assert contents(world.ledger) == contents(lost)
            assert_goes_on(world, f"again-{again}")

    def test_a_second_rebuild_changes_nothing(self, world: World) -> None:
        lose_the_ledger(world)
        rebuild(world)
        before = (contents(world.ledger), world.lake.read(OWNER))
        assert rebuild(world).owner == world.ledger.ledger_id
        assert (contents(world.ledger), world.lake.read(OWNER)) == before

    def test_a_dataset_that_was_moved(self, world: World) -> None:
        """Kills: plans that still name the place where the dataset was."""
        world.produce(5)
        world.plan("open")
        moved = replace(world, root=world.root.parent / "moved", ledger=MemoryLedger())
        shutil.copytree(world.root, moved.root)
        shutil.rmtree(world.root)
        rebuild(moved)
        moved.run("open")
        assert_goes_on(moved)
        assert not world.root.exists()


class TestUnfinished:
    @pytest.fixture
    def world(self, world: World) -> World:
        world.produce(30)
        world.run("run-1")
        world.produce(30)
        return world

    def test_what_is_published_counts_as_committed(self, world: World) -> None:
        """Kills: a file whose batch was not committed planned again, with another end."""
        plan = ingest(world, "run-2")
        (range_,) = plan.ranges
        lose_the_ledger(world)
        rebuild(world)
        last = [*world.ledger.ranges("p", LIVE)][-1]
        assert (last.range, last.state, last.batch_id) == (range_, "committed", plan.batch_id)
        before = world.files()
        world.produce(10)
        _, committed = world.run("run-2")
        assert committed
        assert (committed.rows, world.files()) == (30, before)
        assert_goes_on(world)

    def test_what_was_planned_is_open_again(self, world: World) -> None:
        plan = world.plan("run-2")
        lost = lose_the_ledger(world)
        rebuild(world)
        assert contents(world.ledger) == contents(lost)
        assert contents(world.ledger)[-1][3] == "planned"
        world.produce(10)
        assert list(world.run("run-3")[0].ranges) == list(plan.ranges)
        assert_goes_on(world)

    def test_what_was_planned_without_a_copy_is_planned_anew(self, world: World) -> None:
        plan = world.plan("run-2")
        world.lake.delete(f"_shardlake/batches/{plan.batch_id}/plan.json")
        lose_the_ledger(world)
        found = rebuild(world)
        assert found.notes == (
            f"batch {plan.batch_id} (live) has no usable copy of its plan: its run, cleared, plans anew",
        )
        assert world.chain().open_range is None
        assert_goes_on(world)

    def test_of_two_plans_for_one_position_the_later_one_is_open(self, world: World) -> None:
        """The earlier one was given up by hand. Kills: the first plan taken."""
        world.plan("run-2")
        open_range = world.chain().open_range
        assert open_range
        abandon(world.steps, open_range, JournalEntry(1, "ada", "abandon", "p", LIVE, open_range, "why"))
        world.advance(seconds=2)
        world.produce(5)
        world.plan("run-3")
        lost = lose_the_ledger(world)
        rebuild(world)
        assert world.chain().open_range == lost.chains("p", LIVE)[shard_id(0)].open_range != open_range
        assert_goes_on(world)

    def test_a_run_that_goes_on_with_the_old_ledger_is_refused(self, world: World) -> None:
        """Kills: the old ledger's id taken over by the new one, so that both are let in."""
        old = world.steps
        plan = world.plan("run-2")
        lose_the_ledger(world)
        rebuild(world)
        before = world.files()
        with pytest.raises(ConflictError, match="is not this pipeline's, ledger_id"):
            old.ingest(plan.batch_id, 0, InlineEngine(), lambda line: None)
        with pytest.raises(ConflictError, match="ledger_id"):
            old.plan(Run("dag", "run-3"))
        assert world.files() == before
        assert_goes_on(world)


class TestShards:
    def test_finished_when_the_pipeline_began_stay_so_once_their_children_were_read(
        self, make_world: MakeWorld
    ) -> None:
        """Kills: closed shards without a file read from their beginning, which the pipeline never wanted."""
        world = make_world(1, start="latest")
        world.put(b"before")
        world.split(0)
        world.run()
        world.put(b"wanted", shard=1)
        world.run("run-2")
        lost = lose_the_ledger(world)
        found = rebuild(world)
        assert world.chain(0).position is SHARD_END
        assert contents(world.ledger) == contents(lost)
        assert found.notes == (
            f"taken for finished, since shards that come after them were read: {shard_id(0)}",
            f"without file or plan, to be read from their oldest record that is retained: {shard_id(2)}",
        )
        world.put(b"more", shard=2)
        world.run_until_caught_up()
        assert (world.numbers(0), len(world.numbers(1)), len(world.numbers(2))) == ([], 1, 1)

    def test_that_have_no_file_are_read_from_their_beginning(self, make_world: MakeWorld) -> None:
        """Kills: `start: latest` of the configuration applied again, past records that came meanwhile."""
        world = make_world(2, start="latest")
        world.run()
        lose_the_ledger(world)
        world.produce(20)
        found = rebuild(world)
        assert found.notes == (
            f"without file or plan, to be read from their oldest record that is retained: {shard_id(0)}, {shard_id(1)}",
        )
        assert_goes_on(world)

    def test_an_empty_one_is_noted_as_such_under_the_retention_of_the_rebuild(self, make_world: MakeWorld) -> None:
        """Kills: the note left out, or made without the retention, so that raising it hides what the old one took."""
        world = make_world(1)
        world.run()
        lose_the_ledger(world)
        found = rebuild(world)
        note = world.chain().caught_up
        assert note == CaughtUp(world.chain().position.key, found.draft.planned_at_ms, 24 * 3_600_000)
        assert list(world.plan("idle").ranges) == []
        world.put(b"gone")
        world.advance(hours=25)
        world.client.increase_stream_retention_period(StreamName=world.stream, RetentionPeriodHours=168)
        with pytest.raises(DataLossError, match="found no record left"):
            world.plan("raised")

    def test_that_were_planned_but_not_published_begin_where_they_began(self, make_world: MakeWorld) -> None:
        world = make_world(1, start="latest")
        world.put(b"before")
        world.run()
        world.put(b"wanted")
        plan = world.plan("run-2")
        lose_the_ledger(world)
        rebuild(world)
        assert [world.chain().open_range] == list(plan.ranges)
        world.run_until_caught_up()
        assert len(world.numbers()) == 1

    def test_that_left_the_stream_before_they_were_read_to_their_end_are_told_as_loss(
        self, make_world: MakeWorld
    ) -> None:
        """Kills: a shard that is not listed left out, so that nobody misses the rest of its records."""
        world = make_world(1)
        world.put(b"read")
        world.run()
        world.put(b"unread")
        world.split(0)
        world.advance(hours=25)
        lose_the_ledger(world)
        assert shard_id(0) not in [shard.shard_id for shard in world.kinesis.list_shards()]
        rebuild(world)
        with pytest.raises(DataLossError, match=f"records of {shard_id(0)} after position"):
            world.plan("run-2")

    def test_that_left_the_stream_planned_and_not_read_are_told_as_loss(self, make_world: MakeWorld) -> None:
        """Kills: a shard that has a plan and no file left out: nobody looks at its open range any more."""
        world = make_world(2, on_data_loss="skip")
        world.put(b"read")
        world.run()
        world.put(b"unread", shard=1)
        (unread,) = world.plan("run-2").ranges
        world.split(1)
        world.advance(hours=25)
        lose_the_ledger(world)
        rebuild(world)
        assert world.ledger.chains("p", LIVE)[shard_id(1)].open_range == unread
        world.run("run-3")
        rows = world.ledger.ranges("p", LIVE, shard_id(1))
        assert [(row.range.start, row.state) for row in rows] == [(unread.start, "lost")]

    def test_whose_last_files_are_gone_are_refused_once_their_children_were_read(self, make_world: MakeWorld) -> None:
        world = make_world(1)
        world.produce(10)
        world.run()
        world.split(0)
        world.produce(10)
        world.run_until_caught_up()
        (last,) = [key for key in world.lake.keys(f"data/shard_id={shard_id(0)}/") if "SHARD_END" in key]
        world.lake.delete(last)
        lose_the_ledger(world)
        (conflict,) = rebuilt(world.steps).conflicts
        assert conflict.startswith(f"a child of {shard_id(0)} was read, but neither file nor marker is there behind")


class TestLost:
    def test_stretches_are_known_by_their_markers(self, make_world: MakeWorld) -> None:
        world = make_world(1, on_data_loss="skip")
        world.put(b"read")
        world.run()
        world.put(b"lost", b"lost too")
        world.trim()
        world.put(b"left")
        world.run_until_caught_up()
        lost = lose_the_ledger(world)
        rebuild(world)
        assert contents(world.ledger) == contents(lost)
        assert [row.state for row in world.ledger.ranges("p", LIVE)] == ["committed", "lost", "committed"]
        world.put(b"more")
        world.run_until_caught_up("more")
        assert len(world.numbers()) == 3
        assert_audit_is_clean(world)

    def test_the_beginning_of_an_open_range(self, make_world: MakeWorld) -> None:
        world = make_world(1, on_data_loss="skip")
        numbers = world.put(b"1", b"2", b"3", b"4")
        world.plan("run-1")
        world.trim(before=numbers[2])
        world.plan("run-2")
        lost = lose_the_ledger(world)
        rebuild(world)
        assert contents(world.ledger) == contents(lost)
        assert [row.state for row in world.ledger.ranges("p", LIVE)] == ["lost", "planned"]
        world.run_until_caught_up()
        assert world.numbers() == [number.text for number in numbers[2:]]


@EVERYWHERE
class TestQuarantine:
    def test_is_adopted_with_its_data(self, world: World) -> None:
        world.put(BAD, b"good", BAD)
        world.run("run-1")
        world.put(BAD)
        world.run("run-2")
        for key in world.lake.keys("_shardlake/batches/"):
            world.lake.delete(key)
        lost = lose_the_ledger(world)
        rebuild(world)
        assert [row[:4] for row in contents(world.ledger)] == [row[:4] for row in contents(lost)]
        assert_audit_is_clean(world)

    def test_that_is_missing_is_refused(self, world: World) -> None:
        world.put(BAD)
        world.run()
        (key,) = world.lake.keys("quarantine/")
        world.lake.delete(key)
        lose_the_ledger(world)
        (conflict,) = rebuilt(world.steps).conflicts
        assert conflict.startswith(f"the quarantine of range {shard_id(0)} AT")

    def test_of_an_attempt_that_died_before_its_data_is_taken_up(self, world: World) -> None:
        world.put(BAD, b"good")
        ingest(world, "run-1")
        (data,) = world.lake.keys("data/")
        world.lake.delete(data)
        lose_the_ledger(world)
        rebuild(world)
        world.run_until_caught_up()
        assert world.lake.keys("data/") == [data]
        assert_audit_is_clean(world)


class TestBackfill:
    @pytest.fixture
    def world(self, make_world: MakeWorld) -> World:
        """A backfill of two shards, whose first batch is committed."""
        world = make_world(2, max_range_bytes=300)
        world.produce(60)
        world.run_until_caught_up()
        self.steps(world).open_backfill(Request())
        world.produce(20)
        self.run(world, "run-1")
        return world

    def steps(self, world: World) -> Steps:
        return Steps(world.pipeline, world.ledger, namespace="b")

    def run(self, world: World, run: str) -> BatchPlan:
        return self.steps(world).run(Run("dag", run), InlineEngine(), lambda line: None)[0]

    def finish(self, world: World) -> None:
        number = 2
        while self.run(world, f"run-{number}").behind:
            number += 1

    def test_goes_on_to_its_end(self, world: World) -> None:
        lost = lose_the_ledger(world)
        rebuild(world)
        assert contents(world.ledger, "b") == contents(lost, "b")
        assert world.ledger.backfills("p") == lost.backfills("p")
        assert contents(world.ledger) == contents(lost)
        self.finish(world)
        self.finish(replace(world, ledger=world.ledger))
        assert sum(row.contents.rows for row in world.ledger.ranges("p", "b") if row.contents) == 60
        assert_audit_is_clean(world, "b")
        assert_goes_on(world)

    def test_whose_bounds_are_not_there_ends_with_its_files(self, world: World) -> None:
        world.lake.delete("backfill/b/_shardlake/backfill.json")
        lost = lose_the_ledger(world)
        found = rebuild(world)
        assert found.notes == ("the bounds of backfill b are not there: it ends where its files do",)
        assert contents(world.ledger, "b") == contents(lost, "b")
        assert self.run(world, "run-2").groups == ()
        assert_audit_is_clean(world, "b")

    def test_without_files_and_bounds_is_left_out_and_opened_under_another_id(self, world: World) -> None:
        """Kills: a note that nobody can follow."""
        for key in (*world.lake.keys("backfill/b/data/"), "backfill/b/_shardlake/backfill.json"):
            world.lake.delete(key)
        lose_the_ledger(world)
        note = "backfill b has read nothing, and its bounds are not there: open it under another id"
        assert note in rebuild(world).notes
        assert world.ledger.backfills("p") == {}
        with pytest.raises(ConflictError, match="backfill/b is not this pipeline's, ledger_id"):
            self.steps(world).open_backfill(Request())
        opened = Steps(world.pipeline, world.ledger, namespace="another").open_backfill(Request())
        assert list(world.ledger.backfills("p").values()) == [opened.to_text()]

    def test_whose_opening_died_before_it_had_an_owner_is_none_yet(self, make_world: MakeWorld, tmp_path: Path) -> None:
        """Kills: a rebuild that a left-over folder makes impossible."""
        world = make_world(1)
        world.produce(5)
        world.run()
        (world.root / "lake/backfill/b/_shardlake").mkdir(parents=True)
        lose_the_ledger(world)
        assert rebuild(world).conflicts == ()
        self.steps(world).open_backfill(Request())
        assert_goes_on(world)

    def test_with_files_and_without_an_owner_is_refused(self, world: World) -> None:
        world.lake.delete("backfill/b/_shardlake/owner.json")
        lose_the_ledger(world)
        with pytest.raises(ConflictError, match="lake/backfill/b has no _shardlake/owner.json"):
            rebuild(world)

    def test_with_files_beyond_its_bounds_is_refused(self, world: World) -> None:
        self.finish(world)
        key = "backfill/b/_shardlake/backfill.json"
        bounds = json.loads(world.lake.read(key))
        first = json.loads(world.lake.read(key))["stretches"][0]
        bounds["stretches"][0]["through"] = first["anchor"]
        world.lake.write(key, json.dumps(bounds).encode())
        lose_the_ledger(world)
        (conflict,) = rebuilt(world.steps).conflicts
        assert conflict.startswith(f"the backfill reads {first['shard_id']} AT")


class TestRefused:
    """Nothing is restored from a dataset that contradicts itself, or is another's."""

    @pytest.fixture
    def world(self, world: World) -> World:
        """Three files of one shard."""
        for run in range(3):
            world.produce(10)
            world.run(f"run-{run}")
        lose_the_ledger(world)
        return world

    @pytest.fixture
    def files(self, world: World) -> list[str]:
        keys: list[str] = world.lake.keys("data/")
        return keys

    def assert_refused(self, world: World, said: str) -> None:
        found = rebuilt(world.steps)
        assert len(found.conflicts) == 1
        assert said in found.conflicts[0]
        with pytest.raises(ConflictError, match="the dataset contradicts itself"):
            restore(world.steps, found)
        assert (world.ledger.shards("p"), contents(world.ledger)) == ({}, [])
        assert owner_of(world) == found.owner != world.ledger.ledger_id

    def test_a_gap(self, world: World, files: list[str]) -> None:
        world.lake.delete(files[1])
        self.assert_refused(world, "neither a file nor a marker is there for the records between")

    def test_a_first_file_that_is_gone(self, world: World, files: list[str]) -> None:
        """Kills: a chain that begins with whatever file is left."""
        world.lake.delete(files[0])
        self.assert_refused(world, "is not there (batch run-0-")

    def test_a_last_file_that_is_gone_is_read_again(self, world: World, files: list[str]) -> None:
        content = world.lake.read(files[2])
        world.lake.delete(files[2])
        rebuild(world)
        assert [row.state for row in world.ledger.ranges("p", LIVE)] == ["committed", "committed", "planned"]
        world.run_until_caught_up()
        assert world.lake.read(files[2]) == content

    def test_a_fork(self, world: World, files: list[str]) -> None:
        """Another file of the same start: the footer and the name agree, the chain does not."""
        other = replace(world, root=world.root / "other", ledger=MemoryLedger())
        other.run()  # one range for what are three here
        (file,) = other.lake.keys("data/")
        world.lake.write(file, other.lake.read(file))
        conflicts = rebuilt(world.steps).conflicts
        assert conflicts == tuple(
            f"{one} and {two} hold records of the same stretch" for one, two in pairwise([files[0], file, files[1]])
        )

    @pytest.mark.parametrize("name", ["part-0.parquet", "data/x", f"{'0' * 56}-{'1' * 56}.parquet.crc"])
    def test_a_foreign_name(self, world: World, files: list[str], name: str) -> None:
        key = name if name.startswith("data/") else f"{files[0].rpartition('/')[0]}/{name}"
        world.lake.write(key, b"x")
        self.assert_refused(world, f"{key} is not of this dataset")

    def test_a_file_under_the_name_of_another_range(self, world: World, files: list[str]) -> None:
        world.lake.write(files[1], world.lake.read(files[0]))
        found = rebuilt(world.steps)
        assert f"a file is of another range: expected {files[1]}, found {files[0]}" in found.conflicts

    def test_a_file_of_another_shard(self, world: World, files: list[str]) -> None:
        for key in files:
            world.lake.write(key.replace(shard_id(0), shard_id(1)), world.lake.read(key))
        found = rebuilt(world.steps)
        assert len([conflict for conflict in found.conflicts if "a file is of another range" in conflict]) == 3

    def test_a_damaged_file(self, world: World, files: list[str]) -> None:
        world.lake.write(files[2], world.lake.read(files[2])[:-9])
        self.assert_refused(world, f"{world.lake.dataset}/{files[2]} is damaged, or was not written by Shardlake")

    def test_a_file_of_another_pipeline(self, make_world: MakeWorld, world: World, files: list[str]) -> None:
        other = replace(world, root=world.root / "other", settings={"name": "q"}, ledger=MemoryLedger())
        other.run()
        for key in files:
            world.lake.delete(key)
        (file,) = other.lake.keys("data/")
        world.lake.write(file, other.lake.read(file))
        self.assert_refused(world, f"the file {file} is another's, pipeline: expected p, found q")

    def test_a_marker_over_a_file(self, world: World, files: list[str]) -> None:
        batch = world.home.names("_shardlake/batches")[0]
        (range_,) = json.loads(world.lake.read(f"_shardlake/batches/{batch}/plan.json"))["groups"][0]
        marker = files[0].replace("data/", "_shardlake/lost/").replace(".parquet", ".json")
        facts = {"pipeline": "p", "stream": world.kinesis.describe()[0].arn, "batch": "b"}
        world.lake.write(marker, json.dumps({**range_, **facts}).encode())
        self.assert_refused(world, "hold records of the same stretch")

    @pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"pipeline": "q"}'])
    def test_a_marker_that_is_none(self, world: World, files: list[str], content: bytes) -> None:
        marker = f"_shardlake/lost/shard_id={shard_id(0)}/x.json"
        world.lake.write(marker, content)
        self.assert_refused(world, marker)

    def test_a_dataset_without_an_owner(self, world: World) -> None:
        world.lake.delete(OWNER)
        with pytest.raises(ConflictError, match=r"has no _shardlake/owner.json. Likely cause: its disk is not mounted"):
            rebuilt(world.steps)

    @pytest.mark.parametrize(("key", "said"), [("pipeline", "another pipeline"), ("stream_created_at_ms", "made anew")])
    def test_a_dataset_of_another(self, world: World, key: str, said: str) -> None:
        owner = json.loads(world.lake.read(OWNER))
        world.lake.write(OWNER, json.dumps({**owner, key: 7}).encode())
        with pytest.raises(ConflictError, match=said):
            rebuilt(world.steps)

    def test_a_ledger_that_knows_the_pipeline_with_another_dataset(self, world: World) -> None:
        found = rebuilt(world.steps)
        elsewhere = replace(world, root=world.root / "elsewhere")
        elsewhere.plan()
        with pytest.raises(ConflictError, match="the ledger knows pipeline p otherwise, dataset"):
            restore(world.steps, found)

    def test_a_folder_among_the_backfills_that_is_none(self, world: World) -> None:
        world.lake.write("backfill/not a backfill/x", b"")
        with pytest.raises(ConflictError, match="backfill/not a backfill is not of this dataset"):
            rebuilt(world.steps)

    def test_copies_of_plans_of_others_are_not_believed(self, world: World, files: list[str]) -> None:
        """Kills: an open range, or a batch, taken from whatever lies there."""
        batch = world.home.names("_shardlake/batches")[0]
        plan = world.lake.read(f"_shardlake/batches/{batch}/plan.json")
        another = plan.replace(b'"pipeline": "p"', b'"pipeline": "q"')
        for name, content in {batch: another, "x": plan, "y": b"{}"}.items():
            world.lake.write(f"_shardlake/batches/{name}/plan.json", content)
        found = rebuild(world)
        told = [note.split(" has ")[0] for note in found.notes]
        assert told == [f"batch {name} (live)" for name in (batch, "x", "y")]
        assert (world.ledger.batch(batch), world.ledger.batch("x")) == (None, None)


class TestRestoredFromABackup:
    """A ledger that lacks what came after it was copied is refused by the files, and brought up to date when told."""

    @pytest.fixture
    def world(self, make_world: MakeWorld) -> World:
        """A ledger in SQLite."""
        world = make_world(1)
        world.root.mkdir()
        world.ledger = open_ledger(f"sqlite:///{world.root}/ledger.db")
        world.produce(20)
        world.run("run-1")
        return world

    def backed_up(self, world: World) -> Path:
        return Path(shutil.copy(world.root / "ledger.db", world.root / "backup.db"))

    def put_back(self, world: World, backup: Path) -> None:
        for file in world.root.glob("ledger.db*"):
            file.unlink()
        backup.rename(world.root / "ledger.db")
        world.ledger = open_ledger(f"sqlite:///{world.root}/ledger.db")

    def test_an_old_one_is_told_and_then_rebuilt(self, world: World) -> None:
        """Kills: files behind the position passed over, or a ledger refused that knows a beginning of the chain."""
        backup = self.backed_up(world)
        world.produce(20)
        world.run("run-2")
        world.produce(20)
        world.run_until_caught_up()
        expected = contents(world.ledger)
        self.put_back(world, backup)

        world.produce(10)
        before = world.files()
        with pytest.raises(ConflictError, match="a second file holds records of range.*shardlake ledger rebuild"):
            world.run("run-3")
        assert world.files() == before

        rebuild(world)
        assert contents(world.ledger) == expected
        assert_goes_on(world)

    def test_one_that_does_not_know_a_shard_is_told_before_anything_of_it_is_read_again(self, world: World) -> None:
        """Its file begins before the oldest record left. Kills: a chain opened where files are already."""
        backup = self.backed_up(world)
        world.split(0)
        numbers = world.put(b"1", b"2", b"3", shard=1)
        world.run_until_caught_up()
        expected = contents(world.ledger)
        self.put_back(world, backup)
        world.trim(before=numbers[1], shard=1)
        before = world.files()
        with pytest.raises(ConflictError, match=f"files of {shard_id(1)} .*shardlake ledger rebuild"):
            world.run_until_caught_up()
        assert world.files() == before
        rebuild(world)
        assert contents(world.ledger) == expected
        world.run_until_caught_up("after")
        assert world.files() == before

    def test_one_that_would_declare_lost_what_was_read(self, world: World) -> None:
        """Kills: a loss recorded over files, and the rest of their records read again."""
        world.settings["on_data_loss"] = "skip"
        backup = self.backed_up(world)
        numbers = world.put(b"1", b"2", b"3")
        world.run("run-2")
        expected = contents(world.ledger)
        self.put_back(world, backup)
        world.trim(before=numbers[1])
        before = world.files()
        with pytest.raises(ConflictError, match=f"files of {shard_id(0)} .*shardlake ledger rebuild"):
            world.run_until_caught_up()
        assert (world.files(), world.lake.keys("_shardlake/lost/")) == (before, [])
        rebuild(world)
        assert contents(world.ledger) == expected
        world.run_until_caught_up("after")
        assert world.files() == before

    def test_one_whose_open_range_was_finished_meanwhile(self, world: World) -> None:
        world.produce(20)
        world.plan("run-2")
        backup = self.backed_up(world)
        world.run("run-2")
        expected = contents(world.ledger)
        self.put_back(world, backup)
        rebuild(world)
        assert contents(world.ledger) == expected
        assert_goes_on(world)

    def test_one_that_is_ahead_of_the_dataset_is_refused(self, world: World) -> None:
        """Kills: a committed range forgotten, and its records read again into another file."""
        world.produce(20)
        world.run("run-2")
        last = world.lake.keys("data/")[-1]
        world.lake.delete(last)
        before = contents(world.ledger)
        with pytest.raises(
            ConflictError, match="the ledger has closed what the dataset does not tell.*in an empty database"
        ):
            rebuilt(world.steps)
        assert contents(world.ledger) == before

    def test_one_that_went_on_with_a_copy_of_the_dataset_is_refused(self, world: World) -> None:
        """Kills: only what is open compared."""
        backup = self.backed_up(world)
        elsewhere = world.root.parent / "elsewhere"
        shutil.copytree(world.root / "lake", elsewhere)
        world.produce(10)
        world.run("here")
        here = contents(world.ledger)
        shutil.rmtree(world.root / "lake")
        elsewhere.rename(world.root / "lake")
        ledger = world.root / "here.db"
        (world.root / "ledger.db").rename(ledger)
        self.put_back(world, backup)
        world.produce(10)
        world.run("there")
        world.ledger = open_ledger(f"sqlite:///{ledger}")
        assert contents(world.ledger) == here
        with pytest.raises(ConflictError, match="has closed what the dataset does not tell"):
            rebuilt(world.steps)


def test_cut_short_between_any_two_effects_it_goes_on(world: World, effects: Effects) -> None:
    """Kills: the owner changed before the ledger is whole, which would let an empty ledger in."""
    for run in range(2):
        world.produce(10)
        world.run(f"run-{run}")
    Steps(world.pipeline, world.ledger, namespace="b").open_backfill(Request())
    Steps(world.pipeline, world.ledger, namespace="b").run(Run("dag", "b"), InlineEngine(), lambda line: None)
    lost = lose_the_ledger(world)
    owners = (OWNER, f"backfill/b/{OWNER}")
    before = {key: world.lake.read(key) for key in owners}
    with effects.until(None):
        rebuild(world)
    count = len(effects.done)
    assert effects.done[:2] == ["claim", "restore"]
    for last in range(count):
        world.ledger = MemoryLedger()
        for key, content in before.items():
            world.lake.write(key, content)
        with effects.until(last):
            rebuild(world)
        if owner_of(world) != world.ledger.ledger_id:
            with pytest.raises(ConflictError, match="ledger_id"):
                world.plan("too early")
        rebuild(world)
        assert (contents(world.ledger), contents(world.ledger, "b")) == (contents(lost), contents(lost, "b"))
        assert {owner_of(world, key) for key in owners} == {world.ledger.ledger_id}
    world.produce(20)
    world.run_until_caught_up()
    world.assert_rows_are_those_acknowledged()


class TestCommand:
    @pytest.fixture
    def shardlake(self, world: World, tmp_path: Path) -> CommandLine:
        """A pipeline that has read 40 records in two batches, and lost its ledger."""
        shardlake = write_config(tmp_path / "pipelines.yaml", p=entry_of(world))
        for _ in range(2):
            world.produce(20)
            shardlake.lines("run", "p")
        for file in world.root.glob("ledger.db*"):
            file.unlink()
        return shardlake

    WOULD_BE = "live: 1 shard, 2 ranges committed (40 rows), 0 lost, 0 open; 2 batches"

    def test_asks_first_and_a_no_changes_nothing(self, world: World, shardlake: CommandLine) -> None:
        before = world.lake.read(OWNER)
        result = shardlake("ledger", "rebuild", "p")  # nobody answers
        assert (result.exit_code, result.stdout) == (1, f"{self.WOULD_BE}\n")
        assert "Restore this, and let the ledger own the dataset?" in result.stderr
        assert world.lake.read(OWNER) == before
        assert list(world.root.glob("ledger.db*")) == []

    def test_dry_run_writes_nothing(self, world: World, shardlake: CommandLine) -> None:
        """Kills: a dry run that restores, or makes a ledger."""
        before = {key: world.lake.read(key) for key in world.lake.keys("")}
        assert shardlake.lines("ledger", "rebuild", "p", "--dry-run") == [self.WOULD_BE]
        live = {"namespace": "live", "shards": 1, "committed": 2, "lost": 0, "open": 0, "rows": 40, "batches": 2}
        assert shardlake.json("ledger", "rebuild", "p", "--dry-run") == {
            "pipeline": "p",
            "dry_run": True,
            "owner": owner_of(world),
            "namespaces": [live],
            "notes": [],
            "conflicts": [],
        }
        assert {key: world.lake.read(key) for key in world.lake.keys("")} == before
        assert list(world.root.glob("ledger.db*")) == []

    def test_without_it_the_pipeline_is_refused_and_with_it_goes_on(self, world: World, shardlake: CommandLine) -> None:
        world.produce(5)
        refused = shardlake("run", "p")
        assert (refused.exit_code, "`shardlake ledger rebuild`" in refused.stderr) == (4, True)
        result = shardlake("ledger", "rebuild", "p", "--yes")
        restored = "restored; `shardlake audit` compares it with files and stream"
        assert (result.exit_code, result.stdout.splitlines()) == (0, [self.WOULD_BE, restored])
        assert shardlake("run", "p", "--until-caught-up").exit_code == 0
        world.assert_every_record_is_there_once()
        audited = shardlake.json("audit", "p")
        assert (audited["ranges"], audited["rows"], audited["findings"]) == (3, 45, [])

    def test_tells_what_it_was_not_told_and_every_conflict(self, world: World, shardlake: CommandLine) -> None:
        for batch in world.home.names("_shardlake/batches"):
            world.lake.write(f"_shardlake/batches/{batch}/plan.json", b"")
        world.lake.write("data/x", b"")
        world.lake.write("data/y", b"")
        before = world.lake.read(OWNER)
        result = shardlake("ledger", "rebuild", "p", "--yes")
        assert result.exit_code == 4
        lines = result.stdout.splitlines()
        assert [line.startswith("not told: batch cli__") for line in lines[1:3]] == [True, True]
        assert lines[3:] == [f"conflict: data/{name} is not of this dataset. Move it away" for name in "xy"]
        assert result.stderr == "Error: the ledger of p cannot be rebuilt: the dataset contradicts itself\n"
        assert world.lake.read(OWNER) == before


def attempt(world: World, run: str, until: str, namespace: str = LIVE) -> None:
    """A run, or its beginning; what it ends with does not matter here."""
    steps = Steps(world.pipeline, world.ledger, namespace=namespace)
    with contextlib.suppress(ShardlakeError):
        plan = steps.plan(Run("dag", run))
        for group in range(len(plan.groups)) if until != "plan" else ():
            steps.ingest(plan.batch_id, group, InlineEngine(), lambda line: None)
        if until == "commit" and plan.groups:
            steps.verify(plan.batch_id)
            steps.commit(plan.batch_id)


def do(world: World, what: str, step: int, data: st.DataObject) -> None:
    """One thing that happens to a stream or a pipeline."""
    open_shards = [shard.shard_id for shard in world.kinesis.list_shards() if not shard.closed]
    shard = int(data.draw(st.sampled_from(open_shards), "shard")[-12:])
    if what == "produce":
        world.put(*(b"%d" % n for n in range(7)), shard=shard)
    elif what == "bad":
        world.put(BAD, b"good", shard=shard)
    elif what == "split" and len(open_shards) < 4:
        world.split(shard)
    elif what == "trim":
        world.trim(shard=shard)
    elif what in ("plan", "ingest", "commit"):
        attempt(world, f"run-{step}", what)
    elif what == "again":
        attempt(world, f"run-{data.draw(st.integers(0, step), 'run')}", "commit")
    elif what == "backfill":
        with contextlib.suppress(ShardlakeError):
            Steps(world.pipeline, world.ledger, namespace="b").open_backfill(Request())
            attempt(world, f"run-{step}", "commit", "b")
    elif what == "lose":
        lose_the_ledger(world)
        rebuild(world)


def commit_all(world: World) -> None:
    """Commit every range that is published."""
    for namespace in (LIVE, *world.ledger.backfills("p")):
        steps = Steps(world.pipeline, world.ledger, namespace=namespace)
        for batch_id in steps.home.names("_shardlake/batches"):
            with contextlib.suppress(ShardlakeError):
                steps.verify(batch_id)
                steps.commit(batch_id)


def records(world: World) -> Counter[tuple[str, str]]:
    """What a dataset holds."""
    found: Counter[tuple[str, str]] = Counter()
    for key in world.lake.keys("data/"):
        rows = pq.read_table(pa.BufferReader(world.lake.read(key)), columns=["sequence_number"])
        found.update((key.rpartition("/")[0], number) for number in rows.column(0).to_pylist())
    return found


WHAT = ["produce", "produce", "commit", "commit", "plan", "ingest", "again", "bad", "split", "trim", "backfill", "lose"]


@pytest.mark.slow
@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.generate],  # shrinking takes minutes; the seed is printed
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    print_blob=True,
)
@given(data=st.data(), history=st.lists(st.sampled_from(WHAT), min_size=4, max_size=12))
def test_after_any_history_it_is_as_it_was_and_goes_on_as_it_would_have(
    make_world: MakeWorld, data: st.DataObject, history: list[str]
) -> None:
    """Beside a pipeline that kept its ledger. Abandoning is left out: only the lost journal tells of it."""
    world = make_world(2, on_data_loss="skip", max_range_bytes=400)
    for step, what in enumerate(["produce", "commit", *history]):
        do(world, what, step, data)
    other = replace(world, root=world.root.parent / f"{world.root.name}-other", ledger=MemoryLedger())
    shutil.copytree(world.root, other.root)
    rebuild(other)
    commit_all(world)
    for namespace in (LIVE, *world.ledger.backfills("p")):
        assert without_batches(other.ledger, namespace) == without_batches(world.ledger, namespace)
        read = {row.range.shard_id for row in world.ledger.ranges("p", namespace)}
        was, is_ = (
            {id_: chain.position for id_, chain in ledger.chains("p", namespace).items() if id_ in read}
            for ledger in (world.ledger, other.ledger)
        )
        assert is_ == was
    assert other.ledger.backfills("p") == world.ledger.backfills("p")
    for each in (world, other):
        attempt(each, "after", "commit")
    world.put(b"more", shard=next(int(s.shard_id[-12:]) for s in world.kinesis.list_shards() if not s.closed))
    for each in (world, other):
        each.run_until_caught_up("after")
        assert_audit_is_clean(each)
    assert records(other) == records(world)
