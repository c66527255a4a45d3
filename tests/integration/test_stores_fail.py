"""A store fails at any moment: a clear error that says whether to try again, nothing wrong published or committed, and
the same step run again gives what it would have given."""

from __future__ import annotations

import errno
import itertools
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from botocore.config import Config
from click.testing import Result
from sqlalchemy import event

from demo.background import Background
from demo.postgres import NoPostgresError, Postgres, postgres
from shardlake.auditing import audit
from shardlake.backfill import Request
from shardlake.batch import Steps
from shardlake.errors import ConfigError, ConflictError, ShardlakeError, UnavailableError
from shardlake.lake.s3_client import ATTEMPTS
from shardlake.ledger import Ledger, open_ledger
from shardlake.names import LIVE
from shardlake.plan import BatchPlan, Run
from shardlake.ranges import SequenceNumber
from support.aggregates import User, protobuf, sealed
from support.command_line import CommandLine, entry_of, write_config
from support.cutting_proxy import CuttingProxy, Moment, cutting_proxy
from support.faulty_proxy import FaultyProxy, faulty_proxy
from support.inline_engine import InlineEngine
from support.lakes import Bucket

if TYPE_CHECKING:
    from tests.integration.conftest import World

pytestmark = pytest.mark.slow

MakeWorld = Callable[..., "World"]
RECORDS = 40
BAD = sealed(protobuf([b"k"], [User(0, b"x"), User(3, b"x")]))
"""An aggregate that goes to the quarantine."""


def assert_nothing_is_wrong(world: World) -> None:
    """Whatever is published and committed is right, though it may not be all."""
    assert [finding for one in audit(world.steps) for finding in one.findings if finding.kind != "unread"] == []


def assert_done_by_the_same_step(world: World, run: str) -> None:
    """The step that failed, run again, reads what is left, and nothing twice."""
    assert_nothing_is_wrong(world)
    world.run(run)
    world.run_until_caught_up(run)
    world.assert_rows_are_those_acknowledged()
    assert_nothing_is_wrong(world)


def failure_of(world: World, run: str) -> list[ShardlakeError]:
    """What ended a run, if something did."""
    try:
        world.run(run)
    except ShardlakeError as exc:
        return [exc]
    return []


