"""What judges the cells of the crash matrix: it finds what is wrong, and takes nothing else for wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import shardlake
from local_kinesis.process import LocalKinesis, running
from shardlake.lake.footer import read_footer
from shardlake.lake.local import LocalHome
from shardlake.names import FileKey
from shardlake.plan import Run
from support.faults.boundaries import Boundary, Tap
from support.faults.report import kind_of, markdown, table
from support.faults.results import OK, Cell, Outcome, Results, diagonally, tried
from support.faults.site import Site
from support.faults.steps import KILLED, WAYS, StepsTier, Tasks
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


def test_what_is_told_of_is_of_another_code_version_if_so_asked(kinesis: LocalKinesis, tmp_path: Path) -> None:
    (tmp_path / "tap").mkdir()
    site = Site(kinesis, kinesis.client(), "other-code", tmp_path, f"sqlite:///{tmp_path}/ledger.db")
    site.put(40)
    tasks = Tasks(site, Tap(tmp_path / "tap"), other_code=True)
    for task in tasks.steps_of(KILLED):
        tasks.do(task, told=task.group == 0)
    versions = {}
    for key in site.lake.keys("data/"):
        file = pq.ParquetFile(site.dataset / key)
        footer = read_footer(LocalHome(str(site.dataset)), key)
        versions[footer.version] = file.num_row_groups == ceil(footer.rows / 7)
    assert versions == {"other": True, shardlake.__version__: False}


def test_a_committed_range_that_changes_is_found(site: Site) -> None:
    settled = site.settled()
    site.check_unchanged(settled)
    key, row = next((key, row) for key, row in settled.items() if key.startswith("committed "))
    with pytest.raises(AssertionError, match=r"what was settled changed: \['committed shardId-000000000000 "):
        site.check_unchanged({**settled, key: replace(row, closed_at_ms=row.closed_at_ms - 1)})


def test_a_published_file_that_changes_is_found(site: Site) -> None:
    settled = site.settled()
    file = a_file(site)
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)
    with pytest.raises(AssertionError, match=r"what was settled changed: \['data/shard_id=shardId-000000000000/"):
        site.check_unchanged(settled)


class TestResults:
    def test_a_matrix_is_gone_on_with(self, tmp_path: Path) -> None:
        good, bad = (Cell("steps", "sqlite", "commit: COMMIT ranges", way) for way in ("retry", "next run"))
        first = Results(tmp_path / "results.jsonl")
        first.add(Outcome(good, OK, 1.0))
        first.add(tried(bad, lambda: json.loads("{")))
        second = Results(tmp_path / "results.jsonl")
        assert (second.is_done(good), second.is_done(bad)) == (True, False)
        assert "2 cells: 1 ok, 1 failed, 0 not run" in table(second, [good, bad], 100)
        second.add(Outcome(bad, OK, 1.0))
        assert Results(tmp_path / "results.jsonl").is_done(bad)

    def test_each_turn_has_every_boundary_once_and_all_turns_every_pair(self) -> None:
        boundaries, ways = ["a", "b", "c", "d"], ["x", "y", "z"]
        pairs = list(diagonally(boundaries, ways))
        assert [boundary for boundary, _ in pairs[:4]] == boundaries
        assert {way for _, way in pairs[:4]} == set(ways)
        assert len(set(pairs)) == len(pairs) == 12

    def test_the_table_fits_into_a_narrow_terminal(self, tmp_path: Path) -> None:
        results = Results(tmp_path / "results.jsonl")
        boundary = "plan: COMMIT schema ledger pipelines shards batches chains ranges backfills journal"
        cells = [Cell("steps", "sqlite", boundary, way) for way in WAYS]
        results.add(Outcome(cells[0], OK, 1.0))
        results.add(Outcome(cells[1], "AssertionError: [no]", 1.0))
        text = table(results, cells, 100)
        assert max(map(len, text.splitlines())) <= 100
        row = next(line for line in text.splitlines() if "plan: " in line)
        assert row.split("\N{BOX DRAWINGS LIGHT VERTICAL}")[2:5] == [" + ", " X ", " ? "]
        assert "14 cells: 1 ok, 1 failed, 12 not run" in text

    def test_sums_are_a_page_s_tables(self) -> None:
        boundaries = ["plan: sync .", "commit: COMMIT ranges", "supervisor of plan: POST XCom x"]
        outcomes = [Outcome(Cell("airflow", "postgres", each, "retry"), OK, 1.0) for each in boundaries]
        outcomes += [Outcome(Cell("airflow", "postgres", boundaries[0], "next run"), "AssertionError: no", 1.0)]
        assert markdown(outcomes).splitlines() == [
            "**airflow, ledger in PostgreSQL**: 4 cells at 3 boundaries, 1 failed",
            "",
            "| gone on with | cells | ok | failed |",
            "| --- | ---: | ---: | ---: |",
            "| retry | 3 | 3 | 0 |",
            "| next run | 1 | 0 | 1 |",
            "",
            "| killed before | cells | ok | failed |",
            "| --- | ---: | ---: | ---: |",
            "| something comes to disk | 2 | 1 | 1 |",
            "| the ledger's COMMIT | 1 | 1 | 0 |",
            "| a message of Airflow's | 1 | 1 | 0 |",
        ]

    def test_an_effect_that_is_of_no_kind_is_told(self) -> None:
        with pytest.raises(ValueError, match="no kind of boundary: plan: dance"):
            kind_of("plan: dance")
