"""Loss of power: what the ledger counts on is on disk before its commit, also where a clean run has no such file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_kinesis.process import LocalKinesis, running
from support.aggregates import sealed
from support.faults.boundaries import Tap
from support.faults.site import Site
from support.faults.steps import KILLED, NEXT, Tasks

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kinesis() -> Iterator[LocalKinesis]:
    with running() as server:
        yield server


@pytest.fixture
def tasks(kinesis: LocalKinesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tasks:
    """A pipeline that goes on after a loss, none of whose steps has run."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    (tmp_path / "tap").mkdir()
    settings = {"on_data_loss": "skip"}
    site = Site(kinesis, kinesis.client(), "power", tmp_path, f"sqlite:///{tmp_path}/ledger.db", settings)
    return Tasks(site, Tap(tmp_path / "tap"))


def test_quarantines_and_markers_are_on_disk_before_the_commit_that_counts_on_them(tasks: Tasks) -> None:
    site = tasks.site
    site.put(40)
    site.client.put_record(StreamName=site.name, PartitionKey="key", Data=sealed(b"\xff"))
    for task in tasks.steps_of(KILLED):
        tasks.do(task, told=True)
    site.put(20)
    for shard in site.client.list_shards(StreamName=site.name)["Shards"]:
        site.kinesis.control({"trim": {"stream": site.name, "shard": shard["ShardId"], "all": True}})
    site.put(20)
    for task in tasks.steps_of(NEXT):
        tasks.do(task, told=True)
    names = {boundary.name.rpartition("/")[0] for boundary in tasks.tap.told()}
    assert {"ingest: link quarantine/shard_id=*", "plan: link _shardlake/lost/shard_id=*"} <= names
    assert tasks.tap.not_on_disk() == []


class TestPowerLoss:
    """What the recorder says of the order in which things come to disk; with a !, the process is killed before it."""

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
            (["mkdir data/shard", "!sync data", "COMMIT"], ["names in data at x: COMMIT"]),
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
            {"thread": thread, "name": f"x: {kind.strip('!')}", "keys": keys, "stopped": kind.startswith("!")}
            for thread, (kind, *keys) in ((thread, effect.split()) for thread, effect in effects)
        )
        (folder / "all.log").write_text("".join(json.dumps(line) + "\n" for line in lines))
