"""`repair`, `abandon` and `journal`: what a person does to a range by hand, and what the next runs make of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from shardlake.batch import Steps
from shardlake.errors import ConflictError
from shardlake.kinesis.page import Page
from shardlake.kinesis.reader import read_range
from shardlake.lake.footer import Footer
from shardlake.lake.local import LocalHome
from shardlake.lake.parquet import write_range
from shardlake.ledger import Ledger, LedgerRange, open_ledger
from shardlake.names import LIVE, FileKey
from shardlake.plan import Run
from shardlake.sinks.parquet import ParquetSink
from support.command_line import CommandLine, entry_of, write_config
from support.inline_engine import InlineEngine

if TYPE_CHECKING:
    from tests.integration.conftest import World

WHY = ("--reason", "disk lost it", "--yes")


@pytest.fixture
def shardlake(world: World) -> CommandLine:
    """The command line on a pipeline `p` that has committed two batches."""
    command = write_config(world.root.parent / "pipelines.yaml", p=entry_of(world))
    for _ in range(2):
        world.produce(60)
        assert command("run", "p").exit_code == 0
    return command


def ledger(world: World) -> Ledger:
    return open_ledger(f"sqlite:///{world.root}/ledger.db")


def rows(world: World) -> list[LedgerRange]:
    return list(ledger(world).ranges("p", LIVE))


def files(world: World) -> list[Path]:
    return sorted((world.root / "lake" / "data").rglob("*.parquet"))


class TestRepair:
    def test_nothing_to_do_asks_nothing_and_changes_nothing(self, world: World, shardlake: CommandLine) -> None:
        before = world.files()
        assert shardlake.lines("repair", "p") == ["2 files looked at, 0 repaired, 0 not"]
        assert (world.files(), ledger(world).journal("p")) == (before, [])

    def test_a_run_meanwhile_takes_nothing_away_from_it(
        self, world: World, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = world.files()
        files(world)[0].unlink()

        def slowly(data: Path, *arguments: Any) -> Footer:
            footer = write_range(data, *arguments)
            world.produce(5)
            assert shardlake("run", "p").exit_code == 0
            return footer

        monkeypatch.setattr("shardlake.repair.write_range", slowly)
        result = shardlake("repair", "p", *WHY)
        assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "2 files looked at, 1 repaired, 0 not")
        assert before.items() <= world.files().items()

    def test_what_one_put_in_place_that_died_then_is_brought_to_disk_by_the_next(
        self, world: World, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Kills: a file of which a loss of power brings the damaged one back, taken for repaired."""
        file = files(world)[0]
        whole = file.read_bytes()
        file.unlink()
        shardlake.json("repair", "p", *WHY)
        assert file.read_bytes() == whole
        synced: list[str] = []
        monkeypatch.setattr(LocalHome, "sync", lambda _, it: synced.append(it))
        assert shardlake.lines("repair", "p") == ["2 files looked at, 0 repaired, 0 not"]
        key = FileKey.of(rows(world)[0].range)
        assert synced == [key.directory, key.quarantine_directory]

    def test_one_that_takes_hours_keeps_its_files(
        self, world: World, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Kills: files that wait for their next rows, cleared away by a run meanwhile."""
        before = world.files()
        files(world)[0].unlink()
        two_hours_ago = time.time() - 7200

        def slowly(*arguments: Any) -> Iterator[Page]:
            for page in read_range(*arguments):
                for waiting in world.path("_shardlake").glob(".writing-*"):
                    os.utime(waiting, (two_hours_ago, two_hours_ago))
                yield page
                world.home.remove_abandoned()

        monkeypatch.setattr("shardlake.repair.read_range", slowly)
        assert len(shardlake.json("repair", "p", *WHY)["repaired"]) == 1
        assert world.files() == before

    @pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "of another range", "with a row dropped"])
    def test_a_file_comes_back_as_it_was(self, world: World, shardlake: CommandLine, damage: str) -> None:
        before, ranges = world.files(), rows(world)
        first, second = files(world)
        if damage == "missing":
            first.unlink()
        elif damage == "truncated":
            first.write_bytes(first.read_bytes()[:-100])
        elif damage == "empty":
            first.write_bytes(b"")
        elif damage == "of another range":
            first.write_bytes(second.read_bytes())
        else:
            table = pq.read_table(first, partitioning=None)
            pq.write_table(table.slice(1), first)

        done = shardlake.json("repair", "p", *WHY)

        key = str(first.relative_to(world.root / "lake"))
        assert done == {"pipeline": "p", "looked_at": 2, "repaired": [key], "failed": []}
        assert world.files() == before
        assert rows(world) == ranges
        world.assert_every_record_is_there_once()
        (entry,) = ledger(world).journal("p")
        assert (entry.action, entry.range, entry.reason) == ("repair", ranges[0].range, "disk lost it")
        assert "@" in entry.who
        assert shardlake("audit", "p").exit_code == 0

    def test_a_file_whose_rows_were_changed_is_damaged(self, world: World, shardlake: CommandLine) -> None:
        before = world.files()
        first, _ = files(world)
        table = pq.read_table(first, partitioning=None)
        metadata = pq.read_schema(first).metadata
        changed = table.set_column(6, table.schema.field(6), [[b"changed"] * len(table)])
        with pq.ParquetWriter(first, changed.schema) as writer:
            writer.write_table(changed)
            writer.add_key_value_metadata(pq.read_metadata(files(world)[1]).metadata | (metadata or {}))
        assert shardlake.json("repair", "p", *WHY)["failed"] == []
        assert world.files() == before

    def test_it_asks_first_and_a_no_changes_nothing(self, world: World, shardlake: CommandLine) -> None:
        files(world)[0].unlink()
        before = world.files()
        result = shardlake("repair", "p", "--reason", "x")  # nobody answers
        assert result.exit_code == 1
        assert "Read 1 range from Kinesis again?" in result.stderr
        assert (world.files(), ledger(world).journal("p")) == (before, [])

    def test_what_is_no_longer_retained_is_told_and_the_others_are_repaired(
        self, world: World, shardlake: CommandLine
    ) -> None:
        first, second = files(world)
        before = world.files()
        first.unlink()
        second.unlink()
        world.trim(before=rows(world)[1].range.anchor)
        result = shardlake("repair", "p", *WHY)
        assert result.exit_code == 3
        assert f"repaired: {second.relative_to(world.root / 'lake')}" in result.stdout
        assert "no longer retained" in result.stderr
        assert world.files() == {name: content for name, content in before.items() if name.endswith(second.name)}
        assert [entry.range for entry in ledger(world).journal("p")] == [rows(world)[1].range]
        assert world.home.names("_shardlake/tmp") == []

    def test_other_records_than_were_committed_are_not_put_in_place(
        self, world: World, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from shardlake.kinesis import reader

        files(world)[0].unlink()
        before, read = world.files(), reader.read_range
        monkeypatch.setattr("shardlake.repair.read_range", lambda *all_: (page.rows(1) for page in read(*all_)))
        result = shardlake("repair", "p", *WHY)
        assert result.exit_code == 4
        assert "the stream has other records than were committed" in result.stderr
        assert (world.files(), ledger(world).journal("p")) == (before, [])

    def test_only_the_shard_that_is_named(self, world: World, shardlake: CommandLine) -> None:
        files(world)[0].unlink()
        assert shardlake.json("repair", "p", "--shard", "shardId-000000000009", *WHY)["looked_at"] == 0
        assert len(files(world)) == 1


class TestAbandon:
    @pytest.fixture
    def open_run(self, world: World, shardlake: CommandLine) -> tuple[Steps, str]:
        """A run whose range is published but not committed."""
        world.produce(40)
        steps = Steps(world.pipeline.model_copy(update={"stream": world.stream}), ledger(world))
        plan = steps.plan(Run("dag", "run-3"))
        steps.ingest(plan.batch_id, 0, InlineEngine(), lambda line: None)
        return steps, plan.batch_id

    def test_range_and_file_are_given_up_and_planned_anew(
        self, world: World, shardlake: CommandLine, open_run: tuple[Steps, str]
    ) -> None:
        before = rows(world)
        given_up = before[-1].range
        assert given_up.start.kind == "AFTER"
        done = shardlake.json("abandon", "p", "--shard", given_up.shard_id, *WHY)
        assert done["removed"] == [FileKey.of(given_up).path]
        assert (len(files(world)), rows(world)) == (2, before[:-1])
        (entry,) = ledger(world).journal("p")
        assert (entry.action, entry.range, entry.reason) == ("abandon", given_up, "disk lost it")

        world.produce(5)
        assert shardlake("run", "p", "--until-caught-up").exit_code == 0
        world.assert_every_record_is_there_once()
        assert rows(world)[-1].range.through != given_up.through

    def test_the_file_is_gone_for_good_before_the_range_is(
        self, world: World, shardlake: CommandLine, open_run: tuple[Steps, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Kills: a file that a loss of power brings back, in the way of the range that was planned in its place."""
        key = FileKey.of(rows(world)[-1].range)
        file = world.root / "lake" / key.path
        assert file.exists()
        synced = []
        monkeypatch.setattr(LocalHome, "sync", lambda _, it: synced.append((it, file.exists(), rows(world)[-1].state)))
        shardlake.json("abandon", "p", "--shard", key.shard_id, *WHY)
        assert synced == [(key.directory, False, "planned"), (key.quarantine_directory, False, "planned")]

    def test_a_run_that_goes_on_with_it_publishes_nothing_and_ends_in_a_conflict(
        self, world: World, shardlake: CommandLine, open_run: tuple[Steps, str]
    ) -> None:
        steps, batch = open_run
        shardlake.json("abandon", "p", "--shard", "shardId-000000000000", *WHY)
        lines: list[str] = []
        steps.ingest(batch, 0, InlineEngine(), lines.append)
        assert lines == ["every range of group 0 is committed or given up: nothing to read"]
        steps.verify(batch)
        with pytest.raises(ConflictError, match="is not open any more.*shardlake journal"):
            steps.commit(batch)
        assert len(files(world)) == 2
        world.produce(5)
        assert shardlake("run", "p", "--until-caught-up").exit_code == 0
        world.assert_every_record_is_there_once()

    def test_a_zombie_that_publishes_it_afterwards_is_found_as_a_conflict_and_given_up_again(
        self, world: World, shardlake: CommandLine, open_run: tuple[Steps, str]
    ) -> None:
        (late,) = [file for file in files(world) if file not in files(world)[:2]]
        content = late.read_bytes()
        shardlake.json("abandon", "p", "--shard", "shardId-000000000000", *WHY)
        world.produce(5)
        steps = Steps(world.pipeline, ledger(world))
        plan = steps.plan(Run("dag", "run-4"))
        late.write_bytes(content)
        with pytest.raises(ConflictError, match="a second file holds records"):
            steps.ingest(plan.batch_id, 0, InlineEngine(), lambda line: None)
        steps.verify(plan.batch_id)
        with pytest.raises(ConflictError, match="a second file holds records"):
            steps.commit(plan.batch_id)
        done = shardlake.json("abandon", "p", "--shard", "shardId-000000000000", *WHY)
        assert done["removed"] == [str(late.relative_to(world.root / "lake"))]
        assert shardlake("run", "p", "--until-caught-up").exit_code == 0
        world.assert_every_record_is_there_once()

    def test_it_asks_first_and_shows_what_would_go(
        self, world: World, shardlake: CommandLine, open_run: tuple[Steps, str]
    ) -> None:
        before = (world.files(), rows(world))
        result = shardlake("abandon", "p", "--shard", "shardId-000000000000")
        assert result.exit_code == 1
        assert f"to be removed: {files(world)[-1]}" in result.stderr
        assert "Give up this range and 1 file?" in result.stderr
        assert (world.files(), rows(world)) == before

    @pytest.mark.parametrize("when", ["the question is asked", "the files are looked up"])
    def test_a_range_that_is_committed_meanwhile_keeps_its_file(
        self,
        world: World,
        shardlake: CommandLine,
        open_run: tuple[Steps, str],
        monkeypatch: pytest.MonkeyPatch,
        when: str,
    ) -> None:
        """Kills: removing files before the ledger has said, under its lock, that the range is open."""
        steps, batch = open_run
        before = world.files()
        place = (
            "shardlake.cli.abandon.confirmed" if when == "the question is asked" else "shardlake.abandon.require_owner"
        )

        def commit(*_: object) -> str:
            steps.verify(batch)
            steps.commit(batch)
            return "why"

        monkeypatch.setattr(place, commit)
        result = shardlake("abandon", "p", "--shard", "shardId-000000000000", *WHY)
        assert result.exit_code == 4
        assert "cannot be abandoned" in result.stderr
        assert world.files() == before
        assert [row.state for row in rows(world)] == ["committed"] * 3
        assert ledger(world).journal("p") == []

    def test_a_range_planned_anew_while_it_is_committed_keeps_open_without_its_file(
        self, world: World, shardlake: CommandLine, open_run: tuple[Steps, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Kills: a commit that takes the range of another run for the one whose file it has looked at."""
        steps, batch = open_run
        range_ = rows(world)[-1].range
        steps.verify(batch)
        still_holds = ParquetSink.still_holds

        def and_then_planned_anew(*arguments: Any) -> bool:
            holds = still_holds(*arguments)
            shardlake.json("abandon", "p", "--shard", range_.shard_id, *WHY)
            steps.plan(Run("dag", "run-4"))
            return holds

        with monkeypatch.context() as patch:
            patch.setattr(ParquetSink, "still_holds", and_then_planned_anew)
            with pytest.raises(ConflictError, match=f"{range_} cannot be committed: expected the range as it was"):
                steps.commit(batch)
        assert [(row.range, row.state) for row in rows(world)][-1] == (range_, "planned")
        assert shardlake("run", "p", "--until-caught-up").exit_code == 0
        world.assert_every_record_is_there_once()

    @pytest.mark.parametrize(
        ("shard", "said"),
        [("shardId-000000000000", "has no open range"), ("shardId-9", "the ledger knows no shard"), ("..", "no shard")],
    )
    def test_there_must_be_an_open_range(self, world: World, shardlake: CommandLine, shard: str, said: str) -> None:
        result = shardlake("abandon", "p", "--shard", shard, *WHY)
        assert result.exit_code == 2
        assert said in result.stderr

    def test_interrupted_between_file_and_ledger_the_range_is_read_again(
        self, world: World, shardlake: CommandLine, open_run: tuple[Steps, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("shardlake.ledger.journal.append", killed)
            assert shardlake("abandon", "p", "--shard", "shardId-000000000000", *WHY).exit_code == 130
        assert len(files(world)) == 2
        assert shardlake("run", "p", "--until-caught-up").exit_code == 0
        world.assert_every_record_is_there_once()
        assert ledger(world).journal("p") == []


def test_the_journal_tells_who_did_what_when_and_why(world: World, shardlake: CommandLine) -> None:
    assert shardlake.lines("journal", "p") == []
    files(world)[0].unlink()
    shardlake.json("repair", "p", *WHY)
    (entry,) = json.loads(shardlake("journal", "p", "--json").stdout)
    assert entry["action"] == "repair"
    assert entry["namespace"] == "live"
    (line,) = shardlake.lines("journal", "p")
    assert line.endswith(
        f"{entry['who']}  repair  live  shardId-000000000000 {entry['start']} through {entry['through']}: disk lost it"
    )


@pytest.mark.parametrize("command", ["repair", "abandon"])
def test_another_ones_dataset_is_left_alone(
    world: World, shardlake: CommandLine, command: str, make_world: Callable[..., Any]
) -> None:
    owner = world.root / "lake" / "_shardlake" / "owner.json"
    owner.write_text(owner.read_text().replace('"pipeline": "p"', '"pipeline": "other"'))
    files(world)[0].unlink()
    more = ("--shard", "shardId-000000000000") if command == "abandon" else ()
    if command == "abandon":
        world.produce(10)
        store = ledger(world)
        steps = Steps(world.pipeline, store)
        owner_text = owner.read_text()
        owner.write_text(owner_text.replace('"pipeline": "other"', '"pipeline": "p"'))
        steps.plan(Run("dag", "run-3"))
        owner.write_text(owner_text)
    result = shardlake(command, "p", *more, *WHY)
    assert result.exit_code == 4
    assert "the dataset belongs to another pipeline" in result.stderr
    assert len(files(world)) == 1
    assert ledger(world).journal("p") == []


def test_a_repair_by_another_code_version_may_write_other_bytes_of_the_same_rows(
    world: World, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = files(world)
    before = first.read_bytes()
    first.unlink()
    monkeypatch.setattr("shardlake.__version__", "9.99.999")
    shardlake.json("repair", "p", *WHY)
    assert len(first.read_bytes()) != len(before)
    assert shardlake.json("audit", "p")["findings"] == []
    assert shardlake.json("repair", "p", *WHY)["repaired"] == []
