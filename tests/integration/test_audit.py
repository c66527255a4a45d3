"""Every planted corruption is found, named, and told by the exit code; what is whole is not complained about."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardlake.batch import Steps
from shardlake.config import load_pipeline
from shardlake.errors import UnavailableError
from shardlake.ledger import open_ledger
from shardlake.plan import Run
from support.command_line import CommandLine, entry_of, write_config
from support.inline_engine import InlineEngine
from support.lakes import PLACES, Lake

if TYPE_CHECKING:
    from tests.integration.conftest import World

SHARD_0 = "shardId-000000000000"

pytestmark = pytest.mark.parametrize("bucket", PLACES, indirect=True)


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(2)


@pytest.fixture
def shardlake(world: World, tmp_path: Path) -> CommandLine:
    """A pipeline that has read 100 records of two shards in two batches."""
    shardlake = write_config(tmp_path / "pipelines.yaml", p=entry_of(world))
    for _ in range(2):
        world.produce(50)
        shardlake.lines("run", "p")
    return shardlake


@pytest.fixture
def lake(world: World) -> Lake:
    return world.lake


@pytest.fixture
def file(shardlake: CommandLine, lake: Lake) -> str:
    """The key of the first committed file."""
    return files(shardlake, lake)[0]


def files(shardlake: CommandLine, lake: Lake) -> list[str]:
    """The keys of the committed files."""
    return [url.removeprefix(f"{lake.dataset}/") for url in shardlake.lines("files", "p")]


def size(lake: Lake, file: str) -> int:
    return len(lake.read(file))


def beside(file: str, name: str) -> str:
    return f"{file.rpartition('/')[0]}/{name}"


def finding(shardlake: CommandLine, exit_code: int = 4) -> dict[str, str]:
    """The only finding of an audit."""
    (found,) = shardlake.json("audit", "p", exit_code=exit_code)["findings"]
    return dict(found)


def rewrite(lake: Lake, file: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a file's rows and keep its footer's facts, as somebody with a Parquet library could."""
    parquet = pq.ParquetFile(pa.BufferReader(lake.read(file)))
    changed = change(parquet.read()).replace_schema_metadata(parquet.metadata.metadata)
    written = pa.BufferOutputStream()
    pq.write_table(changed, written, compression="zstd")
    lake.write(file, written.getvalue().to_pybytes())


def with_another_first_record(rows: pa.Table) -> pa.Table:
    return rows.set_column(6, rows.field(6), [[b"x", *rows[6].to_pylist()[1:]]])


@pytest.fixture
def edit_ledger(world: World) -> Callable[[str], None]:
    """Runs SQL on the ledger, its guards dropped."""

    def edit(statement: str) -> None:
        with closing(sqlite3.connect(world.root / "ledger.db", isolation_level=None)) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute("PRAGMA ignore_check_constraints = on")
            assert connection.execute(statement).rowcount == 1

    return edit


FIRST = f"shard_id = '{SHARD_0}' AND start_kind = 'AT'"
ENDS = ("through", "through_key")
LAST = f"shard_id = '{SHARD_0}' AND start_kind = 'AFTER'"


class TestWhole:
    def test_agrees_with_itself(self, shardlake: CommandLine, world: World) -> None:
        size = sum(len(content) for content in world.files().values())
        assert shardlake.lines("audit", "p") == [
            f"4 committed ranges, 100 rows, {size / 1024:.1f} KiB: ledger, file and stream agree"
        ]
        assert shardlake.json("audit", "p") == {
            "pipeline": "p",
            "ranges": 4,
            "rows": 100,
            "bytes": size,
            "not_retained": 0,
            "lost": 0,
            "findings": [],
        }

    def test_agrees_across_a_reshard_and_with_a_shards_end_without_records(
        self, shardlake: CommandLine, world: World
    ) -> None:
        world.split(0)
        world.produce(50)
        shardlake.lines("run", "p", "--until-caught-up")
        audited = shardlake.json("audit", "p")
        assert (audited["rows"], audited["findings"]) == (150, [])

    def test_leaves_out_what_the_stream_no_longer_retains(self, shardlake: CommandLine, world: World) -> None:
        world.trim(shard=0)
        audited = shardlake.json("audit", "p")
        assert (audited["ranges"], audited["not_retained"], audited["findings"]) == (4, 2, [])
        (line,) = shardlake.lines("audit", "p")
        assert line.endswith(
            "ledger, file and stream agree (of 2 the stream no longer retains the records: ledger and file agree)"
        )

    def test_does_not_mind_a_published_file_of_an_open_range(self, shardlake: CommandLine, world: World) -> None:
        world.produce(20)
        pipeline = load_pipeline(shardlake.config, "p")
        steps = Steps(pipeline, open_ledger(pipeline.ledger_url))
        plan = steps.plan(Run("dag", "killed after ingest"))
        steps.ingest(plan.batch_id, 0, InlineEngine(), lambda line: None)
        audited = shardlake.json("audit", "p")
        assert (audited["ranges"], audited["findings"]) == (4, [])

    def test_counts_what_was_declared_lost(self, make_world: Callable[..., World], tmp_path: Path) -> None:
        world = make_world(1)
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world, on_data_loss="skip"))
        world.put(b"read")
        shardlake.lines("run", "p")
        world.put(b"lost")
        world.trim()
        world.put(b"left")
        shardlake.lines("run", "p", "--until-caught-up")
        audited = shardlake.json("audit", "p")
        assert (audited["ranges"], audited["rows"], audited["lost"], audited["findings"]) == (2, 2, 1, [])

    def test_of_a_pipeline_that_never_ran_finds_nothing(self, make_world: Callable[..., World], tmp_path: Path) -> None:
        world = make_world(1)
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world))
        assert shardlake.lines("audit", "p") == ["0 committed ranges, 0 rows, 0 B: ledger, file and stream agree"]
        assert list(world.root.iterdir()) == []


