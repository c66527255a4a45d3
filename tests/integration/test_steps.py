"""Plan, ingest, verify, commit: run again at any time, interrupted anywhere, by two at once: each record once."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shardlake.abandon import abandon
from shardlake.batch import Committed
from shardlake.errors import ConflictError, DataLossError, IngestError, ShardlakeError
from shardlake.ledger import JournalEntry, Ledger, LedgerRange
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import LIVE, FileKey, batch_id
from shardlake.plan import Run
from shardlake.ranges import SHARD_END
from support.effects import Effects
from support.inline_engine import InlineEngine
from support.lakes import PLACES

if TYPE_CHECKING:
    from tests.integration.conftest import World

EVERYWHERE = pytest.mark.parametrize("bucket", PLACES, indirect=True)
MakeWorld = Callable[..., "World"]


def silent(line: str) -> None:
    """A log that nobody reads."""


def rows(world: World) -> list[LedgerRange]:
    return list(world.ledger.ranges("p", LIVE))


def hashes(world: World) -> dict[str, str]:
    return {path: hashlib.sha256(content).hexdigest() for path, content in world.files().items()}


@pytest.fixture
def engine() -> InlineEngine:
    return InlineEngine()


@EVERYWHERE
class TestStepsAgain:
    def test_every_step_twice_gives_the_same_files_and_ledger_rows(
        self, make_world: MakeWorld, engine: InlineEngine
    ) -> None:
        world = make_world(shards=3, max_group_ranges=2)
        world.produce(200)
        steps, run = world.steps, Run("dag", "run-1")
        plan = steps.plan(run)
        assert steps.plan(run) == plan
        for group in (0, 0, 1, 1):
            steps.ingest(plan.batch_id, group, engine, silent)
        published = hashes(world)
        assert len(published) == 3
        assert steps.verify(plan.batch_id) == steps.verify(plan.batch_id)
        committed = steps.commit(plan.batch_id)
        in_ledger = rows(world)
        assert steps.commit(plan.batch_id) == committed
        assert (committed.rows, len(committed.ranges)) == (200, 3)
        assert [row.state for row in in_ledger] == ["committed"] * 3
        # all of them once more, as Clear in the UI would have it
        assert world.run("run-1") == (plan, committed)
        assert (hashes(world), rows(world)) == (published, in_ledger)
        world.assert_every_record_is_there_once()

    def test_the_same_range_gives_the_same_bytes_whatever_pages_come(
        self, make_world: MakeWorld, engine: InlineEngine
    ) -> None:
        world = make_world(shards=2)
        world.produce(300)
        plan = world.plan()
        for page_limit in (None, 7):
            world.control(page_limit=page_limit)
            world.steps.ingest(plan.batch_id, 0, engine, silent)
            found = hashes(world)
            for key in world.lake.keys("data/"):
                world.lake.delete(key)
            if page_limit is None:
                first = found
        assert found == first

    def test_ingest_leaves_committed_ranges_out(self, world: World, engine: InlineEngine) -> None:
        world.produce(5)
        plan, _ = world.run()
        world.control(reset_stats=True)
        lines: list[str] = []
        world.steps.ingest(plan.batch_id, 0, engine, lines.append)
        assert lines == ["every range of group 0 is committed already: nothing to read"]
        assert world.server.stats()["operations"] == {}

    def test_a_range_whose_report_was_lost_counts_as_done_when_its_file_is_complete(
        self, world: World, engine: InlineEngine
    ) -> None:
        world.produce(5)
        plan = world.plan()
        world.steps.ingest(plan.batch_id, 0, engine, silent)
        world.home.remove(f"_shardlake/batches/{plan.batch_id}/report-0000.json")
        world.steps.verify(plan.batch_id)
        assert world.steps.commit(plan.batch_id).rows == 5

    def test_commit_before_verify_is_refused(self, world: World, engine: InlineEngine) -> None:
        world.produce(5)
        plan = world.plan()
        world.steps.ingest(plan.batch_id, 0, engine, silent)
        with pytest.raises(IngestError, match=rf"batch {plan.batch_id} is not verified. Run the verify step first"):
            world.steps.commit(plan.batch_id)
        assert [row.state for row in rows(world)] == ["planned"]

    def test_a_range_that_verify_did_not_see_fails_the_commit(self, world: World, engine: InlineEngine) -> None:
        world.produce(10)
        plan = world.plan()
        world.steps.ingest(plan.batch_id, 0, engine, silent)
        world.steps.verify(plan.batch_id)
        world.home.replace(f"_shardlake/batches/{plan.batch_id}/verified.json", "[]")
        with pytest.raises(IngestError, match="0 of 1 ranges .* is not verified"):
            world.steps.commit(plan.batch_id)
        assert [row.state for row in rows(world)] == ["planned"]

    def test_a_file_that_has_gone_since_verify_is_not_committed(self, world: World, engine: InlineEngine) -> None:
        """As where `abandon` gave the range up, and the next run has pinned the very same one."""
        world.produce(10)
        plan = world.plan("run-1")
        world.steps.ingest(plan.batch_id, 0, engine, silent)
        world.steps.verify(plan.batch_id)
        (range_,) = plan.ranges
        abandon(world.steps, range_, JournalEntry(1, "ada", "abandon", "p", LIVE, range_, "why"))
        assert list(world.plan("run-2").ranges) == [range_]
        with pytest.raises(IngestError, match=f"0 of 1 ranges .* the file of range {range_} is not what verify found"):
            world.steps.commit(plan.batch_id)
        assert [row.state for row in rows(world)] == ["planned"]
        world.run("run-2")
        assert world.steps.commit(plan.batch_id).rows == 10
        world.assert_every_record_is_there_once()

    def test_verify_of_a_committed_batch_keeps_what_the_ledger_says(self, world: World) -> None:
        world.produce(10)
        plan, _ = world.run()
        before = world.home.read(f"_shardlake/batches/{plan.batch_id}/verified.json")
        assert world.steps.verify(plan.batch_id) == world.ledger.committed(plan)
        assert world.home.read(f"_shardlake/batches/{plan.batch_id}/verified.json") == before

    def test_a_batch_that_was_never_planned_is_refused(self, world: World, engine: InlineEngine) -> None:
        steps, unknown = world.steps, batch_id("p", LIVE, "dag", "never")
        for step in (
            lambda: steps.ingest(unknown, 0, engine, silent),
            lambda: steps.verify(unknown),
            lambda: steps.commit(unknown),
        ):
            with pytest.raises(ConflictError, match=f"the ledger has no batch {unknown}"):
                step()

    def test_an_empty_batch_ends_well_and_leaves_no_batch(self, world: World) -> None:
        plan, committed = world.run()
        assert (plan.groups, committed) == ((), None)
        assert world.home.names("_shardlake") == ["owner.json"]


@EVERYWHERE
class TestOneBadShard:
    def test_the_others_are_committed_and_the_run_fails(self, make_world: MakeWorld) -> None:
        world = make_world(shards=3)
        world.produce(90)
        plan = world.plan()
        world.trim(shard=1)
        with pytest.raises(DataLossError, match=r"records of range shardId-000000000001 .* are no longer retained"):
            world.run()
        assert [row.state for row in rows(world)] == ["committed", "planned", "committed"]
        assert [Path(path).parent.name[-1] for path in world.files()] == ["0", "2"]
        assert world.home.names("_shardlake/tmp") == []
        with pytest.raises(IngestError, match=rf"2 of 3 ranges of batch {plan.batch_id} are committed; 1 failed"):
            world.steps.commit(plan.batch_id)

    def test_what_failed_is_taken_up_by_the_next_run(self, make_world: MakeWorld) -> None:
        world = make_world(shards=2)
        world.produce(60)
        plan = world.plan()
        bad = FileKey.of(next(iter(plan.ranges)))
        foreign = replace(bad, through_key="9" * 56).path
        world.lake.write(foreign, b"")
        with pytest.raises(ConflictError, match="a second file holds records of range"):
            world.run()
        world.lake.delete(foreign)
        world.run("run-2")
        world.assert_every_record_is_there_once()

    def test_a_damaged_file_is_not_committed(self, make_world: MakeWorld, engine: InlineEngine) -> None:
        world = make_world(shards=2)
        world.produce(60)
        plan = world.plan()
        world.steps.ingest(plan.batch_id, 0, engine, silent)
        damaged = FileKey.of(next(plan.ranges)).path
        world.lake.write(damaged, world.lake.read(damaged)[:-1])
        world.steps.verify(plan.batch_id)
        with pytest.raises(ConflictError, match="1 of 2 ranges .* are committed; 1 failed, first: .*is damaged"):
            world.steps.commit(plan.batch_id)
        assert [row.state for row in rows(world)] == ["planned", "committed"]


def again(world: World) -> None:
    """The same run: a retry, or Clear in the UI."""
    world.run("run-1")


def next_run(world: World) -> None:
    """The next scheduled run."""
    world.run("run-2")


def steps_again(world: World) -> None:
    """The steps of the old batch, if it was pinned, after the next run has taken its ranges over."""
    world.run("run-2")
    if world.ledger.batch(batch_id("p", LIVE, "dag", "run-1")):
        world.run("run-1")


def two_of_the_same(world: World) -> None:
    """The same run twice at once."""
    at_once(world, "run-1", "run-1")


def two_runs(world: World) -> None:
    """The same run and the next at once."""
    at_once(world, "run-1", "run-2")


def at_once(world: World, *runs: str) -> None:
    def one(run: str) -> Committed | ShardlakeError | None:
        try:
            return world.run(run)[1]
        except IngestError as exc:  # a retry is what makes up for these
            return exc

    with ThreadPoolExecutor(len(runs)) as pool:
        for outcome in pool.map(one, runs):
            assert not isinstance(outcome, ConflictError)


OF_THE_LEDGER = {"claim", "record_listing", "pin", "commit"}
IN_A_FOLDER = {"link", "replace", "rmtree"}
ON_S3 = {"PutObject"}
IN_PARTS = {"CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bucket", "publishing", "go_on"),
    [
        *(("folder", IN_A_FOLDER, go_on) for go_on in (again, next_run, steps_again, two_of_the_same, two_runs)),
        *(("s3", ON_S3, go_on) for go_on in (again, two_runs)),
        *(("s3", IN_PARTS, go_on) for go_on in (steps_again, two_of_the_same)),
    ],
    indirect=["bucket"],
)
def test_a_run_interrupted_between_any_two_effects_is_gone_on_with(
    make_world: MakeWorld,
    effects: Effects,
    go_on: Callable[[World], None],
    publishing: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A first run over a shard, its two children and another shard; both reshard and rest are left to later runs."""
    if publishing == IN_PARTS:
        monkeypatch.setattr("shardlake.lake.s3_upload.MULTIPART_BYTES", 0)
    stream = make_world(shards=2)
    stream.produce(30)
    stream.split(0)
    stream.produce(30)

    def fresh(name: str) -> World:
        root = stream.root / name
        root.mkdir(parents=True)
        return replace(stream, root=root, ledger=MemoryLedger())

    world = fresh("clean")
    with effects.until(None):
        world.run("run-1")
    clean = list(effects.done)
    assert OF_THE_LEDGER | publishing <= set(clean)
    for last in range(len(clean) + 1):
        world = fresh(f"interrupted-{last}")
        with effects.until(last):
            world.run("run-1")
        assert effects.done == clean[:last]
        go_on(world)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shardlake.lake.local._ABANDONED_S", 0)  # an hour later
            patch.setattr("shardlake.lake.s3.ABANDONED", timedelta(seconds=-5))  # a day later
            world.run_until_caught_up()
        assert_all_is_well(world)


