"""Aggregates from the stream to the dataset: every user record once, and what cannot be unpacked beside the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardlake.batch import Steps
from shardlake.errors import ConflictError, IngestError
from shardlake.kinesis.page import Page
from shardlake.kinesis.reader import read_range
from shardlake.lake.footer import read_footer
from shardlake.lake.home import Home
from shardlake.lake.parquet import write_range
from shardlake.ledger import open_ledger
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import LIVE, FileKey
from shardlake.plan import BatchPlan, Run
from shardlake.ranges import SequenceNumber, SequenceRange, Start
from shardlake.sinks.parquet import ParquetSink
from support.aggregates import User, aggregate_of, protobuf, sealed
from support.command_line import CommandLine, entry_of, write_config
from support.effects import Effects
from support.inline_engine import InlineEngine
from support.lakes import PLACES

if TYPE_CHECKING:
    from tests.integration.conftest import World

EVERYWHERE = pytest.mark.parametrize("bucket", PLACES, indirect=True)

WHY = ("--reason", "disk lost it", "--yes")


def lower(key: bytes) -> bool:
    """Whether a partition key's MD5 is in the lower half of the hash keys."""
    return md5(key, usedforsecurity=False).digest()[0] < 128


MINE, OTHERS = (next(b"%d" % n for n in range(99) if lower(b"%d" % n) is half) for half in (True, False))

GOOD = sealed(protobuf([MINE], [User(0, b"a"), User(0, b"b", hash_key=0)], [b"7"]))
MIXED = sealed(protobuf([MINE, OTHERS], [User(0, b"in"), User(1, b"out")]))
BAD = sealed(protobuf([MINE], [User(0, b"lost?"), User(3, b"x")]))
RECORDS = (b"first", GOOD, MIXED, BAD, b"last")

OF_INDEX = "an index that lies outside of its table of keys"
OF_SHARD = "a user record outside of the shard's range of hash keys"