class TestFiles:
    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(
                lambda rows: rows.set_column(6, rows.field(6), [[b"x", *rows[6].to_pylist()[1:]]]), id="changed"
            ),
            pytest.param(lambda rows: rows.slice(1), id="dropped"),
            pytest.param(lambda rows: pa.concat_tables([rows, rows.slice(rows.num_rows - 1)]), id="doubled"),
            pytest.param(lambda rows: rows.take(pa.array([1, 0, *range(2, rows.num_rows)])), id="swapped"),
        ],
    )
    def test_a_row_that_is(
        self,
        shardlake: CommandLine,
        lake: Lake,
        file: str,
        edit_ledger: Callable[[str], None],
        change: Callable[[pa.Table], pa.Table],
    ) -> None:
        rewrite(lake, file, change)
        edit_ledger(f"UPDATE shardlake_ranges SET bytes = {size(lake, file)} WHERE {FIRST}")
        found = finding(shardlake)
        assert found["path"] == file
        assert found["kind"] in ("differs", "damaged")  # damaged: also the footer's count does not hold
        result = shardlake("audit", "p")
        assert result.exit_code == 4
        assert result.stderr == "Error: the audit of p has 1 finding\n"
        assert result.stdout.splitlines()[0] == f"{found['kind']}: {found['message']}"

    def test_a_changed_row_is_blamed_on_the_file(
        self, shardlake: CommandLine, lake: Lake, file: str, edit_ledger: Callable[[str], None]
    ) -> None:
        rewrite(lake, file, lambda rows: rows.take(pa.array([1, 0, *range(2, rows.num_rows)])))
        edit_ledger(f"UPDATE shardlake_ranges SET bytes = {size(lake, file)} WHERE {FIRST}")
        assert "the file has" in finding(shardlake)["message"]

    def test_of_another_size(self, shardlake: CommandLine, lake: Lake, file: str) -> None:
        content = lake.read(file)
        lake.write(file, content + content[-8:])
        found = finding(shardlake)
        assert (found["kind"], found["path"]) == ("damaged", file)

    def test_truncated(self, shardlake: CommandLine, lake: Lake, file: str) -> None:
        lake.write(file, lake.read(file)[:-100])
        found = finding(shardlake)
        assert (found["kind"], found["path"]) == ("damaged", file)
        assert "the stream still has its" in found["message"]

    def test_with_a_flipped_bit_in_its_rows(self, shardlake: CommandLine, lake: Lake, file: str) -> None:
        content = bytearray(lake.read(file))
        content[200] ^= 1
        lake.write(file, bytes(content))
        assert finding(shardlake)["path"] == file

    def test_missing(self, shardlake: CommandLine, lake: Lake, file: str) -> None:
        lake.delete(file)
        found = finding(shardlake)
        assert (found["kind"], found["path"]) == ("missing", file)
        assert "is not there; the stream still has its" in found["message"]

    def test_missing_and_no_longer_retained_is_loss(
        self, shardlake: CommandLine, world: World, lake: Lake, file: str
    ) -> None:
        lake.delete(file)
        world.trim(shard=0)
        found = finding(shardlake, exit_code=3)
        assert (found["kind"], found["path"]) == ("lost", file)
        assert "and the stream no longer retains its" in found["message"]

    def test_from_another_range(self, shardlake: CommandLine, lake: Lake, file: str) -> None:
        lake.write(file, lake.read(files(shardlake, lake)[1]))
        found = finding(shardlake)
        assert (found["kind"], found["path"]) == ("damaged", file)
        assert "is of another range" in found["message"]

    @pytest.mark.parametrize(
        "name",
        [
            *("part-0.parquet", ".hidden", f"{'0' * 56}-{'1' * 56}.parquet"),
            pytest.param(f"{'0' * 56}-{'9' * 56}.parquet", id="begins before every range and reaches over all"),
        ],
    )
    def test_stray(self, shardlake: CommandLine, lake: Lake, file: str, name: str) -> None:
        stray = beside(file, name)
        lake.write(stray, lake.read(file))
        found = finding(shardlake)
        assert (found["kind"], found["path"]) == ("stray", stray)

    def test_stray_in_the_folder_of_a_shard_that_nobody_knows(self, shardlake: CommandLine, lake: Lake) -> None:
        lake.write("data/shard_id=shardId-9/x.parquet", b"")
        assert finding(shardlake)["path"] == "data/shard_id=shardId-9/x.parquet"

    def test_stray_beside_the_folders_of_shards(self, shardlake: CommandLine, lake: Lake) -> None:
        lake.write("data/_SUCCESS", b"")
        assert finding(shardlake)["path"] == "data/_SUCCESS"

    def test_every_file_gone_is_a_finding_each(self, shardlake: CommandLine, lake: Lake) -> None:
        for key in files(shardlake, lake):
            lake.delete(key)
        audited = shardlake.json("audit", "p", exit_code=4)
        assert [found["kind"] for found in audited["findings"]] == ["missing"] * 4

    def test_owner_gone(self, shardlake: CommandLine, lake: Lake) -> None:
        lake.delete("_shardlake/owner.json")
        found = finding(shardlake)
        assert (found["kind"], found["path"]) == ("missing", "_shardlake/owner.json")


