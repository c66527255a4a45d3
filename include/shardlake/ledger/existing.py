"""A ledger for those who only look: none is made where there is none."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from shardlake.ledger import Ledger
from shardlake.ledger.database import Database
from shardlake.ledger.memory import MemoryLedger
from shardlake.ledger.migrations import schema_version
from shardlake.ledger.sql import SqlLedger


def existing_ledger(url: str) -> Ledger | None:
    """The ledger at a URL, or None where there is none yet. No file or table is made for it.

    Raises:
        ConfigError, UnavailableError: as `open_ledger`.
    """
    database = Database(url)
    return SqlLedger.open(url) if _is_there(url) and schema_version(database) > 0 else None


def ledger_to_look_at(url: str) -> Ledger:
    """The ledger at a URL, or an empty one in its place.

    Raises:
        ConfigError, UnavailableError: as `open_ledger`.
    """
    return existing_ledger(url) or MemoryLedger()


def _is_there(url: str) -> bool:
    """Whether there is a database to connect to: SQLite makes its file for whoever connects."""
    parsed = sa.make_url(url)
    name = str(parsed.database)
    return parsed.get_backend_name() != "sqlite" or name.startswith("file:") or Path(name).exists()