BY_MODE: dict[str, tuple[list[bytes], list[tuple[bytes, str]], int]] = {
    "keep": ([b"first", b"a", b"b", b"in", b"out", b"last"], [(BAD, OF_INDEX)], 0),
    "drop": ([b"first", b"a", b"b", b"last"], [(BAD, OF_INDEX)], 1),
    "quarantine": ([b"first", b"a", b"b", b"last"], [(MIXED, OF_SHARD), (BAD, OF_INDEX)], 0),
}
"""What of `RECORDS` is in data/, what in quarantine/, and how many are dropped."""


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A stream of two shards, of which the first one is used: it has the lower half of the hash keys."""
    return make_world(2)


def tables(world: World, place: str) -> list[dict[str, Any]]:
    """The rows below a folder, file after file."""
    files = (world.lake.read(key) for key in world.lake.keys(f"{place}/"))
    return [row for file in files for row in pq.read_table(pa.BufferReader(file)).to_pylist()]


def data(world: World) -> list[bytes]:
    return [row["data"] for row in tables(world, "data")]


def aside(world: World) -> list[tuple[bytes, str]]:
    return [(row["data"], row["reason"]) for row in tables(world, "quarantine")]


def keys(world: World) -> list[str]:
    return [*world.lake.keys("data/"), *world.lake.keys("quarantine/")]


@EVERYWHERE
@pytest.mark.parametrize("mode", BY_MODE)
class TestModes:
    def test_decide_what_is_data_and_what_is_quarantined(self, world: World, mode: str) -> None:
        """Kills: one mode taken for another; quarantine rows without the raw record; counts that are not told."""
        world.settings["aggregates"] = mode
        numbers = world.put(*RECORDS)
        lines: list[str] = []
        plan, committed = world.steps.run(Run("dag", "run-1"), InlineEngine(), lines.append)
        rows, quarantined, dropped = BY_MODE[mode]
        assert (data(world), aside(world)) == (rows, quarantined)
        assert committed is not None
        assert committed.rows == len(rows)
        (range_,) = plan.ranges
        key = FileKey.of(range_)
        assert keys(world) == [key.path, key.quarantine]
        bad = tables(world, "quarantine")[-1]
        assert (bad["sequence_number"], bad["partition_key"], bad["stream"]) == (numbers[3].text, "k", world.stream)
        (report,) = json.loads(world.lake.read(f"_shardlake/batches/{plan.batch_id}/report-0000.json"))
        counts = (len(RECORDS), len(rows), len(quarantined), dropped)
        assert tuple(report[name] for name in ("records", "rows", "quarantined", "dropped")) == counts
        footer = read_footer(world.home, key.path)
        assert (footer.records, footer.rows, footer.quarantined, footer.dropped) == counts
        assert footer.aggregates == mode
        assert lines[-1] == (
            f"published 1 of 1 ranges: 5 records of the stream, {len(rows)} user records in data/;"
            f" {len(quarantined)} records in quarantine/, {dropped} dropped"
        )

    def test_the_same_range_gives_the_same_bytes_whatever_pages_come(self, world: World, mode: str) -> None:
        world.settings["aggregates"] = mode
        world.put(*RECORDS * 3)
        plan, found = world.plan(), []
        for page_limit in (None, 1, 4):
            world.control(page_limit=page_limit)
            world.steps.ingest(plan.batch_id, 0, InlineEngine(), lambda line: None)
            found.append({key: world.lake.read(key) for key in keys(world)})
            for key in keys(world):
                world.lake.delete(key)
        assert found == [found[0]] * 3
        assert len(found[0]) == 2


@EVERYWHERE
def test_user_records_have_their_own_keys_and_numbers(world: World) -> None:
    numbers = world.put(GOOD)
    world.run()
    names = ("sequence_number", "sub_sequence_number", "partition_key", "explicit_hash_key", "data")
    assert [tuple(row[name] for name in names) for row in tables(world, "data")] == [
        (numbers[0].text, 0, MINE.decode(), None, b"a"),
        (numbers[0].text, 1, MINE.decode(), "7", b"b"),
    ]
    assert keys(world) == world.lake.keys("data/")  # nothing to quarantine, so no such file


@pytest.mark.parametrize("page_limit", [None, 1])
def test_an_aggregate_at_a_ranges_end_is_never_split(world: World, page_limit: int | None) -> None:
    """Kills: `through` taken for a position within the aggregate, at its end or at the next range's start."""
    world.put(b"first", GOOD)
    plan = world.plan()
    world.put(aggregate_of(b"c", b"d"), b"last")
    world.control(page_limit=page_limit)
    world.run()
    assert data(world) == [b"first", b"a", b"b"]
    (range_,) = plan.ranges
    assert world.chain().position == Start("AFTER", SequenceNumber(str(range_.through)))
    world.run_until_caught_up()
    assert data(world) == [b"first", b"a", b"b", b"c", b"d", b"last"]


def test_a_plan_pinned_by_earlier_code_is_finished_as_it_was_begun(world: World, tmp_path: Path) -> None:
    """Kills: such a range unpacked, so that two attempts at it differ; the audit that unpacks what is not."""
    shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world))
    world.put(*RECORDS)
    ledger = open_ledger(f"sqlite:///{world.root}/ledger.db")
    steps, pin = Steps(world.pipeline, ledger), ledger.pin

    def as_before(draft: BatchPlan, *more: Any) -> str:
        return pin(replace(draft, aggregates=None, hash_ranges=()), *more)

    ledger.pin = as_before  # type: ignore[assignment,method-assign]
    steps.run(Run("dag", "run-1"), InlineEngine(), lambda line: None)
    assert (data(world), aside(world)) == (list(RECORDS), [])
    assert shardlake.json("audit", "p")["findings"] == []


def clean_run(world: World, effects: Effects, last: int | None) -> None:
    with effects.until(last):
        world.run("run-1")