class TestLedger:
    @pytest.mark.parametrize("change", ["rows = rows + 1", "checksum = 'ab'"])
    def test_another_count_or_checksum(
        self, shardlake: CommandLine, file: str, edit_ledger: Callable[[str], None], change: str
    ) -> None:
        edit_ledger(f"UPDATE shardlake_ranges SET {change} WHERE {FIRST}")
        found = finding(shardlake)
        assert (found["kind"], found["path"]) == ("differs", file)
        assert "the ledger says" in found["message"]
        assert "file and stream have" in found["message"]

    def test_another_size(self, shardlake: CommandLine, edit_ledger: Callable[[str], None]) -> None:
        edit_ledger(f"UPDATE shardlake_ranges SET bytes = 7 WHERE {FIRST}")
        assert "expected 7 bytes" in finding(shardlake)["message"]

    @pytest.mark.parametrize("which", [FIRST, LAST])
    def test_another_end(self, shardlake: CommandLine, edit_ledger: Callable[[str], None], which: str) -> None:
        digit = "CASE substr({0}, -1) WHEN '5' THEN '4' ELSE '5' END"
        through, key = (f"substr({name}, 1, length({name}) - 1) || {digit.format(name)}" for name in ENDS)
        edit_ledger(f"UPDATE shardlake_ranges SET through = {through}, through_key = {key} WHERE {which}")
        kinds = {one["kind"] for one in shardlake.json("audit", "p", exit_code=4)["findings"]}
        assert {"missing", "stray"} <= kinds
        assert ("gap" in kinds) == (which == FIRST)

    def test_another_first_record(self, shardlake: CommandLine, edit_ledger: Callable[[str], None]) -> None:
        edit_ledger(f"UPDATE shardlake_ranges SET anchor = through WHERE {FIRST}")
        found = finding(shardlake)
        assert found["kind"] == "differs"
        assert "the stream has 1 rows" in found["message"]

    def test_a_row_gone(self, shardlake: CommandLine, file: str, edit_ledger: Callable[[str], None]) -> None:
        edit_ledger(f"DELETE FROM shardlake_ranges WHERE {FIRST}")
        found = finding(shardlake)
        assert (found["kind"], found["path"]) == ("stray", file)


class TestStream:
    def test_that_does_not_answer_is_told_apart(self, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        def read(*_: Any, **__: Any) -> Iterator[Any]:
            raise UnavailableError("no record for 600 s")
            yield

        monkeypatch.setattr("shardlake.audit.read_range", read)
        audited = shardlake.json("audit", "p", exit_code=1)
        assert [found["kind"] for found in audited["findings"]] == ["unread"] * 4
        assert audited["findings"][0]["message"].endswith("was not compared with the stream: no record for 600 s")

    def test_that_may_not_be_read_ends_the_audit(self, shardlake: CommandLine, world: World) -> None:
        world.control(deny=["GetRecords"])
        result = shardlake("audit", "p", "--json")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("Error: no access: GetRecords on stream")

    def test_made_anew_under_its_name_is_refused(self, shardlake: CommandLine, world: World) -> None:
        world.client.delete_stream(StreamName=world.stream)
        world.client.create_stream(StreamName=world.stream, ShardCount=2)
        result = shardlake("audit", "p")
        assert (result.exit_code, result.stdout) == (4, "")
        assert "the stream was deleted and made anew under its name" in result.stderr
