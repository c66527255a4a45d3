"""The database under a SQL ledger: its URL, its transactions, and its errors in Shardlake's terms.

Isolation: transactions that write hold one lock each for their whole length, so they run one after another: on
SQLite the database's write lock (`BEGIN IMMEDIATE`), on PostgreSQL an advisory lock a pipeline. PostgreSQL runs them
READ COMMITTED, on purpose: each statement after the lock sees all that the lock's last holder committed, where a
snapshot taken before the wait would not. What is read without the lock is one statement, or rows that never change.

No connection outlives its transaction: nothing to close, nothing to share across a fork, and a restarted server is met
by a new connection.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import event, exc

from shardlake.errors import ConfigError, ConflictError, UnavailableError
from shardlake.redact import redact

CONNECT_TIMEOUT_S = 10
LOCK_TIMEOUT_S = 30
"""How long a transaction waits for another one's lock before it gives up."""

_URLS = "Write sqlite:////absolute/path.db or postgresql+psycopg://user@host/database"


class Database:
    """Transactions on the database at a URL.

    Raises:
        ConfigError: the URL is not one of a supported database.
    """

    def __init__(self, url: str) -> None:
        parsed = _parse(url)
        self.name = redact(url)
        self._password = str(parsed.password or "")
        self._engine = _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgresql(parsed)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that reads."""
        with self._translated(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, lock: str) -> Iterator[sa.Connection]:
        """A transaction that has waited for all others with the same lock, and makes them wait."""
        with self._translated(), self._engine.connect() as connection:
            connection.execution_options(shardlake_begin="BEGIN IMMEDIATE")
            with connection.begin():
                if connection.dialect.name == "postgresql":
                    connection.execute(_POSTGRESQL_WRITING, {"timeout": f"{LOCK_TIMEOUT_S}s"})
                    connection.execute(_POSTGRESQL_LOCK, {"lock": _lock_number(lock)})
                yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the driver's errors into Shardlake's, without the URL's password."""
        try:
            yield
        except exc.IntegrityError as error:
            raise ConflictError(f"the ledger {self.name} refused a change: {self._text(error)}") from error
        except (exc.OperationalError, exc.InterfaceError, exc.InternalError) as error:
            # InternalError: a PostgreSQL that has become a read-only standby.
            raise UnavailableError(
                f"the ledger {self.name} cannot be used now: {self._text(error)}",
                todo="Run the same step again: it finds out what the ledger has stored",
            ) from error
        except exc.DBAPIError as error:
            raise ConfigError(
                f"the ledger {self.name} refused a statement: {self._text(error)}",
                todo="Check that the URL names a Shardlake ledger and that its user may create and change tables there",
            ) from error

    def _text(self, error: exc.DBAPIError) -> str:
        text = " ".join(str(error.orig).split())
        return text.replace(self._password, "***") if self._password else text


def _parse(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError):
        # Not chained, not quoted: what cannot be parsed may show a password anywhere.
        raise ConfigError("the ledger's URL cannot be read", todo=_URLS) from None
    if parsed.drivername not in ("sqlite", "postgresql+psycopg"):
        raise ConfigError(f"a ledger cannot be kept in {parsed.drivername}://", todo=_URLS)
    if parsed.drivername == "sqlite" and (
        parsed.database in (None, "") or ":memory:" in str(parsed.database) or parsed.query.get("mode") == "memory"
    ):
        raise ConfigError(f"the ledger {redact(url)} is in memory: nothing would survive the process", todo=_URLS)
    return parsed


def _sqlite(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(
        url, poolclass=sa.NullPool, hide_parameters=True, connect_args={"timeout": LOCK_TIMEOUT_S}
    )

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # the driver's own BEGINs off: see below
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("shardlake_begin", "BEGIN"))

    return engine


def _postgresql(url: sa.URL) -> sa.Engine:
    connect_args = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_TIMEOUT_S}
    return sa.create_engine(
        url, poolclass=sa.NullPool, hide_parameters=True, isolation_level="READ COMMITTED", connect_args=connect_args
    )


# A pin or commit is on disk when it is reported, also where the server's default is not to wait for that.
_POSTGRESQL_WRITING = sa.text(
    "SELECT set_config('lock_timeout', :timeout, true), set_config('synchronous_commit', "
    "CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, "
    "true)"
)
_POSTGRESQL_LOCK = sa.text("SELECT pg_advisory_xact_lock(:lock)")


def _lock_number(lock: str) -> int:
    """A 64-bit number for an advisory lock; two locks that share one only wait for each other."""
    return int.from_bytes(hashlib.sha256(f"shardlake ledger\0{lock}".encode()).digest()[:8], signed=True)