@pytest.mark.slow
@EVERYWHERE
@pytest.mark.parametrize("then", ["quarantine", "keep"])
@pytest.mark.parametrize("run", ["run-1", "run-2"])
def test_interrupted_between_any_two_effects_every_record_is_in_one_place(
    world: World, effects: Effects, run: str, then: str
) -> None:
    """Also where the configuration says another mode afterwards.

    Kills: data published before its quarantine; the quarantine of a dead attempt forgotten, or taken for a conflict;
    the mode of the second attempt used beside the quarantine of the first.
    """
    world.put(*RECORDS)
    root = world.root

    def fresh(name: str) -> World:
        (root / name).mkdir(parents=True)
        return replace(world, root=root / name, ledger=MemoryLedger(), settings={"aggregates": "quarantine"})

    world_ = fresh("clean")
    clean_run(world_, effects, None)
    clean, seen = list(effects.done), set()
    for last in range(len(clean) + 1):
        world_ = fresh(f"interrupted-{last}")
        clean_run(world_, effects, last)
        seen.add((bool(world_.lake.keys("quarantine/")), bool(world_.lake.keys("data/"))))
        world_.settings["aggregates"] = then
        world_.run(run)
        world_.run_until_caught_up()
        rows, quarantined, _ = BY_MODE["quarantine" if aside(world_)[0][0] == MIXED else "keep"]
        assert (data(world_), aside(world_)) == (rows, quarantined)
        (row,) = world_.ledger.ranges("p", LIVE, state="committed")
        assert keys(world_) == [FileKey.of(row.range).path, FileKey.of(row.range).quarantine]
        assert world_.home.names("_shardlake/tmp") == []
    assert seen == {(False, False), (True, False), (True, True)}


@EVERYWHERE
class TestAtOnce:
    def attempt(
        self, world: World, plan: BatchPlan, meanwhile: Callable[[], object]
    ) -> tuple[ParquetSink, SequenceRange, Callable[[], Iterator[Page]]]:
        (range_,) = plan.ranges

        def read() -> Iterator[Page]:
            yield from read_range(world.kinesis, range_, 86_400_000)
            meanwhile()

        return ParquetSink(world.home), range_, read

    @pytest.mark.parametrize("overtaken", ["before its last look", "after it"])
    def test_a_zombie_of_another_mode_leaves_no_quarantine_beside_data_that_has_none(
        self, world: World, monkeypatch: pytest.MonkeyPatch, overtaken: str
    ) -> None:
        """Kills: a quarantine file that stays though the records in it are in data/ as well."""
        world.put(b"first", MIXED)
        kept = world.plan()
        plan = replace(kept, aggregates="quarantine")
        home = type(world.home)
        publish = home.publish

        def successor() -> None:
            world.steps.ingest(kept.batch_id, 0, InlineEngine(), lambda line: None)

        def late(self: Home, temporary: Path, key: str) -> bool:
            monkeypatch.setattr(home, "publish", publish)
            successor()
            return publish(self, temporary, key)

        if overtaken == "after it":
            monkeypatch.setattr(home, "publish", late)
        sink, range_, read = self.attempt(
            world, plan, successor if overtaken == "before its last look" else lambda: None
        )
        published = sink.write(plan, range_, read)
        assert (published.quarantined, data(world), aside(world)) == (0, [b"first", b"in", b"out"], [])

    def test_an_attempt_of_another_mode_that_comes_second_publishes_nothing(self, world: World) -> None:
        """Kills: a quarantine adopted whatever is in it."""
        world.put(*RECORDS)
        plan = world.plan()
        first, later = replace(plan, aggregates="quarantine"), replace(plan, aggregates="keep")

        def only_quarantine() -> None:
            sink, range_, read = self.attempt(world, first, lambda: None)
            sink.write(first, range_, read)
            world.lake.delete(FileKey.of(range_).path)

        sink, range_, read = self.attempt(world, later, only_quarantine)
        with pytest.raises(IngestError, match="another attempt has begun to publish"):
            sink.write(later, range_, read)
        assert world.lake.keys("data/") == []
        world.run("run-1")
        assert (data(world), aside(world)) == BY_MODE["quarantine"][:2]


