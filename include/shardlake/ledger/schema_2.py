"""Version 2 of the ledger's schema: backfills, and a journal of what people did to ranges.

Both are guarded as version 1 guards its tables, and for the same reasons: whoever writes, by whatever connection.

This text never changes once released: a change of the schema is another migration.
"""

from shardlake.ledger.guards import Guard, guards_in_postgresql, guards_in_sqlite, no_replacing, no_truncating

_TABLES = """
CREATE TABLE shardlake_backfills (
    pipeline <text> NOT NULL,
    namespace <text> NOT NULL CONSTRAINT backfill_is_not_live CHECK (namespace <> 'live'),
    bounds <text> NOT NULL,
    created_at_ms BIGINT NOT NULL,
    PRIMARY KEY (pipeline, namespace)
) <options>;

CREATE TABLE shardlake_journal (
    pipeline <text> NOT NULL,
    entry_number BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    who <text> NOT NULL CONSTRAINT journal_who_is_short CHECK (length(who) <= 200),
    action <text> NOT NULL CONSTRAINT journal_action_is_known CHECK (action IN ('repair', 'abandon')),
    namespace <text> NOT NULL,
    shard_id <text> NOT NULL,
    start_kind <text> NOT NULL CHECK (start_kind IN ('AT', 'AFTER')),
    start_number <text> NOT NULL,
    through <text> NOT NULL,
    anchor <text>,
    reason <text> NOT NULL CONSTRAINT journal_reason_is_given_and_short CHECK (length(reason) BETWEEN 1 AND 2000),
    PRIMARY KEY (pipeline, entry_number)
) <options>;
"""

_GUARDS = [
    *(
        Guard(f"{table}_{event.lower()}", table, event, "true", f"a row of {table} is written once and kept")
        for table in ("shardlake_backfills", "shardlake_journal")
        for event in ("UPDATE", "DELETE")
    ),
    # The numbers are the order of writing. With this no new row is in the way of an old one, to replace it.
    Guard(
        "shardlake_journal_is_appended_to",
        "shardlake_journal",
        "INSERT",
        """NEW.entry_number <> 1 + coalesce(
            (SELECT max(entry.entry_number) FROM shardlake_journal AS entry WHERE entry.pipeline = NEW.pipeline), 0)""",
        "the entries of a pipeline in the journal are numbered 1, 2, 3 as they are written",
    ),
]


def statements(dialect: str) -> list[str]:
    """The statements that lead from version 1 to version 2, for `sqlite` or `postgresql`."""
    if dialect == "sqlite":
        tables = _TABLES.replace("<text>", "TEXT").replace("<options>", "WITHOUT ROWID")
        guards = guards_in_sqlite([*_GUARDS, no_replacing("shardlake_backfills", ("pipeline", "namespace"))])
    else:
        tables = _TABLES.replace("<text>", 'TEXT COLLATE "C"').replace("<options>", "")
        guards = guards_in_postgresql([*_GUARDS, *map(no_truncating, ("shardlake_backfills", "shardlake_journal"))])
    return [*tables.split(";")[:-1], *guards]
