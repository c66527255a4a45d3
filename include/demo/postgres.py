"""A PostgreSQL server on the loopback interface, with a password: the PyPI package pgserver's, or the machine's own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

from demo.background import Background
from demo.ports import LOOPBACK, free_ports
from demo.processes import end

USER = "shardlake"
PASSWORD = "sw0rdf:sh/&"  # noqa: S105 (nothing secret is behind it; odd enough to need quoting in a URL)

_READY_WITHIN_S = 30


class NoPostgresError(Exception):
    """There is no PostgreSQL on this machine."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server; `postgres` makes one.

    Attributes:
        port: where it listens, of 127.0.0.1.
    """

    port: int

    def connect(self, database: str) -> psycopg.Connection:
        """A raw connection, each statement its own transaction."""
        return psycopg.connect(
            host=LOOPBACK, port=self.port, user=USER, password=PASSWORD, dbname=database, autocommit=True
        )

    def new_database(self) -> str:
        """The name of a new, empty database."""
        name = f"lake_{uuid.uuid4().hex[:12]}"
        with closing(self.connect("postgres")) as connection:
            connection.execute(f"CREATE DATABASE {name} STRATEGY wal_log")
        return name

    def url(self, database: str) -> str:
        """The URL of a ledger in a database, with the password in it."""
        return f"postgresql+psycopg://{USER}:{quote(PASSWORD, safe='')}@{LOOPBACK}:{self.port}/{database}"


@contextmanager
def postgres(background: Background, shared_buffers: str = "32MB") -> Iterator[Postgres]:
    """A server for the length of a `with` block, with all that it keeps in a temporary folder.

    Not below the caller's: PostgreSQL refuses to run as root, and another user may not be able to enter there.

    Args:
        shared_buffers: PostgreSQL's setting of that name; its default here is one for tests.

    Raises:
        NoPostgresError: there is none.
        ProcessError: it did not get ready; the message has the end of its log.
    """
    account = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="shardlake-pg-"))
    try:
        programs = _programs()
        if account:
            shutil.chown(folder, account)
            programs = _enterable(programs, folder)
        password_file = folder / "password"
        password_file.write_text(PASSWORD, encoding="utf-8")
        password_file.chmod(0o644)
        initdb = [str(programs / "initdb"), "-D", "data", "-U", USER, "--pwfile=password", "--no-sync"]
        initdb += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        subprocess.run(initdb, cwd=folder, user=account, check=True, capture_output=True)
        (port,) = free_ports(1)
        place = ["-D", "data", "-h", LOOPBACK, "-p", str(port)]
        settings = ["-F", "-c", "unix_socket_directories=", "-c", f"shared_buffers={shared_buffers}"]
        process = background.start(
            "PostgreSQL",
            [programs / "postgres", *place, *settings],
            log=folder / "log",
            folder=folder,
            environment=os.environ,
            user=account,
        )
        server = Postgres(port)
        try:
            process.wait_until(lambda: _answers(server), within_s=_READY_WITHIN_S)
            yield server
        finally:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGINT)  # a fast shutdown: open connections are ended
            end([process])
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    """The folder of a PostgreSQL's programs: the PyPI wheel's, else Debian's newest, else the one on the PATH."""
    # Found, not imported: importing it makes folders.
    wheel = importlib.util.find_spec("pgserver")
    candidates = [Path(wheel.origin).parent / "pginstall/bin"] if wheel and wheel.origin else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if on_path := shutil.which("postgres"):
        candidates.append(Path(on_path).parent)
    found = next((folder for folder in candidates if (folder / "initdb").exists()), None)
    if found is None:
        raise NoPostgresError("there is no PostgreSQL: install the PyPI package pgserver, or Debian's postgresql")
    return found


def _enterable(programs: Path, folder: Path) -> Path:
    """The programs where any user can get at them: a copy, if they lie in an environment below /root."""
    if all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        return programs
    site, wheel = programs.parents[2], folder / "wheel"
    for name in ("pgserver", "pgserver.libs"):
        shutil.copytree(site / name, wheel / name)
    return wheel / programs.relative_to(site)


def _answers(server: Postgres) -> bool:
    try:
        server.connect("postgres").close()
    except psycopg.OperationalError:
        return False
    return True