@EVERYWHERE
class TestVerify:
    @pytest.fixture
    def published(self, world: World) -> BatchPlan:
        """A range that is published, with its quarantine, and not committed."""
        world.put(*RECORDS)
        plan = world.plan()
        world.steps.ingest(plan.batch_id, 0, InlineEngine(), lambda line: None)
        return plan

    def found(self, world: World, plan: BatchPlan) -> object:
        (found,) = world.steps.verify(plan.batch_id).values()
        return found

    def test_the_quarantine_has_to_be_there(self, world: World, published: BatchPlan) -> None:
        """Kills: verify that looks at the data alone."""
        (quarantine,) = world.lake.keys("quarantine/")
        world.lake.delete(quarantine)
        found = self.found(world, published)
        assert isinstance(found, ConflictError)
        assert "the quarantine of range" in str(found)
        with pytest.raises(ConflictError, match="is not there"):
            world.steps.commit(published.batch_id)
        assert list(world.ledger.ranges("p", LIVE, state="committed")) == []

    def test_and_has_to_be_the_one_that_the_data_speaks_of(self, world: World, published: BatchPlan) -> None:
        """Kills: any file of that name accepted."""
        (quarantine,), (file,) = world.lake.keys("quarantine/"), world.lake.keys("data/")
        for content, said in ((world.lake.read(file), "is not the data file's"), (b"PAR1", "is damaged")):
            world.lake.write(quarantine, content)
            found = self.found(world, published)
            assert isinstance(found, ConflictError)
            assert said in str(found)

    def test_and_has_to_be_this_pipelines(self, world: World, published: BatchPlan, tmp_path: Path) -> None:
        """Kills: only the rows compared, not whose they are."""
        (quarantine,), (range_,) = world.lake.keys("quarantine/"), published.ranges
        pages = read_range(world.kinesis, range_, 86_400_000)
        write_range(tmp_path / "data", tmp_path / "aside", replace(published, pipeline="q"), range_, pages)
        world.lake.write(quarantine, (tmp_path / "aside").read_bytes())
        found = self.found(world, published)
        assert isinstance(found, ConflictError)
        assert f"the file {quarantine} is another's, pipeline" in str(found)

    def test_its_name_is_brought_to_disk_like_the_datas(
        self, world: World, published: BatchPlan, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Kills: no sync of the quarantine's folder, whose file another attempt may just have named."""
        synced: list[str] = []
        monkeypatch.setattr(type(world.home), "sync", lambda self, key: synced.append(key))
        self.found(world, published)
        key = FileKey.of(next(published.ranges))
        assert synced == [key.directory, key.quarantine_directory]

    def test_a_damaged_quarantine_of_a_dead_attempt_is_told_and_nothing_is_published(
        self, world: World, published: BatchPlan
    ) -> None:
        (quarantine,), (file,) = world.lake.keys("quarantine/"), world.lake.keys("data/")
        world.lake.delete(file)
        world.lake.write(quarantine, b"PAR1")
        with pytest.raises(ConflictError, match="is damaged"):
            world.steps.ingest(published.batch_id, 0, InlineEngine(), lambda line: None)
        assert world.lake.keys("data/") == []


@pytest.fixture
def shardlake(world: World, tmp_path: Path) -> CommandLine:
    """A pipeline that has committed a range with a quarantine, and then one without."""
    shardlake = write_config(tmp_path / "pipelines.yaml", p=entry_of(world, aggregates="quarantine"))
    world.put(*RECORDS)
    shardlake.lines("run", "p")
    world.put(b"more")
    shardlake.lines("run", "p")
    return shardlake


def changed(content: bytes) -> bytes:
    """A quarantine file with another row and its old footer."""
    file = pq.ParquetFile(pa.BufferReader(content))
    rows = file.read().replace_schema_metadata(file.metadata.metadata)
    written = pa.BufferOutputStream()
    pq.write_table(rows.set_column(4, rows.field(4), [[b"x"] * len(rows)]), written)
    return bytes(written.getvalue().to_pybytes())


DAMAGES = {"missing": lambda content: None, "damaged": lambda content: content[:-9], "changed": changed}


@EVERYWHERE
@pytest.mark.parametrize("damage", DAMAGES)
class TestDamage:
    @pytest.fixture
    def quarantine(self, world: World, shardlake: CommandLine, damage: str) -> str:
        """The key of the quarantine file that something has happened to."""
        key: str
        (key,) = world.lake.keys("quarantine/")
        content = DAMAGES[damage](world.lake.read(key))
        if content is None:
            world.lake.delete(key)
        else:
            world.lake.write(key, content)
        return key

    def test_is_found_by_the_audit(self, world: World, shardlake: CommandLine, quarantine: str, damage: str) -> None:
        """Kills: an audit that does not look at quarantines, or trusts their footers."""
        (found,) = shardlake.json("audit", "p", exit_code=4)["findings"]
        assert (found["kind"], found["path"]) == ("missing" if damage == "missing" else "damaged", quarantine)
        assert found["message"].endswith("the stream still has its records")

    def test_is_a_loss_where_the_stream_no_longer_retains_the_records(
        self, world: World, shardlake: CommandLine, quarantine: str
    ) -> None:
        world.trim()
        (found,) = shardlake.json("audit", "p", exit_code=3)["findings"]
        assert (found["kind"], found["path"]) == ("lost", quarantine)

    def test_is_repaired(self, world: World, shardlake: CommandLine, quarantine: str) -> None:
        """Kills: a repair that puts only the data back."""
        before = world.files()
        assert shardlake.json("repair", "p", *WHY)["repaired"] == [quarantine]
        assert (aside(world), world.files()) == (BY_MODE["quarantine"][1], before)
        assert shardlake.json("audit", "p")["findings"] == []


@EVERYWHERE
class TestByHand:
    def test_data_and_quarantine_gone_are_repaired_by_the_mode_that_was_planned(
        self, world: World, shardlake: CommandLine, tmp_path: Path
    ) -> None:
        """Kills: the configuration's mode of today used for what was committed by another."""
        before = {key: world.lake.read(key) for key in keys(world)}
        for key in world.lake.keys("quarantine/") + world.lake.keys("data/")[:1]:
            world.lake.delete(key)
        shardlake = write_config(tmp_path / "pipelines.yaml", p=entry_of(world, aggregates="keep"))
        findings = shardlake.json("audit", "p", exit_code=4)["findings"]
        assert [found["kind"] for found in findings] == ["missing"]
        assert "the stream still has its 4 rows" in findings[0]["message"]
        assert len(shardlake.json("repair", "p", *WHY)["repaired"]) == 1
        assert {key: world.lake.read(key) for key in keys(world)} == before
        assert shardlake.json("audit", "p")["findings"] == []

    @pytest.mark.parametrize("place", ["of a range that has none", "of no range", "of no shard"])
    def test_a_stray_quarantine_is_found(self, world: World, shardlake: CommandLine, place: str) -> None:
        (key,) = world.lake.keys("quarantine/")
        stray = {
            "of a range that has none": world.lake.keys("data/")[1].replace("data/", "quarantine/", 1),
            "of no range": f"{key.rpartition('/')[0]}/{'0' * 56}-{'1' * 56}.parquet",
            "of no shard": "quarantine/x.parquet",
        }[place]
        world.lake.write(stray, world.lake.read(key))
        (found,) = shardlake.json("audit", "p", exit_code=4)["findings"]
        assert (found["kind"], found["path"]) == ("stray", stray)

    @pytest.mark.parametrize("published", ["both", "quarantine alone"])
    def test_abandon_removes_the_quarantine_too(self, world: World, shardlake: CommandLine, published: str) -> None:
        """Kills: a quarantine left behind, which the next range, with another name, does not account for."""
        before = keys(world)
        world.put(*RECORDS)
        ledger = open_ledger(f"sqlite:///{world.root}/ledger.db")
        steps = Steps(world.pipeline, ledger)
        plan = steps.plan(Run("dag", "run-3"))
        steps.ingest(plan.batch_id, 0, InlineEngine(), lambda line: None)
        new = sorted(set(keys(world)) - set(before))
        assert len(new) == 2
        assert shardlake.json("audit", "p")["findings"] == []  # an open range's files are nobody's business yet
        if published != "both":
            world.lake.delete(new.pop(0))
            assert shardlake.json("audit", "p")["findings"] == []
        done = shardlake.json("abandon", "p", "--shard", "shardId-000000000000", *WHY)
        assert done["removed"] == new
        assert keys(world) == before
        world.put(b"behind")
        assert shardlake("run", "p", "--until-caught-up").exit_code == 0
        assert shardlake.json("audit", "p")["findings"] == []
        assert aside(world) == BY_MODE["quarantine"][1] * 2
