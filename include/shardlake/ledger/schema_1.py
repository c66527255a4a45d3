"""Version 1 of the ledger's schema: tables, and guards that keep invariants 1 to 3 whoever writes.

What a constraint can say is a constraint. The rest are guards: triggers that refuse a row, also one that comes by raw
SQL over a connection without any of our settings. For that reason nothing here leans on SQLite's foreign keys (off
unless a connection asks for them), and no guarded table has a rowid (`INSERT OR REPLACE` by rowid deletes the row it
replaces without a trigger).

This text never changes once released: a change of the schema is another migration.
"""

from shardlake.ledger.guards import Guard, guards_in_postgresql, guards_in_sqlite, no_replacing, no_truncating
from shardlake.ranges import DIGITS

_PADDED = "substr('" + "0" * DIGITS + "' || {0}, length({0}) + 1)"
_THROUGH_KEY = _PADDED.format("through")
_START_NUMBER_KEY = _PADDED.format("start_number")

_TABLES = f"""
CREATE TABLE shardlake_ledger (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    ledger_id <text> NOT NULL
) <options>;

CREATE TABLE shardlake_pipelines (
    pipeline <text> NOT NULL PRIMARY KEY,
    stream_arn <text> NOT NULL,
    stream_created_at_ms BIGINT NOT NULL,
    dataset <text> NOT NULL
) <options>;

CREATE TABLE shardlake_shards (
    pipeline <text> NOT NULL,
    shard_id <text> NOT NULL,
    parents <text> NOT NULL,
    starting_hash_key <text> NOT NULL,
    ending_hash_key <text> NOT NULL,
    starting_sequence_number <text> NOT NULL,
    ending_sequence_number <text>,
    missing INTEGER NOT NULL,
    PRIMARY KEY (pipeline, shard_id)
) <options>;

CREATE TABLE shardlake_batches (
    batch_id <text> NOT NULL PRIMARY KEY,
    pipeline <text> NOT NULL,
    namespace <text> NOT NULL,
    dag_id <text> NOT NULL,
    run_id <text> NOT NULL,
    plan <text> NOT NULL,
    digest <text> NOT NULL,
    created_at_ms BIGINT NOT NULL
) <options>;

CREATE TABLE shardlake_chains (
    pipeline <text> NOT NULL,
    namespace <text> NOT NULL,
    shard_id <text> NOT NULL,
    start_kind <text> NOT NULL CHECK (start_kind IN ('AT', 'AFTER', 'SHARD_END')),
    start_number <text> CHECK ((start_number IS NULL) = (start_kind = 'SHARD_END')),
    start_key <text> NOT NULL,
    caught_up_key <text>,
    caught_up_at_ms BIGINT,
    PRIMARY KEY (pipeline, namespace, shard_id)
) <options>;

CREATE TABLE shardlake_ranges (
    pipeline <text> NOT NULL,
    namespace <text> NOT NULL,
    shard_id <text> NOT NULL,
    start_kind <text> NOT NULL CHECK (start_kind IN ('AT', 'AFTER')),
    start_number <text> NOT NULL,
    start_key <text> NOT NULL,
    through <text> NOT NULL,
    through_key <text> NOT NULL,
    anchor <text>,
    state <text> NOT NULL CHECK (state IN ('planned', 'committed', 'lost')),
    batch_id <text> NOT NULL,
    rows BIGINT,
    bytes BIGINT,
    checksum <text>,
    closed_at_ms BIGINT,

    -- invariant 1: one start has one range, one end has one range
    PRIMARY KEY (pipeline, namespace, shard_id, start_key),
    UNIQUE (pipeline, namespace, shard_id, through_key),
    CONSTRAINT range_moves_forward CHECK (through_key > start_key),

    -- keys order as numbers do, and say what the exact texts beside them say
    CONSTRAINT range_start_key_is_of_its_number CHECK (
        length(start_number) <= {DIGITS} AND trim(start_number, '0123456789') = ''
        AND length(start_key) = {DIGITS} AND trim(start_key, '0123456789') = ''
        AND CASE start_kind WHEN 'AFTER' THEN start_key = {_START_NUMBER_KEY} ELSE start_key < {_START_NUMBER_KEY} END),
    CONSTRAINT range_through_key_is_of_its_end CHECK (
        CASE through WHEN 'SHARD_END' THEN through_key = through
        ELSE length(through) <= {DIGITS} AND trim(through, '0123456789') = '' AND through_key = {_THROUGH_KEY} END),

    -- a commit says what the file holds, and nothing else does
    CONSTRAINT range_contents_are_of_a_commit CHECK (
        CASE state WHEN 'committed' THEN rows IS NOT NULL AND bytes IS NOT NULL AND checksum IS NOT NULL
        ELSE rows IS NULL AND bytes IS NULL AND checksum IS NULL END),
    CONSTRAINT range_contents_are_counts CHECK (rows >= 0 AND bytes >= 0),
    CONSTRAINT range_closed_at_is_of_a_closed_range CHECK ((state = 'planned') = (closed_at_ms IS NULL))
) <options>;

-- invariant 2: at most one open range a chain
CREATE UNIQUE INDEX shardlake_one_open_range ON shardlake_ranges (pipeline, namespace, shard_id)
    WHERE state = 'planned';

-- open and lost ranges are few among many, and asked for by people
CREATE INDEX shardlake_uncommitted_ranges ON shardlake_ranges (state, pipeline, namespace, shard_id, start_key)
    WHERE state = 'planned' OR state = 'lost';
"""


