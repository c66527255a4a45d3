"""Bad input ends in one message that says what to do, with the right exit code, before anything is written."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from demo.ports import free_ports
from shardlake.kinesis.client import Kinesis
from support.command_line import CommandLine, entry_of, write_config

if TYPE_CHECKING:
    from tests.integration.conftest import World


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    world = make_world(1)
    world.put(b"record")
    return world


@pytest.fixture
def configured(world: World, tmp_path: Path) -> Callable[..., CommandLine]:
    """Makes the command line of a pipeline with something wrong in its entry."""

    def make(**more: Any) -> CommandLine:
        entry = {key: value for key, value in entry_of(world, **more).items() if value is not None}
        return write_config(tmp_path / "pipelines.yaml", p=entry)

    return make


def refusal(shardlake: CommandLine, *arguments: str) -> tuple[int, str]:
    """How a command is refused: its exit code and the one message."""
    result = shardlake(*(arguments or ("run", "p")))
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    prefix, _, said = result.stderr.partition("Error: ")
    assert prefix == ""
    return result.exit_code, said.rstrip("\n")


@pytest.fixture(autouse=True)
def nothing_written(world: World) -> Any:
    """No ledger and no dataset are there after a test that did not make them itself."""
    yield
    kept = world.root / "kept"
    assert kept.exists() or not world.root.exists() or list(world.root.iterdir()) == []


def keep(world: World) -> None:
    (world.root / "kept").touch()


def rows_of(ledger: Path) -> dict[str, int]:
    with closing(sqlite3.connect(ledger)) as connection:
        tables = ("pipelines", "shards", "chains", "ranges", "batches")
        return {name: connection.execute(f"SELECT count(*) FROM shardlake_{name}").fetchone()[0] for name in tables}


class TestConfiguration:
    def test_an_unknown_key(self, configured: Callable[..., CommandLine]) -> None:
        shardlake = configured(shedule="15m")
        code, said = refusal(shardlake)
        assert code == 2
        assert said.startswith(f"{shardlake.config}: pipeline 'p', key shedule: unknown; allowed: stream, region,")

    @pytest.mark.parametrize("url", ["mysql://host/ledger", "ledger.db", "postgresql://user@host/ledger"])
    def test_a_bad_ledger_url(self, configured: Callable[..., CommandLine], url: str) -> None:
        code, said = refusal(configured(ledger=url))
        assert code == 2
        assert "pipeline 'p', key ledger: found " in said
        assert "allowed: sqlite:///<file>, postgresql+psycopg://<user>@<host>/<database>, or airflow://" in said

    def test_a_ledger_url_that_sqlalchemy_cannot_read(self, configured: Callable[..., CommandLine]) -> None:
        code, said = refusal(configured(ledger="postgresql+psycopg://user@host:port/ledger"))
        assert (code, said) == (
            2,
            "the ledger's URL cannot be read. Write sqlite:////absolute/path.db or"
            " postgresql+psycopg://user@host/database",
        )

    @pytest.mark.parametrize("url", ["localhost:4567", "http://user:hunter2@localhost", "http://localhost:99999"])
    def test_a_bad_endpoint(self, configured: Callable[..., CommandLine], url: str) -> None:
        code, said = refusal(configured(endpoint_url=url))
        assert code == 2
        assert "key endpoint_url: found 'http" in said or "key endpoint_url: found 'localhost:4567'" in said
        assert "allowed: http(s)://<host>[:<port>] without a user or a path, or null" in said
        assert "hunter2" not in said

    @pytest.mark.parametrize("name", ["../../etc", "p/../../x", "p\nq", "-p", "é", "a" * 65, "${HOME}", ""])
    def test_a_hostile_pipeline_name(self, world: World, tmp_path: Path, name: str) -> None:
        shardlake = write_config(tmp_path / "p.yaml", **{name: entry_of(world)})
        code, said = refusal(shardlake, "run", "--", name)
        assert code == 2
        assert said == (
            f"{shardlake.config}: pipeline {name[:80]!r}: its name: expected up to 64 letters, digits, - and _,"
            " first a letter or digit"
        )

    @pytest.mark.parametrize("name", ["../../etc", "p; rm -rf /", "\t"])
    def test_a_hostile_name_on_the_command_line(self, configured: Callable[..., CommandLine], name: str) -> None:
        code, said = refusal(configured(), "run", name)
        assert code == 2
        assert f"there is no pipeline {name!r}: found p" in said

    def test_no_file(self, tmp_path: Path) -> None:
        code, said = refusal(CommandLine(tmp_path / "none.yaml"))
        assert (code, said) == (
            2,
            f"{tmp_path}/none.yaml: cannot be read (No such file or directory). Name a file with --config or"
            " SHARDLAKE_CONFIG",
        )


class TestStream:
    def test_that_is_not_there(self, configured: Callable[..., CommandLine], world: World) -> None:
        code, said = refusal(configured(stream="other"))
        assert code == 2
        assert said == (
            f"stream other is not there, at {world.server.endpoint_url}: found Stream other under account"
            " 000000000000 not found. Check stream, region and account"
        )

    def test_in_another_region(self, configured: Callable[..., CommandLine], world: World) -> None:
        code, said = refusal(configured(region="eu-west-1"))
        assert code == 2
        assert said.startswith(f"stream {world.stream} is not there, at {world.server.endpoint_url}")
        assert said.endswith("Check stream, region and account")

    def test_whose_arn_is_of_another_region(self, configured: Callable[..., CommandLine]) -> None:
        code, said = refusal(configured(stream="arn:aws:kinesis:eu-west-1:123456789012:stream/s"))
        assert code == 2
        assert said.endswith("pipeline 'p': key region is us-east-1, but the stream's ARN is in eu-west-1")

    def test_in_a_region_that_does_not_exist(self, configured: Callable[..., CommandLine]) -> None:
        code, said = refusal(configured(region="nowhere"))
        assert code == 2
        assert "key region: found 'nowhere'; allowed: a region's code, like eu-west-1" in said

    @pytest.mark.parametrize("operation", ["DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"])
    def test_that_may_not_be_read(self, configured: Callable[..., CommandLine], world: World, operation: str) -> None:
        world.control(deny=[operation])
        code, said = refusal(configured())
        assert code == 2
        assert said.startswith(f"no access: {operation} on stream {world.stream}: AccessDeniedException: User:")
        assert said.endswith(
            "Grant kinesis:DescribeStreamSummary, ListShards, GetShardIterator and GetRecords on the stream"
        )

    def test_without_credentials(
        self, configured: Callable[..., CommandLine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

        def with_a_session_of_its_own(stream: str, region: str, url: str | None, session: None, role: None) -> Kinesis:
            return Kinesis(stream, region, url, session=boto3.Session())

        monkeypatch.setattr("shardlake.batch.Kinesis", with_a_session_of_its_own)
        code, said = refusal(configured())
        assert code == 2
        assert "no AWS credentials for stream" in said
        assert said.endswith("Set them for the default chain (environment, profile, role), or name aws_conn_id")

    def test_at_an_endpoint_that_does_not_answer(self, configured: Callable[..., CommandLine]) -> None:
        url = f"http://127.0.0.1:{free_ports(1)[0]}"
        code, said = refusal(configured(endpoint_url=url))
        assert code == 1
        assert said.startswith(f"the Kinesis endpoint {url} does not answer as it should (EndpointConnectionError")
        assert said.endswith("Check region, endpoint_url and the network")


class TestDataset:
    def test_below_a_file(self, configured: Callable[..., CommandLine], tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        code, said = refusal(configured(dataset=str(tmp_path / "file/lake")))
        assert code == 2
        assert said.startswith(f"dataset {tmp_path}/file/lake: Not a directory")
        assert said.endswith("Give the dataset a folder that Airflow's and Spark's users can write")

    def test_on_a_file_system_that_takes_no_files(self, configured: Callable[..., CommandLine]) -> None:
        code, said = refusal(configured(dataset="/proc/lake"))
        assert code == 2
        assert said.startswith("dataset /proc/lake: takes no files (/proc)")

    @pytest.mark.parametrize(
        "dataset", ["lake", "~/lake", "gs://bucket/lake", "s3://bucket/", "/lake/../etc", "/", "/a\tb"]
    )
    def test_that_is_no_absolute_path(self, configured: Callable[..., CommandLine], dataset: str) -> None:
        code, said = refusal(configured(dataset=dataset))
        assert code == 2
        assert f"key dataset: found {dataset!r}; allowed: an absolute path of a folder" in said

    def test_of_another_pipeline(self, world: World, tmp_path: Path) -> None:
        write_config(tmp_path / "p.yaml", p=entry_of(world)).lines("run", "p")
        keep(world)
        before = world.files()
        entry = entry_of(world, ledger=f"sqlite:///{world.root}/other.db")
        code, said = refusal(write_config(tmp_path / "q.yaml", q=entry), "run", "q")
        assert code == 4
        assert said.startswith(f"dataset {world.root}/lake is not this pipeline's, pipeline: expected q, found p.")
        assert "Give the pipeline a new name and a new dataset, or put back what it had" in said
        assert world.files() == before
        assert not (world.root / "other.db").exists()

    def test_of_the_same_pipeline_with_another_ledger(self, world: World, tmp_path: Path) -> None:
        write_config(tmp_path / "p.yaml", p=entry_of(world)).lines("run", "p")
        keep(world)
        entry = entry_of(world, ledger=f"sqlite:///{world.root}/other.db")
        code, said = refusal(write_config(tmp_path / "p.yaml", p=entry))
        assert code == 4
        assert "the ledger is another one (a second deployment, or one restored or emptied)" in said
        assert not (world.root / "other.db").exists()

    def test_that_two_pipelines_share_in_the_file(self, world: World, tmp_path: Path) -> None:
        inner = entry_of(world, dataset=f"{world.root}/lake/inner")
        code, said = refusal(write_config(tmp_path / "p.yaml", p=entry_of(world), q=inner))
        assert code == 2
        assert "pipelines 'q' and 'p' share a dataset, key dataset: expected a folder of its own" in said

    def test_moved_under_a_pipeline_that_has_run(self, world: World, tmp_path: Path) -> None:
        write_config(tmp_path / "p.yaml", p=entry_of(world)).lines("run", "p")
        keep(world)
        before = rows_of(world.root / "ledger.db")
        world.put(b"another record")
        moved = write_config(tmp_path / "p.yaml", p=entry_of(world, dataset=f"{world.root}/moved"))
        code, said = refusal(moved)
        assert code == 4
        assert said.startswith(f"the ledger knows pipeline p otherwise, dataset: expected {world.root}/moved, found")
        assert rows_of(world.root / "ledger.db") == before
        assert not (world.root / "moved").exists()

    def test_restored_without_its_owner(self, world: World, tmp_path: Path) -> None:
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world))
        shardlake.lines("run", "p")
        keep(world)
        (world.root / "lake/_shardlake/owner.json").unlink()
        world.put(b"another record")
        code, said = refusal(shardlake)
        assert code == 4
        assert "has lost its _shardlake/owner.json. Likely cause: its disk is not mounted" in said


class TestLedger:
    def test_of_a_newer_schema(self, world: World, tmp_path: Path) -> None:
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world))
        shardlake.lines("run", "p")
        keep(world)
        shutil.rmtree(world.root / "lake")
        with closing(sqlite3.connect(world.root / "ledger.db")) as connection, connection:
            connection.execute("INSERT INTO shardlake_schema (version) VALUES (99)")
        before = rows_of(world.root / "ledger.db")
        for command in (["run"], ["plan", "--dry-run"], ["status"], ["ranges"], ["files"], ["audit"]):
            code, said = refusal(shardlake, *command, "p")
            assert code == 2
            assert said.startswith("the ledger's schema is version 99, this Shardlake knows up to")
            assert said.endswith("Upgrade Shardlake")
        assert rows_of(world.root / "ledger.db") == before
        assert not (world.root / "lake").exists()

    def test_that_is_no_database(self, world: World, tmp_path: Path) -> None:
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world))
        keep(world)
        (world.root / "ledger.db").write_text("not a database, but long enough to be looked at " * 40)
        code, said = refusal(shardlake)
        assert code in (1, 2)
        assert f"the ledger sqlite:///{world.root}/ledger.db" in said
        assert not (world.root / "lake").exists()

    def test_in_a_folder_that_is_not_there(self, world: World, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/none/ledger.db"
        code, said = refusal(write_config(tmp_path / "p.yaml", p=entry_of(world, ledger=url)))
        assert code == 1
        assert said.startswith(f"the ledger {url} cannot be used now: unable to open database file")

    def test_on_a_server_that_does_not_answer(self, world: World, tmp_path: Path) -> None:
        url = f"postgresql+psycopg://me:${{PASSWORD}}@127.0.0.1:{free_ports(1)[0]}/ledger"
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world, ledger=url))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PASSWORD", "hunter2")
            code, said = refusal(shardlake)
        assert code == 1
        assert said.startswith("the ledger postgresql+psycopg://me:***@127.0.0.1:")
        assert "hunter2" not in said
