"""The stores that contract suites run over, PostgreSQL a real server among them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from shardlake.ledger import Ledger, open_ledger
from shardlake.ledger.memory import MemoryLedger

USER = "shardlake"
PASSWORD = "sw0rdf:sh/&"


class PostgresServer:
    """A PostgreSQL server of this test session's own, on a free port of 127.0.0.1, with a password."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        # PostgreSQL refuses to run as root.
        self._account = "nobody" if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="shardlake-pg-"))
        if self._account:
            shutil.chown(self._folder, self._account)
            if not all(folder.stat().st_mode & 0o001 for folder in programs.parents):  # an environment below /root
                site, wheel = programs.parents[2], self._folder / "wheel"
                for name in ("pgserver", "pgserver.libs"):
                    shutil.copytree(site / name, wheel / name)
                self._programs = wheel / programs.relative_to(site)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        password_file = self._folder / "password"
        password_file.write_text(PASSWORD)
        password_file.chmod(0o644)
        initdb = [str(self._programs / "initdb"), "-D", "data", "-U", USER, "--pwfile=password", "--no-sync"]
        initdb += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        subprocess.run(initdb, cwd=self._folder, user=self._account, check=True, capture_output=True)
        server = [str(self._programs / "postgres"), "-D", "data", "-h", "127.0.0.1", "-p", str(self.port), "-F"]
        server += ["-c", "unix_socket_directories=", "-c", "shared_buffers=32MB"]
        log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(server, cwd=self._folder, user=self._account, stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + 30
        while True:
            try:
                self.connect("postgres").close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self._folder / "log").read_text()[-2000:]) from None
                time.sleep(0.05)

    def stop(self) -> None:
        if self._process:
            self._process.send_signal(signal.SIGINT)  # a fast shutdown: open connections are ended
            self._process.wait(timeout=30)
        shutil.rmtree(self._folder)

    def connect(self, database: str) -> psycopg.Connection:
        """A raw connection, each statement its own transaction."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, dbname=database, autocommit=True
        )

    def new_database(self) -> str:
        """The name of a new, empty database."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with closing(self.connect("postgres")) as connection:
            connection.execute(f"CREATE DATABASE {name} STRATEGY wal_log")
        return name

    def url(self, database: str) -> str:
        password = PASSWORD.replace(":", "%3A").replace("/", "%2F").replace("&", "%26")
        return f"postgresql+psycopg://{USER}:{password}@127.0.0.1:{self.port}/{database}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server; a laptop without PostgreSQL skips, CI fails."""
    programs = _programs()
    if programs is None:
        missing = "no PostgreSQL: install the pgserver package or Debian's postgresql"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    server = PostgresServer(programs)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    return postgres.url(postgres.new_database())


@pytest.fixture(params=["sqlite", "postgres"])
def sql_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, once of each kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """An empty ledger, once of each store."""
    if request.param == "memory":
        return MemoryLedger()
    return open_ledger(request.getfixturevalue(f"{request.param}_url"))


def _programs() -> Path | None:
    """The folder of a PostgreSQL's programs: the PyPI wheel's, else Debian's newest, else the one on the PATH."""
    # Found, not imported: importing it makes folders.
    wheel = importlib.util.find_spec("pgserver")
    candidates = [Path(wheel.origin).parent / "pginstall/bin"] if wheel and wheel.origin else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if on_path := shutil.which("postgres"):
        candidates.append(Path(on_path).parent)
    return next((folder for folder in candidates if (folder / "initdb").exists()), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