def _changes(*columns: str) -> str:
    """SQL: one of the columns is not what it was."""
    return " OR ".join(f"coalesce(NEW.{column}, '') <> coalesce(OLD.{column}, '')" for column in columns)


_CHAIN = ("pipeline", "namespace", "shard_id")
_START = ("start_kind", "start_number", "start_key")

_GUARDS = [
    Guard(
        "shardlake_range_follows",
        "shardlake_ranges",
        "INSERT",
        # The chain's position: the end of its last range, or where the chain starts; no position while one is open.
        """NEW.start_key <> coalesce(
            (SELECT CASE last.state WHEN 'planned' THEN '' ELSE last.through_key END FROM shardlake_ranges AS last
             WHERE last.pipeline = NEW.pipeline AND last.namespace = NEW.namespace AND last.shard_id = NEW.shard_id
             ORDER BY last.start_key DESC LIMIT 1),
            (SELECT chain.start_key FROM shardlake_chains AS chain
             WHERE chain.pipeline = NEW.pipeline AND chain.namespace = NEW.namespace AND chain.shard_id = NEW.shard_id),
            '')""",
        "invariant 1: a range starts where the closed range before it ends, the first one where its chain starts",
    ),
    Guard(
        "shardlake_range_is_born_open",
        "shardlake_ranges",
        "INSERT",
        "NEW.state = 'committed'",
        "invariant 2: a range is planned before it is committed",
    ),
    Guard(
        "shardlake_range_changes_once",
        "shardlake_ranges",
        "UPDATE",
        "OLD.state <> 'planned' OR NEW.state <> 'committed' OR "
        + _changes(*_CHAIN, *_START, "through", "through_key", "anchor", "batch_id"),
        "invariant 3: a range changes once, from planned to committed, and only in what its file holds",
    ),
    Guard(
        "shardlake_range_is_kept",
        "shardlake_ranges",
        "DELETE",
        "OLD.state <> 'planned'",
        "invariant 3: a committed or lost range is never deleted",
    ),
    Guard(
        "shardlake_chain_keeps_its_start",
        "shardlake_chains",
        "UPDATE",
        _changes(*_CHAIN, *_START),
        "invariant 1: the start of a chain never changes",
    ),
    Guard("shardlake_chain_is_kept", "shardlake_chains", "DELETE", "true", "invariant 1: a chain is never deleted"),
]

_WRITTEN_ONCE = {
    "shardlake_ledger": ("only_row",),
    "shardlake_pipelines": ("pipeline",),
    "shardlake_batches": ("batch_id",),
}
_GUARDS += [
    Guard(f"{table}_{event.lower()}", table, event, "true", f"a row of {table} is written once and kept")
    for table in _WRITTEN_ONCE
    for event in ("UPDATE", "DELETE")
]

_KEYS = {"shardlake_chains": _CHAIN, **_WRITTEN_ONCE}
"""Guarded tables where a new row could be in the way of an old one.

A range cannot: one with the start of another does not follow it.
"""


def statements(dialect: str) -> list[str]:
    """The statements that make version 1 in an empty database, for `sqlite` or `postgresql`."""
    if dialect == "sqlite":
        tables = _TABLES.replace("<text>", "TEXT").replace("<options>", "WITHOUT ROWID")
        ledger_id = "lower(hex(randomblob(16)))"
        guards = guards_in_sqlite([*_GUARDS, *(no_replacing(table, key) for table, key in _KEYS.items())])
    else:
        tables = _TABLES.replace("<text>", 'TEXT COLLATE "C"').replace("<options>", "")
        ledger_id = "replace(gen_random_uuid()::text, '-', '')"
        guards = guards_in_postgresql([*_GUARDS, *map(no_truncating, ("shardlake_ranges", *_KEYS))])
    return [
        *tables.split(";")[:-1],
        f"INSERT INTO shardlake_ledger (only_row, ledger_id) VALUES (1, {ledger_id})",  # noqa: S608 (names of this module)
        *guards,
    ]
