"""A ledger for those who only look: none is made where there is none, and none is changed.

A command that looks may be newer than the workers that write, or may not be allowed to write at all: it takes a schema
of version 1 or 2 as it is.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from shardlake.caught_up import LEAST_RETENTION_MS
from shardlake.ledger import Chain, JournalEntry, Ledger, statements
from shardlake.ledger.database import Database
from shardlake.ledger.memory import MemoryLedger
from shardlake.ledger.migrations import schema_version
from shardlake.ledger.sql import SqlLedger


def existing_ledger(url: str) -> Ledger | None:
    """The ledger at a URL, its schema brought up to date, or None where there is none yet: none is made.

    Raises:
        ConfigError, UnavailableError: as `open_ledger`.
    """
    return SqlLedger.open(url) if _version(url) > 0 else None


def ledger_to_look_at(url: str) -> Ledger:
    """The ledger at a URL, or an empty one in its place; nothing is written, and nothing may be.

    Raises:
        ConfigError, UnavailableError: as `open_ledger`.
    """
    version = _version(url)
    if version == 0:
        return MemoryLedger()
    return {1: _Version1, 2: _Version2}.get(version, SqlLedger)(Database(url))


class _Version2(SqlLedger):
    """A ledger whose notes do not say the retention yet, which the migration takes for the least."""

    def chains(self, pipeline: str, namespace: str) -> dict[str, Chain]:
        with self._database.reading() as connection:
            return statements.chains(connection, pipeline, namespace, retention=sa.literal(LEAST_RETENTION_MS))


class _Version1(_Version2):
    """A ledger that has no backfills and no journal yet either."""

    def backfill(self, pipeline: str, namespace: str) -> str | None:
        return None

    def backfills(self, pipeline: str) -> dict[str, str]:
        return {}

    def journal(self, pipeline: str) -> list[JournalEntry]:
        return []


def _version(url: str) -> int:
    """The version of the schema at a URL, 0 where there is none."""
    database = Database(url)
    return schema_version(database) if _is_there(url) else 0


def _is_there(url: str) -> bool:
    """Whether there is a database to connect to: SQLite makes its file for whoever connects."""
    parsed = sa.make_url(url)
    name = str(parsed.database)
    return parsed.get_backend_name() != "sqlite" or name.startswith("file:") or Path(name).exists()