def assert_all_is_well(world: World) -> None:
    world.assert_every_record_is_there_once()
    assert sorted(FileKey.of(row.range).path for row in rows(world)) == [f"data/{path}" for path in world.files()]
    assert {row.state for row in rows(world)} == {"committed"}
    closed = {shard.shard_id for shard in world.kinesis.list_shards() if shard.closed}
    chains = world.ledger.chains("p", LIVE)
    assert {shard_id for shard_id, chain in chains.items() if chain.position is SHARD_END} == closed


@EVERYWHERE
@pytest.mark.parametrize("go_on", [again, next_run])
def test_a_run_interrupted_while_it_records_a_loss_is_gone_on_with(
    world: World, effects: Effects, go_on: Callable[[World], None]
) -> None:
    world.settings["on_data_loss"] = "skip"
    world.put(b"0")
    world.run("run-0")
    numbers = world.put(b"1", b"2", b"3")
    world.plan("open")
    world.trim(before=numbers[1])
    lake, ledger = world.lake, world.ledger
    before = {key: lake.read(key) for key in lake.keys("")}

    def interrupted(last: int | None) -> list[str]:
        """What the run did before it was gone, from ledger and dataset as they were before the loss."""
        lake.clear()
        for key, content in before.items():
            lake.write(key, content)
        world.ledger = copy_of(ledger)
        with effects.until(last):
            world.run("run-1")
        return list(effects.done)

    clean = interrupted(None)
    assert "declare_lost" in clean
    for last in range(len(clean) + 1):
        assert interrupted(last) == clean[:last]
        go_on(world)
        world.run_until_caught_up()
        assert world.numbers()[1:] == [numbers[1].text, numbers[2].text]
        lost, committed = rows(world)[1:]
        assert (lost.state, lost.range.through) == ("lost", numbers[1].plus(-1))
        assert (committed.state, committed.range.through) == ("committed", numbers[2])
        assert lake.keys("_shardlake/lost/") == [FileKey.of(lost.range).lost_marker]
        assert world.home.names("_shardlake/tmp") == []


def copy_of(ledger: Ledger) -> MemoryLedger:
    """A ledger of the same id with the same rows."""
    values = {name: value for name, value in vars(ledger).items() if name != "_lock"}
    copied = MemoryLedger()
    vars(copied).update(copy.deepcopy(values))
    return copied
