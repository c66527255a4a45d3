"""What the SQL ledger's transactions are made of: reads and writes of one table or two, each on a connection."""

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from shardlake.ledger import Chain, LedgerRange, queries, tables
from shardlake.ledger.chain import chain_of
from shardlake.ranges import Position, SequenceRange
from shardlake.shards import Shard

PAGE_ROWS = 1000
"""Rows of one page of ranges, and ranges looked up by one statement."""


def key_of(range_: SequenceRange) -> queries.Key:
    """Shard id and start key of a range."""
    return range_.shard_id, range_.start.key


def shards(connection: sa.Connection, pipeline: str) -> dict[str, Shard]:
    """Every shard of a pipeline, by shard id."""
    t = tables.shards
    columns = (column for column in t.c if column is not t.c.pipeline)
    rows = connection.execute(sa.select(*columns).where(t.c.pipeline == pipeline).order_by(t.c.shard_id))
    return {row.shard_id: tables.shard(row) for row in rows}


def chains(connection: sa.Connection, pipeline: str, namespace: str, shard_id: str | None = None) -> dict[str, Chain]:
    """Where the chains of a namespace stand, or that of one shard, by shard id."""
    found = {}
    for id_, kind, number, key, at_ms, *tip in connection.execute(
        queries.tips(connection.dialect.name, pipeline, namespace, shard_id)
    ):
        last = None if tip[0] is None else tables.ledger_range(tip)
        found[id_] = chain_of(id_, tables.position(kind, number), last, None if key is None else (key, at_ms))
    return found


def open_chains(connection: sa.Connection, pipeline: str, namespace: str, starts: Mapping[str, Position]) -> None:
    """Open the chains of shards that have none; one that is there already keeps its start."""
    t = tables.chains
    known = set(
        connection.execute(
            sa.select(t.c.shard_id).where(t.c.pipeline == pipeline, t.c.namespace == namespace)
        ).scalars()
    )
    new = (tables.chain_row(pipeline, namespace, id_, start) for id_, start in starts.items() if id_ not in known)
    insert(connection, t, new)


def batch(connection: sa.Connection, batch_id: str) -> str | None:
    """The text of a pinned plan, or None."""
    return connection.execute(
        sa.select(tables.batches.c.plan).where(tables.batches.c.batch_id == batch_id)
    ).scalar_one_or_none()


def backfill(connection: sa.Connection, pipeline: str, namespace: str) -> str | None:
    """The text of a backfill, or None."""
    t = tables.backfills
    return connection.execute(
        sa.select(t.c.bounds).where(t.c.pipeline == pipeline, t.c.namespace == namespace)
    ).scalar_one_or_none()


def ranges_at_starts(
    connection: sa.Connection, pipeline: str, namespace: str, wanted: Sequence[SequenceRange]
) -> dict[queries.Key, LedgerRange]:
    """The rows that start where the wanted ranges do, by shard id and start key."""
    keys = [key_of(range_) for range_ in wanted]
    found: dict[queries.Key, LedgerRange] = {}
    for first in range(0, len(keys), PAGE_ROWS):
        page = queries.at_starts(connection.dialect.name, pipeline, namespace, keys[first : first + PAGE_ROWS])
        rows = (tables.ledger_range(row) for row in connection.execute(page) if row.shard_id is not None)
        found.update({key_of(row.range): row for row in rows})
    return found


def insert_ranges(connection: sa.Connection, pipeline: str, namespace: str, rows: Iterable[LedgerRange]) -> None:
    """Add rows to the ends of chains."""
    insert(connection, tables.ranges, (tables.range_row(pipeline, namespace, row) for row in rows))


def commit_ranges(pipeline: str, namespace: str) -> sa.Update:
    """The change of open ranges, given by `of_shard` and `at_start`, to committed ones."""
    t = tables.ranges
    return (
        sa.update(t)
        .where(t.c.pipeline == pipeline, t.c.namespace == namespace)
        .where(t.c.shard_id == sa.bindparam("of_shard"), t.c.start_key == sa.bindparam("at_start"))
        .values({name: sa.bindparam(name) for name in ("rows", "bytes", "checksum", "closed_at_ms")})
        .values(state="committed")
    )


def delete_range(connection: sa.Connection, pipeline: str, namespace: str, range_: SequenceRange) -> None:
    """Take out the row that starts where `range_` does; the database refuses that of a closed one."""
    t = tables.ranges
    of_chain = (t.c.pipeline == pipeline, t.c.namespace == namespace, t.c.shard_id == range_.shard_id)
    connection.execute(sa.delete(t).where(*of_chain, t.c.start_key == range_.start.key))


def insert(connection: sa.Connection, table: sa.TableClause, rows: Iterable[dict[str, object]]) -> None:
    """Add rows to a table."""
    execute_many(connection, sa.insert(table), list(rows))


def execute_many(
    connection: sa.Connection, statement: sa.Insert | sa.Update, rows: Sequence[dict[str, object]]
) -> None:
    """Execute a statement once for each row of parameters; not at all where there is none."""
    if rows:
        connection.execute(statement, rows)
