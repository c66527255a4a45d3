"""The Parquet sink: one file a range, whoever publishes it; nothing counts that the store does not hold."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shardlake
from shardlake.errors import ConflictError, DataLossError, IngestError, UnavailableError
from shardlake.ingesting import ingest_ranges
from shardlake.kinesis.page import Page
from shardlake.kinesis.reader import read_range
from shardlake.lake.local import LocalHome
from shardlake.lake.parquet import write_range
from shardlake.ledger import Contents
from shardlake.names import FileKey
from shardlake.plan import BatchPlan
from shardlake.ranges import SequenceRange
from shardlake.reports import RangeReport
from shardlake.sinks.parquet import ParquetSink
from support.lakes import PLACES

if TYPE_CHECKING:
    from tests.integration.conftest import World

EVERYWHERE = pytest.mark.parametrize("bucket", PLACES, indirect=True)
INCLUDE = Path(shardlake.__file__).parents[1]


@pytest.fixture
def planned(world: World) -> tuple[World, BatchPlan, SequenceRange]:
    """Twenty records and the plan of their one range."""
    world.produce(20)
    plan = world.plan()
    (range_,) = plan.ranges
    return world, plan, range_


Planned = tuple["World", BatchPlan, SequenceRange]


def pages(world: World, range_: SequenceRange) -> Callable[[], Iterator[Page]]:
    return lambda: read_range(world.kinesis, range_, 86_400_000)


def write(world: World, plan: BatchPlan, range_: SequenceRange) -> Contents:
    return ParquetSink(world.home).write(plan, range_, pages(world, range_)).contents


def longer(world: World, plan: BatchPlan, range_: SequenceRange) -> tuple[BatchPlan, SequenceRange]:
    """What a run that had looked later would have planned: the same start, another end."""
    world.produce(1)
    other = replace(range_, through=type(range_.anchor)(world.acknowledged[-1].sequence_number))  # type: ignore[misc]
    return replace(plan, groups=((other,),)), other


@EVERYWHERE
class TestWrite:
    def test_publishes_one_file_and_says_what_it_holds(self, planned: Planned) -> None:
        world, plan, range_ = planned
        contents = write(world, plan, range_)
        assert (contents.rows, contents.bytes) == (20, len(world.lake.read(FileKey.of(range_).path)))
        world.assert_rows_are_those_acknowledged()

    def test_adopts_a_published_file_and_reads_nothing(self, planned: Planned) -> None:
        world, plan, range_ = planned
        contents = write(world, plan, range_)
        world.trim()
        world.control(reset_stats=True)
        before = world.files()
        assert write(world, plan, range_) == contents
        assert world.files() == before
        assert world.calls()["GetRecords"] == 0

    def test_adopts_the_file_of_an_attempt_that_was_quicker(self, planned: Planned) -> None:
        world, plan, range_ = planned
        sink = ParquetSink(world.home)
        quicker: list[Contents] = []

        def slow() -> Iterator[Page]:
            quicker.append(write(world, plan, range_))
            yield from pages(world, range_)()

        assert sink.write(plan, range_, slow).contents == quicker[0]
        assert len(world.files()) == 1

    def test_refuses_a_published_file_that_is_damaged_and_leaves_it(self, planned: Planned) -> None:
        world, plan, range_ = planned
        write(world, plan, range_)
        key = FileKey.of(range_).path
        world.lake.write(key, world.lake.read(key)[:-50])
        damaged = world.files()
        with pytest.raises(ConflictError, match="is damaged, or was not written by Shardlake"):
            write(world, plan, range_)
        assert world.files() == damaged

    def test_refuses_a_second_end_for_the_same_start(self, planned: Planned) -> None:
        world, plan, range_ = planned
        write(world, plan, range_)
        before = world.files()
        with pytest.raises(
            ConflictError, match=rf"a second file holds records of range .*found {FileKey.of(range_).path}"
        ):
            write(world, *longer(world, plan, range_))
        assert world.files() == before

    def test_refuses_a_range_in_which_another_file_begins(self, planned: Planned) -> None:
        world, plan, range_ = planned
        _, other = longer(world, plan, range_)
        start = replace(range_.start, number=range_.start.number.plus(1))
        later = FileKey.of(SequenceRange(range_.shard_id, start, other.through, start.number))
        world.lake.write(later.path, b"")
        with pytest.raises(ConflictError, match=rf"a second file holds records of range .*found {later.path}"):
            write(world, plan, range_)
        assert world.lake.keys("data/") == [later.path]

    def test_a_file_that_begins_before_the_range_is_left_to_the_audit(self, planned: Planned) -> None:
        # Nothing lists a folder of a year's files for every range; see test_audit.
        world, plan, range_ = planned
        world.lake.write(f"{FileKey.of(range_).directory}/{'0' * 56}-{'9' * 56}.parquet", b"")
        assert write(world, plan, range_).rows == 20

    def test_refuses_the_file_of_another_pipeline_or_stream(self, planned: Planned, tmp_path: Path) -> None:
        world, plan, range_ = planned
        others = {
            "pipeline": replace(plan, pipeline="q"),
            "stream_arn": replace(plan, stream=replace(plan.stream, arn="arn:2")),
            "stream_created_at_ms": replace(plan, stream=replace(plan.stream, created_at_ms=1)),
        }
        file = tmp_path / "file"
        for key, other in others.items():
            write_range(file, tmp_path / "aside", other, range_, pages(world, range_)())
            world.lake.write(FileKey.of(range_).path, file.read_bytes())
            with pytest.raises(ConflictError, match=rf"the file {FileKey.of(range_).path} is another's, {key}"):
                write(world, plan, range_)

    def test_refuses_a_dataset_that_lost_its_owner(self, planned: Planned) -> None:
        world, plan, range_ = planned
        world.lake.delete("_shardlake/owner.json")
        with pytest.raises(ConflictError, match=r"has lost its _shardlake/owner.json"):
            write(world, plan, range_)
        assert world.files() == {}

    @pytest.mark.parametrize("error", [DataLossError("gone"), UnavailableError("late"), RuntimeError("a bug")])
    def test_publishes_nothing_when_reading_fails_in_the_middle(self, planned: Planned, error: Exception) -> None:
        world, plan, range_ = planned

        def broken() -> Iterator[Page]:
            yield from pages(world, range_)()
            raise error

        with pytest.raises(type(error), match=str(error)):
            ParquetSink(world.home).write(plan, range_, broken)
        assert world.files() == {}
        assert world.home.names(f"_shardlake/tmp/{plan.batch_id}") == []
        assert world.left_behind() == []

    def test_a_full_disk_is_told_and_publishes_nothing(self, planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
        world, plan, range_ = planned

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("shardlake.sinks.parquet.write_range", full)
        with pytest.raises(UnavailableError, match=r"No space left on device. Free "):
            write(world, plan, range_)
        assert world.files() == {}
        assert world.left_behind() == []


@EVERYWHERE
class TestAtOnce:
    def test_two_attempts_in_threads_publish_one_file_and_report_the_same(self, planned: Planned) -> None:
        world, plan, range_ = planned
        together = threading.Barrier(4)

        def attempt(_: int) -> Contents:
            def read() -> Iterator[Page]:
                together.wait(10)
                yield from pages(world, range_)()

            return ParquetSink(world.home).write(plan, range_, read).contents

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(attempt, range(4)))
        assert found == [found[0]] * 4
        assert [len(world.files()), found[0].rows] == [1, 20]

    def test_two_attempts_in_processes_publish_one_file_and_report_the_same(
        self, planned: Planned, tmp_path: Path
    ) -> None:
        world, plan, range_ = planned
        plan_file = tmp_path / "plan.json"
        plan_file.write_bytes(world.lake.read(f"_shardlake/batches/{plan.batch_id}/plan.json"))
        code = (
            "import sys; from pathlib import Path; from shardlake.ingesting import ingest_ranges;"
            "from shardlake.plan import BatchPlan;"
            "plan = BatchPlan.from_text(Path(sys.argv[1]).read_text()); print(ingest_ranges(plan, list(plan.ranges)))"
        )
        command = [sys.executable, "-c", code, str(plan_file)]
        attempts = [
            subprocess.Popen(
                command, cwd=INCLUDE, env={**os.environ, "PYTHONPATH": str(INCLUDE)}, stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        reports = [attempt.communicate(timeout=60)[0] for attempt in attempts]
        assert reports[0] == reports[1]
        assert "rows=20" in reports[0]
        assert len(world.files()) == 1

    def test_a_zombie_that_goes_on_after_its_successor_was_committed_changes_nothing(self, planned: Planned) -> None:
        world, plan, range_ = planned
        reached, go_on = threading.Event(), threading.Event()
        found: list[Contents] = []

        def slow() -> Iterator[Page]:
            yield from pages(world, range_)()
            reached.set()
            go_on.wait(10)

        def zombie() -> None:
            found.append(ParquetSink(world.home).write(plan, range_, slow).contents)

        thread = threading.Thread(target=zombie)
        thread.start()
        reached.wait(10)
        _, committed = world.run()
        before = world.files()
        go_on.set()
        thread.join(10)
        assert committed is not None
        assert [(each.rows, each.bytes) for each in found] == [(committed.rows, committed.bytes)]
        assert world.files() == before
        world.assert_every_record_is_there_once()

    @pytest.mark.parametrize("other_end", [True, False], ids=["given up and planned anew", "its beginning lost"])
    def test_a_zombie_whose_range_was_closed_while_it_read_publishes_nothing(
        self, planned: Planned, other_end: bool
    ) -> None:
        """Kills: a look at the names and the markers only before reading; readers would see records twice."""
        world, plan, range_ = planned
        world.settings["on_data_loss"] = "skip"

        def slow() -> Iterator[Page]:
            pages_ = list(pages(world, range_)())
            if other_end:
                write(world, *longer(world, plan, range_))
            else:
                world.trim(pages_[0].number(10))
                world.plan("run-2")
            yield from pages_

        said = "a second file holds records" if other_end else "a stretch of range .* was declared lost"
        with pytest.raises(ConflictError, match=said):
            ParquetSink(world.home).write(plan, range_, slow)
        assert len(world.files()) == other_end
        if not other_end:
            world.run("run-2")
            assert world.numbers() == [each.sequence_number for each in world.acknowledged[10:]]

    def test_a_zombie_of_other_code_adopts_its_successors_file(
        self, planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world, plan, range_ = planned
        contents = write(world, plan, range_)
        before = world.files()
        monkeypatch.setattr(shardlake, "__version__", "0.0.1-old")
        with world.home.temporary("_shardlake/tmp/zombie") as temporary:
            write_range(temporary, tmp_path / "aside", plan, range_, pages(world, range_)())
            assert not world.home.publish(temporary, FileKey.of(range_).path)
        assert write(world, plan, range_) == contents
        assert world.files() == before


@EVERYWHERE
class TestVerify:
    def verify(self, world: World, plan: BatchPlan) -> object:
        (found,) = ParquetSink(world.home).verify(plan, plan.ranges).values()
        return found

    def test_finds_what_was_published(self, planned: Planned) -> None:
        world, plan, range_ = planned
        contents = write(world, plan, range_)
        assert self.verify(world, plan) == contents

    def test_tells_of_a_file_that_is_not_there(self, planned: Planned) -> None:
        world, plan, range_ = planned
        found = self.verify(world, plan)
        assert isinstance(found, IngestError)
        assert str(found) == f"the file of range {range_} is not there. Run the ingest step again"

    def test_tells_of_a_damaged_file(self, planned: Planned) -> None:
        world, plan, range_ = planned
        write(world, plan, range_)
        world.lake.write(FileKey.of(range_).path, b"PAR1")
        assert isinstance(self.verify(world, plan), ConflictError)

    def test_tells_of_a_second_end_that_came_meanwhile(self, planned: Planned) -> None:
        world, plan, range_ = planned
        write(world, plan, range_)
        _, other = longer(world, plan, range_)
        world.lake.write(FileKey.of(other).path, world.lake.read(FileKey.of(range_).path))
        found = self.verify(world, plan)
        assert isinstance(found, ConflictError)
        assert "a second file holds records of range" in str(found)

    def test_one_range_that_does_not_hold_says_nothing_of_the_others(self, make_world: Callable[..., World]) -> None:
        world = make_world(shards=2)
        world.produce(20)
        plan = world.plan()
        _first, second = plan.ranges
        write(world, plan, second)
        found = ParquetSink(world.home).verify(plan, plan.ranges)
        assert [type(each) for each in found.values()] == [IngestError, Contents]


class TestFolder:
    """What only a dataset in a folder has: names to sync, and temporary files beside the data."""

    def test_brings_the_names_that_it_finds_to_disk(self, planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
        # An attempt may have been killed between giving the file its name and syncing the folder.
        world, plan, range_ = planned
        write(world, plan, range_)
        synced: list[str] = []
        monkeypatch.setattr(LocalHome, "sync", lambda self, key: synced.append(key))
        ParquetSink(world.home).verify(plan, plan.ranges)
        assert synced == [FileKey.of(range_).directory]

    def test_clears_away_temporary_files_also_those_of_dead_runs(self, planned: Planned) -> None:
        world, dead, range_ = planned
        for batch in (dead.batch_id, "unknown-to-the-ledger"):
            world.lake.write(f"_shardlake/tmp/{batch}/killed.parquet", b"")
        world.run("run-2")
        assert world.home.names("_shardlake/tmp") == ["unknown-to-the-ledger"]

    def test_clears_away_temporary_files_of_a_range_that_is_declared_lost(
        self, make_world: Callable[..., World]
    ) -> None:
        """Kills: clearing away before the losses are declared; after a backfill's last plan nobody would come."""
        world = make_world(on_data_loss="skip")
        world.put(b"0")
        plan = world.plan("run-1")
        world.lake.write(f"_shardlake/tmp/{plan.batch_id}/killed.parquet", b"")
        world.trim()
        world.put(b"1")
        world.plan("run-2")
        assert world.home.names("_shardlake/tmp") == []

    def test_leaves_the_temporary_files_of_a_batch_that_has_still_to_publish(
        self, make_world: Callable[..., World]
    ) -> None:
        world = make_world(shards=2)
        world.put(b"0")
        first = world.plan("run-1")
        left = f"_shardlake/tmp/{first.batch_id}/at-work.parquet"
        world.lake.write(left, b"")
        world.put(b"0", shard=1)
        second = world.plan("run-2")
        of_second = [range_ for range_ in second.ranges if range_ not in set(first.ranges)]
        sink = ParquetSink(world.home)
        held = {range_: write(world, second, range_) for range_ in of_second}
        assert sink.commit(world.ledger, second, held, dict.fromkeys(held, second.batch_id)) == []
        assert world.lake.read(left) == b""