class FailingDisk:
    """Counts what is done to the disk, and refuses it from the n-th on, as the operating system would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self._from, self._error = 0, sys.maxsize, 0
        for owner, name in (
            *((Path, name) for name in ("replace", "unlink", "mkdir")),
            *((os, name) for name in ("link", "fsync")),
            (tempfile, "mkstemp"),
        ):
            self._wrap(monkeypatch, owner, name)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if self.count > self._from and not (name == "unlink" and self._error == errno.ENOSPC):
                raise OSError(self._error, os.strerror(self._error), str(arguments[0]) if arguments else None)
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, call)

    @contextmanager
    def failing(self, after: int, error: int) -> Iterator[None]:
        """Refuse everything after so many calls."""
        self.count, self._from, self._error = 0, after, error
        try:
            yield
        finally:
            self._from = sys.maxsize


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (errno.ENOSPC, UnavailableError, "No space left on device"),
        (errno.EROFS, ConfigError, "Read-only file system"),
    ],
)
def test_a_disk_that_fails_from_any_moment_on(
    world: World, monkeypatch: pytest.MonkeyPatch, error: int, kind: type[ShardlakeError], said: str
) -> None:
    """Kills: an OSError let through, a half file published, a commit of what is not on disk."""
    disk = FailingDisk(monkeypatch)
    world.produce(RECORDS)
    world.run("first")  # which makes the folders
    world.produce(RECORDS)
    with disk.failing(sys.maxsize, error):
        world.run("clean")
    count, failures = disk.count, []
    for after in range(count):
        world.produce(3)
        with disk.failing(after, error):
            failures += failure_of(world, f"run-{after}")
        assert_done_by_the_same_step(world, f"run-{after}")
    assert {(type(failure), said in str(failure)) for failure in failures} == {(kind, True)}
    assert len(failures) > count - 5  # the last effects clear away, which may wait


def test_a_file_larger_than_the_disk_takes_is_not_published(world: World) -> None:
    """The kernel's own refusal, in the middle of a file that Arrow writes."""
    world.put(*(os.urandom(50_000) for _ in range(20)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    try:
        with pytest.raises(UnavailableError, match="File too large.*Free the disk or mend it, then run the step again"):
            world.run("run-1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert world.files() == {}
    assert_nothing_is_wrong(world)
    _, committed = world.run("run-1")
    assert committed
    assert committed.rows == 20
    assert world.home.names("_shardlake/tmp") == []


def test_a_disk_that_takes_less_and_less(world: World) -> None:
    """The kernel's refusal in each file that a run writes: data, plan, report, what verify found. Kills: half a
    control file under its name."""
    world.produce(RECORDS)
    world.run("first")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    failed = []
    for limit in (4_000, 1_400, 700, 400, 200, 0):
        world.produce(20)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            failures = failure_of(world, f"run-{limit}")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert {(type(each), "File too large" in str(each)) for each in failures} <= {(UnavailableError, True)}
        failed += [limit for _ in failures]
        assert world.left_behind() == []
        for key in world.lake.keys("_shardlake/"):
            json.loads(world.lake.read(key))
        assert_done_by_the_same_step(world, f"run-{limit}")
    assert failed[-3:] == [400, 200, 0]
    world.assert_every_record_is_there_once()


@contextmanager
def on_every_engine(name: str, call: Callable[..., None]) -> Iterator[None]:
    event.listen(sa.Engine, name, call)
    try:
        yield
    finally:
        event.remove(sa.Engine, name, call)


class TestSqlite:
    @pytest.fixture
    def shardlake(self, world: World, tmp_path: Path) -> CommandLine:
        shardlake = write_config(tmp_path / "pipelines.yaml", p=entry_of(world))
        world.produce(RECORDS)
        shardlake.lines("run", "p")
        world.ledger = open_ledger(f"sqlite:///{world.root}/ledger.db")
        world.produce(RECORDS)
        return shardlake

    def assert_told(self, result: Result, said: str) -> None:
        assert (result.exit_code, "Traceback" in result.output) == (1, False)
        assert result.stderr.startswith("Error: the ledger sqlite:///")
        assert said in result.stderr
        assert result.stderr.endswith("Run the same step again: it finds out what the ledger has stored\n")

    def test_that_is_full(self, world: World, shardlake: CommandLine) -> None:
        """SQLite's own refusal, of whatever transaction does not fit any more. Kills: half of one kept."""
        full = 0
        for more in range(6):
            with closing(sqlite3.connect(world.root / "ledger.db")) as connection:
                (pages,) = connection.execute("PRAGMA page_count").fetchone()

            def hold(connection: Any, _record: object, pages: int = pages + more % 3) -> None:
                connection.execute(f"PRAGMA max_page_count = {pages}")

            world.split(int(world.kinesis.list_shards()[-1].shard_id[-12:]))
            world.produce(RECORDS)
            with on_every_engine("connect", hold):
                result = shardlake("run", "p")
            if result.exit_code:
                self.assert_told(result, "database or disk is full")
                full += 1
            assert_done_by_the_same_step(world, f"again-{more}")
        assert full > 0
        world.assert_every_record_is_there_once()

    def test_that_is_locked_by_another_process(
        self, world: World, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shardlake.ledger.database.LOCK_TIMEOUT_S", 0.2)
        program = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE');"
            " print('locked', flush=True); sys.stdin.read()"
        )
        before = world.files()
        with subprocess.Popen(
            [sys.executable, "-c", program, world.root / "ledger.db"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout
            assert other.stdout.readline() == b"locked\n"
            self.assert_told(shardlake("run", "p"), "database is locked")
            other.communicate()
        assert world.files() == before
        assert_done_by_the_same_step(world, "again")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL of this module's own, since it is made to fail; a laptop without one skips, CI fails."""
    with Background(tmp_path_factory.mktemp("postgres") / "processes.json") as background:
        try:
            with postgres(background) as server:
                yield server
        except NoPostgresError as exc:
            if os.environ.get("CI") == "true":
                pytest.fail(str(exc))
            pytest.skip(str(exc))


class TestPostgres:
    WRITES = 4
    """Transactions of a first run that write: claim, listing, pin, commit."""

    @pytest.fixture
    def proxy(self, server: Postgres) -> Iterator[CuttingProxy]:
        with cutting_proxy(server.port) as proxy:
            yield proxy

    def ledger_url(self, server: Postgres, port: int) -> str:
        return server.url(server.new_database()).replace(f":{server.port}/", f":{port}/")

    @pytest.mark.parametrize("moment", ["before the commit", "before its reply"])
    def test_whose_connection_is_lost_at_a_commit(
        self, world: World, server: Postgres, proxy: CuttingProxy, moment: Moment
    ) -> None:
        """Nobody knows whether it was done: the same step finds out. Kills: guessing either way."""
        world.ledger = open_ledger(self.ledger_url(server, proxy.port))
        world.produce(RECORDS)
        world.run("first")
        world.produce(RECORDS)
        proxy.spoil(None)
        world.run("clean")
        count = proxy.commits
        assert count >= self.WRITES
        for commit in range(count):
            world.produce(5)
            proxy.spoil(commit, moment)
            with pytest.raises(UnavailableError, match="cannot be used now: .*Run the same step again"):
                world.run(f"run-{commit}")
            proxy.spoil(None)
            assert_done_by_the_same_step(world, f"run-{commit}")
        world.assert_every_record_is_there_once()

    @pytest.mark.parametrize("write", range(WRITES))
    def test_that_crashes_in_a_transaction_and_recovers(self, world: World, server: Postgres, write: int) -> None:
        world.ledger = open_ledger(self.ledger_url(server, server.port))
        world.produce(RECORDS)
        seen = 0

        def crash(connection: sa.Connection) -> None:
            nonlocal seen
            if connection.get_execution_options().get("shardlake_begin"):
                seen += 1
                if seen == write + 1:
                    pid = connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
                    os.kill(pid, signal.SIGKILL)  # the server ends all its sessions and recovers

        with on_every_engine("commit", crash), pytest.raises(UnavailableError, match="cannot be used now"):
            world.run("run-1")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with suppress(UnavailableError):
                world.ledger.shards("p")
                break
            time.sleep(0.05)
        assert_done_by_the_same_step(world, "run-1")
        world.assert_every_record_is_there_once()


class TestThatIsLost:
    """A database that is gone, wherever the dataset is: the pipeline goes on as if nothing had been."""

    SETTINGS: ClassVar[dict[str, Any]] = {
        "max_range_bytes": 400,
        "on_data_loss": "skip",
        "aggregates": "quarantine",
    }

    def backfill(self, world: World, run: str) -> BatchPlan:
        """A batch of the backfill `b`."""
        steps = Steps(world.pipeline, world.ledger, namespace="b")
        steps.open_backfill(Request(read_fraction=1))
        return steps.run(Run("dag", run), InlineEngine(), lambda line: None)[0]

    def lived(self, world: World) -> list[SequenceNumber]:
        """Closed shards, a lost stretch, a quarantine, a backfill that is not done, an open range.

        Returns:
            The numbers of what was put and not lost.
        """
        put = world.put(b"a" * 300, BAD, b"b" * 300, b"c") + world.put(b"read", shard=1)
        world.run("first")
        world.put(b"lost", shard=1)
        world.trim(shard=1)
        put += world.put(b"left", shard=1)
        world.run_until_caught_up("second")
        world.split(0)
        put += world.put(b"child", shard=2)
        world.run_until_caught_up("third")
        assert self.backfill(world, "b-1").behind
        put += world.put(b"open", shard=3)
        world.plan("open")
        return put

    def standing(self, ledger: Ledger) -> list[object]:
        """All that a ledger says that decides something."""
        rows = [
            (namespace, row.range, row.state, row.batch_id, row.contents)
            for namespace in (LIVE, "b")
            for row in ledger.ranges("p", namespace)
        ]
        chains = [
            (chain.position, chain.open_range) for each in (LIVE, "b") for chain in ledger.chains("p", each).values()
        ]
        return [*rows, *chains, ledger.backfills("p"), ledger.shards("p")]

    @pytest.mark.parametrize(("bucket", "kind"), [("folder", "sqlite"), ("s3", "postgres")], indirect=["bucket"])
    def test_is_rebuilt(
        self,
        make_world: MakeWorld,
        kind: str,
        request: pytest.FixtureRequest,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        numbers = itertools.count()

        def new_database() -> str:
            server: Postgres | None = request.getfixturevalue("server") if kind == "postgres" else None
            return server.url(server.new_database()) if server else f"sqlite:///{tmp_path}/ledger-{next(numbers)}.db"

        world = make_world(2, **self.SETTINGS)
        world.ledger = open_ledger(new_database())
        put = self.lived(world)
        before, url = self.standing(world.ledger), new_database()
        assert {row[2] for row in before if isinstance(row, tuple) and len(row) == 5} == {
            "committed",
            "lost",
            "planned",
        }
        monkeypatch.setenv("LEDGER", url)
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world, ledger="${LEDGER}", **self.SETTINGS))

        assert shardlake("run", "p").exit_code == ConflictError.exit_code  # the empty ledger is not the dataset's
        assert shardlake("ledger", "rebuild", "p", "--yes").exit_code == 0
        world.ledger = open_ledger(url)
        assert self.standing(world.ledger) == before

        put += world.put(b"after", shard=1)
        shardlake.lines("run", "p", "--until-caught-up")
        backfilled = itertools.takewhile(
            lambda plan: plan.behind, (self.backfill(world, f"b-{n}") for n in range(2, 9))
        )
        assert len(list(backfilled)) < 7
        for arguments in ((), ("--backfill", "b")):
            assert shardlake.json("audit", "p", *arguments)["findings"] == []
        held = [number for shard in range(4) for number in world.numbers(shard)]
        aside = [key for key in world.lake.keys("quarantine/") if key.endswith(".parquet")]
        quarantined = [number for key in aside for number in numbers_of(world.lake.read(key))]
        assert sorted(held + quarantined) == sorted(number.text for number in put)


def numbers_of(file: bytes) -> list[str]:
    numbers: list[str] = pq.read_table(pa.BufferReader(file), columns=["sequence_number"]).column(0).to_pylist()
    return numbers


WRITES = r"^(PUT|POST) "


@pytest.fixture
def proxy(object_store: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    monkeypatch.setattr("botocore.retries.quota.RetryQuota.acquire", lambda *_: True)
    monkeypatch.setattr("shardlake.lake.s3_upload.CONFLICT_WAIT_S", 0)
    with faulty_proxy(object_store.endpoint_url) as proxy:
        yield proxy


@pytest.mark.parametrize("bucket", [pytest.param("s3")], indirect=True)
@pytest.mark.parametrize(
    ("fault", "in_parts", "calls", "step", "kind"),
    [
        ("503", False, WRITES, 2, UnavailableError),
        ("lose the reply", True, WRITES, 2, UnavailableError),
        ("lose the reply", False, WRITES, 4, UnavailableError),
        ("say nothing", False, WRITES, 4, UnavailableError),
        ("403", False, WRITES, 4, ConfigError),
        ("503", False, r"^GET ", 12, UnavailableError),
    ],
)
def test_an_object_store_that_fails_from_any_call_on(
    world: World,
    proxy: FaultyProxy,
    monkeypatch: pytest.MonkeyPatch,
    fault: Any,
    in_parts: bool,
    calls: str,
    step: int,
    kind: type[ShardlakeError],
) -> None:
    """5xx: nothing was done. A lost reply: it was, and nobody heard; not even the tries that follow. Silence: nobody
    knows. 403: a person has to act, and then the same step goes on.

    An upload of which nobody heard the id stays for a day: see the home's own tests.
    """
    monkeypatch.setattr("shardlake.lake.s3_upload.MULTIPART_BYTES", 0 if in_parts else 2**20)
    impatient = {"read_timeout": 0.2} if fault == "say nothing" else {}
    monkeypatch.setattr("shardlake.lake.s3_client.Config", lambda **settings: Config(**{**settings, **impatient}))
    world.settings["storage"] = {**world.place["storage"], "endpoint_url": proxy.endpoint_url}
    world.produce(RECORDS)
    world.run("clean")
    count, failures = proxy.count(calls), list[ShardlakeError]()
    assert count >= 4
    for after in range(int(in_parts), count, step):
        world.produce(3)
        proxy.reset()

        def hear(request: str, after: int = after) -> None:
            if proxy.count(calls) == after:
                proxy.spoil(calls, fault, times=20 * ATTEMPTS)

        if after:
            proxy.between = hear
        else:
            proxy.spoil(calls, fault, times=20 * ATTEMPTS)
        failures += failure_of(world, f"run-{after}")
        proxy.reset()
        assert_done_by_the_same_step(world, f"run-{after}")
    assert {type(failure) for failure in failures} == {kind}
