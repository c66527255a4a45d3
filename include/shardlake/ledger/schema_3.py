"""Version 3 of the ledger's schema: a note that nothing was behind a position says under which retention it was made.

Notes from before do not say it. They count as made under 24 hours, the shortest retention that a stream can have: then
no loss is hidden. The price is paid by a pipeline that nobody ran for more than 24 hours when it is upgraded, on a
stream that retains more: of a shard that was idle all the while a loss is told that may be none.

This text never changes once released: a change of the schema is another migration.
"""

_NOTE = "ALTER TABLE shardlake_chains ADD COLUMN caught_up_retention_ms BIGINT NOT NULL DEFAULT 86400000"


def statements(dialect: str) -> list[str]:
    """The statement that leads from version 2 to version 3, the same for `sqlite` and `postgresql`."""
    return [_NOTE]
