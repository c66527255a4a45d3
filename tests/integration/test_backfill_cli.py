"""`shardlake backfill` and `backfills`, and the commands that look into one: a real SQLite ledger, real files."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from shardlake.engines import IngestJob
from shardlake.errors import IngestError
from support.command_line import CommandLine, entry_of, write_config
from support.inline_engine import InlineEngine

if TYPE_CHECKING:
    from tests.integration.conftest import World

SHARD_0, SHARD_1 = (f"shardId-{number:012d}" for number in range(2))
EARLY = "2020-01-01T00:00:00Z"
LIMIT = 100
"""max_range_bytes of the pipeline: three of `FORTY`."""

FORTY = b"x" * 40


class FailingEngine:
    """Fails every job but the first ones."""

    def __init__(self, after: int, error: type[BaseException] = IngestError) -> None:
        self._left, self._error = after, error

    def run(self, job: IngestJob, log: Callable[[str], None]) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._error("spark-submit ended with exit code 1")
        InlineEngine().run(job, log)

    def cancel(self) -> None:
        pass


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(2)


@pytest.fixture
def shardlake(world: World, tmp_path: Path) -> CommandLine:
    return write_config(tmp_path / "pipelines.yaml", p=entry_of(world, max_range_bytes=LIMIT))


def files(world: World) -> list[str]:
    """Every file below the pipeline's root, but for SQLite's own."""
    found = (path.relative_to(world.root) for path in world.root.rglob("*"))
    return sorted(str(path) for path in found if not path.name.startswith("ledger.db-"))


def data(world: World, backfill: str) -> Path:
    return world.path("backfill") / backfill / "data"


def rows(world: World, backfill: str) -> int:
    return int(pq.read_table(data(world, backfill)).num_rows)


class TestBackfill:
    def test_it_runs_batch_after_batch_and_says_what_it_did(self, shardlake: CommandLine, world: World) -> None:
        world.put(*[FORTY] * 5)
        world.put(FORTY, shard=1)
        first, *batches, last = shardlake.lines("backfill", "p", "--from", EARLY, "--id", "again")
        assert first == f"backfill again: 2 shards, into {data(world, 'again')}"
        assert [re.sub(r"batch \S+: (.*), [0-9.]+ KiB committed", r"\1", line) for line in batches] == [
            "2 ranges, 3 rows",
            "1 range, 2 rows",
            "1 range, 1 row",
        ]
        assert last == "backfill again is complete"
        assert rows(world, "again") == 6
        assert not world.path("data").exists()

    def test_json_is_an_array_of_batches(self, shardlake: CommandLine, world: World) -> None:
        numbers = world.put(*[FORTY] * 4)
        options = ("--shard", SHARD_0, "--from", numbers[1].text, "--to", numbers[3].text, "--read-fraction", "1")
        batches = shardlake.json("backfill", "p", *options)
        assert [(batch["rows"], batch["behind"], batch["pipeline"]) for batch in batches] == [
            (2, True, "p"),
            (1, False, "p"),
        ]
        (backfill,) = {batch["backfill"] for batch in batches}
        assert re.fullmatch(r"cli-\d{8}T\d{12}Z", backfill)
        assert rows(world, backfill) == 3

    @pytest.mark.parametrize(("error", "exit_code"), [(IngestError, 1), (KeyboardInterrupt, 130)])
    def test_interrupted_it_says_how_to_go_on_and_does(
        self, shardlake: CommandLine, world: World, error: type[BaseException], exit_code: int
    ) -> None:
        world.put(*[FORTY] * 6)
        broken = shardlake("backfill", "p", "--from", EARLY, engine=FailingEngine(1, error))
        assert broken.exit_code == exit_code
        (go_on,) = re.findall(r"^To go on with it: shardlake (backfill p --id (\S+))$", broken.stderr, re.MULTILINE)
        command, namespace = go_on
        assert rows(world, namespace) == 2
        world.put(*[FORTY] * 3)
        assert shardlake.lines(*command.split())[-1] == f"backfill {namespace} is complete"
        assert rows(world, namespace) == 6
        assert shardlake.lines(*command.split()) == [
            f"backfill {namespace}: 1 shard, into {data(world, namespace)}",
            f"backfill {namespace} is complete",
        ]

    def test_a_mistyped_name_opens_nothing(self, shardlake: CommandLine, world: World) -> None:
        world.put(b"x")
        for options in ((), ("--dry-run",)):
            result = shardlake("backfill", "p", "--id", "mistyped", *options)
            assert result.exit_code == 2
            assert "pipeline p has no backfill mistyped: found none at all" in result.stderr
        assert files(world) == []

    def test_other_bounds_for_an_open_one_are_a_conflict(self, shardlake: CommandLine, world: World) -> None:
        world.put(b"x")
        shardlake.lines("backfill", "p", "--from", EARLY, "--id", "b")
        result = shardlake("backfill", "p", "--from", "2020-01-02T00:00:00Z", "--id", "b")
        assert result.exit_code == 4
        assert f"opened for another request: expected from {EARLY} to the newest" in result.stderr

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (("--from", "yesterday"), "the backfill's from:"),
            (("--from", "1"), "which is one shard's"),
            (("--to", "2999-01-01T00:00:00Z"), "the backfill's to lies in the future"),
            (("--shard", "../x"), "the backfill's shards"),
            (("--shard", "shardId-000000000007"), "the stream has no shard shardId-000000000007"),
            (("--read-fraction", "0"), "the backfill's read_fraction"),
            (("--read-fraction", "nan"), "the backfill's read_fraction"),
            (("--shard", SHARD_1), "has no records between the bounds"),
        ],
    )
    @pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
    def test_what_cannot_be_is_refused_and_nothing_written(
        self, shardlake: CommandLine, world: World, options: tuple[str, ...], said: str, dry_run: tuple[str, ...]
    ) -> None:
        world.put(b"x")
        result = shardlake("backfill", "p", *options, *dry_run)
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
        assert files(world) == []

    @pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
    def test_what_is_no_longer_retained_is_told_with_3(
        self, shardlake: CommandLine, world: World, dry_run: tuple[str, ...]
    ) -> None:
        world.put(b"old")
        world.advance(hours=25)
        world.put(b"new")
        result = shardlake("backfill", "p", "--from", EARLY, *dry_run)
        assert result.exit_code == 3
        assert "no longer retained" in result.stderr
        assert files(world) == []
        shardlake.lines("backfill", "p", "--from", EARLY, "--retained-only", "--id", "left")
        assert rows(world, "left") == 1

    @pytest.mark.parametrize("name", ["../../x", "live", "a/b", "é", "x" * 300, "data", "."])
    def test_no_name_leaves_the_backfills_folder(self, shardlake: CommandLine, world: World, name: str) -> None:
        world.put(b"x")
        shardlake.lines("backfill", "p", "--from", EARLY, "--id", name)
        (backfill,) = shardlake.json("backfills", "p")
        assert rows(world, backfill["backfill"]) == 1
        assert [path for path in files(world) if "/" in path and not path.startswith("lake/backfill")] == []


class TestDryRun:
    def test_small_ones_are_exact_and_nothing_is_written(self, shardlake: CommandLine, world: World) -> None:
        numbers = world.put(*[FORTY] * 5)
        other = world.put(b"1", shard=1)
        assert shardlake.json("backfill", "p", "--id", "b", "--from", EARLY, "--dry-run") == {
            "backfill": "b",
            "dataset": f"{world.lake.dataset}/backfill/b",
            "stretches": [
                {
                    "shard_id": SHARD_0,
                    "first": f"AT {numbers[0]}",
                    "through": numbers[4].text,
                    "ranges": 2,
                    "records": 5,
                    "bytes": 200,
                    "calls": 2,
                    "seconds": 0.8,
                },
                {
                    "shard_id": SHARD_1,
                    "first": f"AT {other[0]}",
                    "through": other[0].text,
                    "ranges": 1,
                    "records": 1,
                    "bytes": 1,
                    "calls": 1,
                    "seconds": 0.4,
                },
            ],
            "seconds": 0.8,
        }
        assert files(world) == []

    def test_it_is_told_for_people(self, shardlake: CommandLine, world: World) -> None:
        (number,) = world.put(b"x" * 2**19)
        options = ("--id", "b", "--from", EARLY, "--read-fraction", "0.25", "--dry-run")
        header, row, how_much, how_long = shardlake.lines("backfill", "p", *options)
        assert header.split() == ["shard", "first", "through", "ranges", "records", "bytes", "calls", "time"]
        counts = ["5,243", "1", "512.0", "KiB", "5,243", "1", "h", "9", "min"]
        assert row.split() == [SHARD_0, "AT", number.text, number.text, *counts]
        assert how_much == f"about 1 record, 512.0 KiB, into {world.lake.dataset}/backfill/b"
        assert how_long == "at least 1 h 9 min with 25% of each shard's read limits and all shards side by side"

    def test_of_an_open_one_it_tells_what_is_left(self, shardlake: CommandLine, world: World) -> None:
        numbers = world.put(*[FORTY] * 5)
        shardlake("backfill", "p", "--from", EARLY, "--id", "b", engine=FailingEngine(1))
        (left,) = shardlake.json("backfill", "p", "--id", "b", "--dry-run")["stretches"]
        assert (left["first"], left["through"]) == (f"AFTER {numbers[1]}", numbers[4].text)
        assert (left["records"], left["bytes"]) == (3, 120)
        shardlake.lines("backfill", "p", "--id", "b")
        assert shardlake.json("backfill", "p", "--id", "b", "--dry-run")["stretches"] == []
        assert shardlake.lines("backfill", "p", "--id", "b", "--dry-run") == [
            "backfill b is complete: nothing is left to read"
        ]

    @pytest.mark.parametrize("closed", [False, True])
    def test_steady_streams_are_estimated_within_a_tenth(
        self, shardlake: CommandLine, world: World, tmp_path: Path, closed: bool
    ) -> None:
        for _ in range(40):  # of which a page covers four
            world.put(*(b"x" * (n % 200) for n in range(250)))
            world.advance(seconds=60)
        if closed:
            world.split(0)
        world.control(reset_stats=True)
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world, max_range_bytes="100KiB"))
        (found,) = shardlake.json("backfill", "p", "--shard", SHARD_0, "--dry-run")["stretches"]
        sizes = 40 * sum(n % 200 for n in range(250))
        assert found["records"] == pytest.approx(10_000, rel=0.1)
        assert found["bytes"] == pytest.approx(sizes, rel=0.1)
        assert found["ranges"] == pytest.approx(sizes / 2**17 * 1.28, abs=2)
        assert world.calls()["records"] < 10_000


class TestLookingIntoOne:
    @pytest.fixture
    def done(self, shardlake: CommandLine, world: World) -> CommandLine:
        """A command line whose pipeline has a backfill `b` of two ranges, and a live batch of other records."""
        world.put(*[FORTY] * 4)
        shardlake.lines("backfill", "p", "--from", EARLY, "--id", "b")
        return shardlake

    def test_ranges_and_files_are_its_own(self, done: CommandLine, world: World) -> None:
        done.lines("run", "p", "--until-caught-up")
        ranges = done.json("ranges", "p", "--backfill", "b")
        assert [(row["state"], row["rows"]) for row in ranges] == [("committed", 2), ("committed", 2)]
        found = done.lines("files", "p", "--backfill", "b")
        assert found == sorted(map(str, data(world, "b").rglob("*.parquet")))
        assert not set(found) & set(done.lines("files", "p"))

    def test_audit_compares_ledger_files_and_stream(self, done: CommandLine, world: World) -> None:
        (line,) = done.lines("audit", "p", "--backfill", "b")
        assert re.fullmatch(r"2 committed ranges, 4 rows, [0-9.]+ KiB: ledger, file and stream agree", line)

    def test_audit_finds_a_stray_file_and_a_missing_one(self, done: CommandLine, world: World) -> None:
        first, second = sorted(data(world, "b").rglob("*.parquet"))
        first.rename(first.with_name("stray.parquet"))
        findings = done.json("audit", "p", "--backfill", "b", exit_code=4)["findings"]
        assert sorted(finding["kind"] for finding in findings) == ["missing", "stray"]
        assert done.json("audit", "p")["findings"] == []

    def test_audit_finds_a_row_of_the_ledger_that_is_gone(self, done: CommandLine, world: World) -> None:
        with sqlite3.connect(world.root / "ledger.db") as ledger:
            tables = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = next(name for name in tables if "range" in name)
            for (trigger,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                ledger.execute(f"DROP TRIGGER {trigger}")
            ledger.execute(f"DELETE FROM {table} WHERE start_key = (SELECT min(start_key) FROM {table})")
        findings = done.json("audit", "p", "--backfill", "b", exit_code=4)["findings"]
        assert "stray" in {finding["kind"] for finding in findings}

    @pytest.mark.parametrize("command", ["ranges", "files", "audit"])
    @pytest.mark.parametrize("name", ["c", "live", "../b", ""])
    def test_one_that_is_not_there_is_an_error(self, done: CommandLine, command: str, name: str) -> None:
        result = done(command, "p", "--backfill", name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"pipeline p has no backfill {name}: found b" in result.stderr


class TestBackfills:
    def test_none_yet(self, shardlake: CommandLine, world: World) -> None:
        assert shardlake.lines("backfills", "p") == ["pipeline p has no backfill"]
        assert shardlake.json("backfills", "p") == []
        assert files(world) == []

    def test_each_with_what_was_asked_for_and_how_far_it_has_come(self, shardlake: CommandLine, world: World) -> None:
        world.put(*[FORTY] * 4)
        (number,) = world.put(FORTY, shard=1)
        shardlake("backfill", "p", "--from", EARLY, "--id", "first", engine=FailingEngine(1))
        options = ("--id", "second", "--shard", SHARD_1, "--to", number.text, "--read-fraction", "0.25")
        shardlake.lines("backfill", "p", *options, "--retained-only")
        assert shardlake.json("backfills", "p") == [
            {
                "backfill": "first",
                "shards": [],
                "from": EARLY,
                "to": None,
                "read_fraction": 0.5,
                "retained_only": False,
                "ranges": 2,
                "rows": 3,
                "lost": 0,
                "left": [SHARD_0],
            },
            {
                "backfill": "second",
                "shards": [SHARD_1],
                "from": None,
                "to": number.text,
                "read_fraction": 0.25,
                "retained_only": True,
                "ranges": 1,
                "rows": 1,
                "lost": 0,
                "left": [],
            },
        ]
        header, *lines = shardlake.lines("backfills", "p")
        assert header.split() == ["backfill", "from", "to", "shards", "ranges", "rows", "lost", "left"]
        assert [line.split() for line in lines] == [
            ["first", EARLY, "newest", "all", "2", "3", "0", SHARD_0],
            ["second", "oldest", number.text, SHARD_1, "1", "1", "0", "nothing"],
        ]
