"""Migrations of the ledger's schema: numbered, forward only, applied in one transaction under a lock."""

import time
from collections.abc import Callable

import sqlalchemy as sa

from shardlake.errors import ConfigError
from shardlake.ledger import schema_1, schema_2, schema_3
from shardlake.ledger.database import Database

MIGRATIONS: tuple[Callable[[str], list[str]], ...] = (schema_1.statements, schema_2.statements, schema_3.statements)
"""The statements that lead to version 1, 2, …, by dialect. Released ones never change; new ones go to the end."""

_TABLE = "shardlake_schema"
_LOCK = "schema"


def bring_up_to_date(database: Database) -> None:
    """Apply the migrations that the ledger does not have yet; of several processes, one does and the others wait.

    Raises:
        ConfigError: the schema is newer than this code; nothing has been written.
    """
    if schema_version(database) == len(MIGRATIONS):
        return
    with database.writing(_LOCK) as connection:
        version = _known_version(connection, database)
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            if number == 1:
                connection.execute(
                    sa.text(f"CREATE TABLE {_TABLE} (version INTEGER NOT NULL PRIMARY KEY, applied_at_ms BIGINT)")
                )
            for statement in statements(connection.dialect.name):
                connection.exec_driver_sql(statement)
            connection.execute(
                sa.text(f"INSERT INTO {_TABLE} (version, applied_at_ms) VALUES (:version, :now)"),  # noqa: S608
                {"version": number, "now": time.time_ns() // 1_000_000},
            )


def schema_version(database: Database) -> int:
    """The version of the schema, 0 for an empty database; nothing is written.

    Raises:
        ConfigError: the schema is newer than this code.
    """
    with database.reading() as connection:
        return _known_version(connection, database)


def _known_version(connection: sa.Connection, database: Database) -> int:
    """The version of the schema, 0 for an empty database."""
    if not sa.inspect(connection).has_table(_TABLE):
        return 0
    version = connection.execute(sa.text(f"SELECT coalesce(max(version), 0) FROM {_TABLE}")).scalar_one()  # noqa: S608
    if version > len(MIGRATIONS):
        raise ConfigError(
            f"the ledger's schema is version {version}, this Shardlake knows up to {len(MIGRATIONS)} ({database.name})",
            todo="Upgrade Shardlake",
        )
    return int(version)