@EVERYWHERE
def test_a_report_tells_what_became_of_a_range(planned: Planned) -> None:
    world, plan, range_ = planned
    contents = Contents(20, 0, "")
    (report,) = ingest_ranges(plan, [range_])
    assert report == RangeReport(range_.shard_id, str(range_), contents.rows, report.bytes, None, None, 20, 0, 0)
    world.lake.write(FileKey.of(range_).path, b"")
    assert ingest_ranges(plan, [range_])[0].error == "ConflictError"


class TestSideBySide:
    """Ranges that a Spark task reads at once, in threads: see `jobs/ingest.py`."""

    def test_an_error_stays_with_its_range_whatever_the_others_do(self, make_world: Callable[..., World]) -> None:
        """Kills: trouble of one range that counts for another, or reports that come in the order of their ends."""
        world = make_world(shards=4)
        world.settings["retry_budget"] = "2s"
        world.produce(400)
        plan = world.plan()
        world.trim(shard=1)
        throttled = {"kind": "throttle", "shard": plan.groups[0][2].shard_id, "stream": world.stream}
        late = {"kind": "delay", "ms": 500, "shard": plan.groups[0][0].shard_id, "stream": world.stream}
        world.control(faults=[{**throttled, "operation": "GetRecords"}, {**late, "operation": "GetRecords"}])
        reports = ingest_ranges(plan, list(plan.ranges), side_by_side=2)
        assert [report.range for report in reports] == [str(range_) for range_ in plan.ranges]
        assert [report.error for report in reports] == [None, "DataLossError", "UnavailableError", None]
        assert [len(world.numbers(shard)) for shard in range(4)] == [reports[0].rows, 0, 0, reports[3].rows]
        assert world.home.names(f"_shardlake/tmp/{plan.batch_id}") == []

    def test_two_attempts_at_the_same_ranges_publish_each_once(self, make_world: Callable[..., World]) -> None:
        """Kills: temporary files, or clients, that two ranges at work share."""
        world = make_world(shards=6)
        world.produce(300)
        plan = world.plan()
        reports = ingest_ranges(plan, [*plan.ranges, *plan.ranges], side_by_side=4)
        assert [report.error for report in reports] == [None] * 12
        assert reports[:6] == reports[6:]
        world.assert_rows_are_those_acknowledged()
