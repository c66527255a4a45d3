"""What judges the cells of the crash matrix: it finds what is wrong, and takes nothing else for wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_kinesis.process import LocalKinesis, running
from shardlake.names import FileKey
from shardlake.plan import Run
from support.faults.boundaries import Boundary, Tap
from support.faults.results import OK, Cell, Outcome, Results, diagonally, tried
from support.faults.site import Site
from support.faults.steps import StepsTier, Tasks
from support.inline_engine import InlineEngine

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kinesis() -> Iterator[LocalKinesis]:
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def site(kinesis: LocalKinesis, tmp_path: Path) -> Site:
    """A pipeline after its first run."""
    site = Site(kinesis, kinesis.client(), tmp_path.name[:100], tmp_path, f"sqlite:///{tmp_path}/ledger.db")
    site.put(40)
    site.steps.run(Run("dag", "run-1"), InlineEngine(), print)
    site.check()
    return site


def a_file(site: Site) -> Path:
    return Path(site.dataset, min(site.published()))


def remove_a_file(site: Site) -> None:
    a_file(site).unlink()


def put_another_record(site: Site) -> None:
    site.put(1)


def forget_an_acknowledgement(site: Site) -> None:
    site.acknowledged.pop()


def leave_a_range_open(site: Site) -> None:
    site.put(10)
    site.steps.plan(Run("dag", "run-2"))


def leave_a_temporary_file(site: Site) -> None:
    folder = site.dataset / "_shardlake" / "tmp" / "batch"
    folder.mkdir(parents=True)


def leave_a_strange_file(site: Site) -> None:
    (site.dataset / "data" / "part-0000.parquet.crc").touch()


def leave_a_plan_that_the_ledger_does_not_have(site: Site) -> None:
    (plan,) = site.dataset.glob("_shardlake/batches/*/plan.json")
    text = json.loads(plan.read_text())
    plan.write_text(json.dumps({**text, "behind": not text["behind"]}))


def publish_a_copy(site: Site) -> None:
    file = a_file(site)
    key = FileKey(file.parent.name.removeprefix("shard_id="), *file.stem.split("-"))
    os.link(file, site.dataset / FileKey(key.shard_id, key.through_key, key.through_key[:-1] + "9").path)


@pytest.mark.parametrize(
    "spoil",
    [
        remove_a_file,
        put_another_record,
        forget_an_acknowledgement,
        leave_a_range_open,
        leave_a_temporary_file,
        leave_a_strange_file,
        leave_a_plan_that_the_ledger_does_not_have,
        publish_a_copy,
    ],
)
def test_a_check_finds_what_is_wrong(site: Site, spoil: Callable[[Site], None]) -> None:
    spoil(site)
    with pytest.raises((AssertionError, FileNotFoundError)):
        site.check()


def test_half_written_control_files_are_forgiven_for_an_hour(site: Site) -> None:
    (site.dataset / "_shardlake" / ".writing-x").touch()
    site.check()
    with pytest.raises(AssertionError):
        site.check_nothing_is_half_written()


def test_a_boundary_that_is_never_reached_fails_its_cell(kinesis: LocalKinesis, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"commit: COMMIT ranges \(7\) was not reached"):
        StepsTier(tmp_path, kinesis, None).run(Boundary("commit: COMMIT ranges", 7), "retry")


def test_the_process_is_dead_at_its_boundary(kinesis: LocalKinesis, tmp_path: Path) -> None:
    (tmp_path / "tap").mkdir()
    site = Site(kinesis, kinesis.client(), "dead", tmp_path, f"sqlite:///{tmp_path}/ledger.db")
    site.put(40)
    tasks = Tasks(site, Tap(tmp_path / "tap"))
    tasks.kill_at(Boundary("ingest: link data/shard_id=*/*.parquet", 1))
    assert tasks.tap.told()[-1] == Boundary("ingest: link data/shard_id=*/*.parquet", 1)
    assert str(tasks.interrupted) == "ingest run-1 0"
    assert site.published() == {}
    assert len(list(site.dataset.glob("_shardlake/tmp/*/*.parquet"))) == 2


class TestPowerLoss:
    """What the recorder says of the order in which things come to disk."""

    @pytest.mark.parametrize(
        ("effects", "found"),
        [
            (["open t.parquet", "write", "sync t.parquet", "link t.parquet data/a", "sync data", "COMMIT"], []),
            (
                ["open t.parquet", "write", "link t.parquet data/a", "sync data", "COMMIT"],
                ["the content of data/a"],
            ),
            (
                ["open t.parquet", "sync t.parquet", "write", "link t.parquet data/a", "sync data", "COMMIT"],
                ["the content of data/a"],
            ),
            (
                ["open t.parquet", "write", "sync t.parquet", "link t.parquet data/a", "COMMIT"],
                ["names in data at x: COMMIT"],
            ),
            (["mkdir data/shard", "COMMIT"], ["names in data at x: COMMIT"]),
            (["mkdir data/shard", "sync data", "COMMIT"], []),
        ],
    )
    def test_what_is_not_on_disk_is_found(self, tmp_path: Path, effects: list[str], found: list[str]) -> None:
        self._tell(tmp_path, [(1, effect) for effect in effects])
        assert Tap(tmp_path).not_on_disk() == found

    def test_a_thread_that_writes_leaves_the_files_of_another_one_as_they_are(self, tmp_path: Path) -> None:
        mine = ["open t.parquet", "write", "sync t.parquet"]
        linked = [(1, "link t.parquet data/a"), (2, "link u.parquet data/b")]
        self._tell(tmp_path, [(2, "open u.parquet"), *((1, effect) for effect in mine), (2, "write"), *linked])
        assert Tap(tmp_path).not_on_disk() == ["the content of data/b"]

    @staticmethod
    def _tell(folder: Path, effects: list[tuple[int, str]]) -> None:
        lines = (
            {"thread": thread, "name": f"x: {kind}", "keys": keys}
            for thread, (kind, *keys) in ((thread, effect.split()) for thread, effect in effects)
        )
        (folder / "all.log").write_text("".join(json.dumps(line) + "\n" for line in lines))


class TestResults:
    def test_a_matrix_is_gone_on_with(self, tmp_path: Path) -> None:
        good, bad = (Cell("steps", "sqlite", "commit: COMMIT ranges", way) for way in ("retry", "next run"))
        first = Results(tmp_path / "results.jsonl")
        first.add(Outcome(good, OK, 1.0))
        first.add(tried(bad, lambda: json.loads("{")))
        second = Results(tmp_path / "results.jsonl")
        assert (second.is_done(good), second.is_done(bad)) == (True, False)
        assert "2 cells: 1 ok, 1 failed, 0 not run" in second.table([good, bad])
        second.add(Outcome(bad, OK, 1.0))
        assert Results(tmp_path / "results.jsonl").is_done(bad)

    def test_each_turn_has_every_boundary_once_and_all_turns_every_pair(self) -> None:
        boundaries, ways = ["a", "b", "c", "d"], ["x", "y", "z"]
        pairs = list(diagonally(boundaries, ways))
        assert [boundary for boundary, _ in pairs[:4]] == boundaries
        assert {way for _, way in pairs[:4]} == set(ways)
        assert len(set(pairs)) == len(pairs) == 12
