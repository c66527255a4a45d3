"""What the SQL ledger's transactions are made of: reads and writes of one table or two, each on a connection."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import zip_longest

import sqlalchemy as sa

from shardlake.caught_up import CaughtUp
from shardlake.ledger import Chain, Contents, LedgerRange, queries, tables
from shardlake.ledger.chain import chain_of, is_news
from shardlake.ledger.restoring import Lack, Told, lacking
from shardlake.plan import BatchPlan, digest
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


def chains(
    connection: sa.Connection,
    pipeline: str,
    namespace: str,
    shard_id: str | None = None,
    *,
    retention: sa.ColumnElement[int] = tables.chains.c.caught_up_retention_ms,
) -> dict[str, Chain]:
    """Where the chains of a namespace stand, or that of one shard, by shard id.

    Args:
        retention: the retention under which a chain's note was made.
    """
    found = {}
    for id_, kind, number, key, at_ms, retention_ms, *tip in connection.execute(
        queries.tips(connection.dialect.name, pipeline, namespace, shard_id, retention)
    ):
        last = None if tip[0] is None else tables.ledger_range(tip)
        caught_up = None if key is None else CaughtUp(key, at_ms, retention_ms)
        found[id_] = chain_of(id_, tables.position(kind, number), last, caught_up)
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


def note_caught_up(connection: sa.Connection, pipeline: str, namespace: str, notes: Mapping[str, CaughtUp]) -> None:
    """Note behind which positions nothing was found, for the chains that stand there."""
    t = tables.chains
    update = (
        sa.update(t)
        .where(t.c.pipeline == pipeline, t.c.namespace == namespace, t.c.shard_id == sa.bindparam("of_shard"))
        .values({f"caught_up_{name}": sa.bindparam(name) for name in ("key", "at_ms", "retention_ms")})
    )
    stand = chains(connection, pipeline, namespace) if notes else {}
    news = [
        {"of_shard": shard_id, **asdict(note)} for shard_id, note in notes.items() if is_news(stand.get(shard_id), note)
    ]
    execute_many(connection, update, news)


def batch(connection: sa.Connection, batch_id: str) -> str | None:
    """The text of a pinned plan, or None."""
    return connection.execute(
        sa.select(tables.batches.c.plan).where(tables.batches.c.batch_id == batch_id)
    ).scalar_one_or_none()


def insert_batch(connection: sa.Connection, plan: BatchPlan, text: str, created_at_ms: int) -> None:
    """Add a batch, whose plan has this text."""
    values = {
        "batch_id": plan.batch_id,
        "pipeline": plan.pipeline,
        "namespace": plan.namespace,
        "dag_id": plan.run.dag_id,
        "run_id": plan.run.run_id,
        "plan": text,
        "digest": digest(text),
        "created_at_ms": created_at_ms,
    }
    connection.execute(sa.insert(tables.batches), values)


def backfill(connection: sa.Connection, pipeline: str, namespace: str) -> str | None:
    """The text of a backfill, or None."""
    t = tables.backfills
    return connection.execute(
        sa.select(t.c.bounds).where(t.c.pipeline == pipeline, t.c.namespace == namespace)
    ).scalar_one_or_none()


def backfills(connection: sa.Connection, pipeline: str) -> dict[str, str]:
    """The text of every backfill by its namespace, the first opened first."""
    t = tables.backfills
    opened = sa.select(t.c.namespace, t.c.bounds).where(t.c.pipeline == pipeline)
    rows = connection.execute(opened.order_by(t.c.created_at_ms, t.c.namespace))
    return {row.namespace: row.bounds for row in rows}


def insert_backfill(connection: sa.Connection, pipeline: str, namespace: str, text: str, created_at_ms: int) -> None:
    """Add a backfill."""
    values = {"pipeline": pipeline, "namespace": namespace, "bounds": text, "created_at_ms": created_at_ms}
    connection.execute(sa.insert(tables.backfills), values)


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


def closing(range_: SequenceRange, contents: Contents, closed_at_ms: int | None) -> dict[str, object]:
    """The parameters of `commit_ranges` for a range."""
    of_range = {"of_shard": range_.shard_id, "at_start": range_.start.key}
    return {**of_range, **asdict(contents), "closed_at_ms": closed_at_ms}


def delete_range(connection: sa.Connection, pipeline: str, namespace: str, range_: SequenceRange) -> None:
    """Take out the row that starts where `range_` does; the database refuses that of a closed one."""
    t = tables.ranges
    of_chain = (t.c.pipeline == pipeline, t.c.namespace == namespace, t.c.shard_id == range_.shard_id)
    connection.execute(sa.delete(t).where(*of_chain, t.c.start_key == range_.start.key))


def restore(connection: sa.Connection, pipeline: str, told: Told) -> None:
    """Add what a namespace lacks of what its dataset tells.

    Raises:
        ConflictError: as `Ledger.restore`.
    """
    scope, t = (pipeline, told.namespace), tables.ranges
    of_namespace = (t.c.pipeline == pipeline, t.c.namespace == told.namespace)
    there = sa.select(*tables.value_columns(t)).where(*of_namespace).order_by(t.c.shard_id, t.c.start_key)
    rows = [tables.ledger_range(row) for row in connection.execute(there)]
    lacks = lacking(told, chains(connection, *scope), rows)
    open_chains(connection, *scope, told.starts)
    note_caught_up(connection, *scope, told.caught_up)
    for lack in lacks:
        if lack.in_the_way:
            delete_range(connection, *scope, lack.in_the_way)
    _append(connection, *scope, lacks)
    b = tables.batches
    known = set(connection.execute(sa.select(b.c.batch_id).where(b.c.pipeline == pipeline)).scalars())
    for plan in told.batches:
        if plan.batch_id not in known:
            insert_batch(connection, plan, plan.to_text(), plan.planned_at_ms)


def _append(connection: sa.Connection, pipeline: str, namespace: str, lacks: Iterable[Lack]) -> None:
    """Add rows to the ends of chains: the first of each, then the second of each, for a range follows a closed one."""
    for layer in zip_longest(*(lack.rows for lack in lacks)):
        rows = [row for row in layer if row]
        born = [
            replace(row, state="planned", contents=None, closed_at_ms=None) if row.contents else row for row in rows
        ]
        insert_ranges(connection, pipeline, namespace, born)
        closed = [closing(row.range, row.contents, row.closed_at_ms) for row in rows if row.contents]
        execute_many(connection, commit_ranges(pipeline, namespace), closed)


def insert(connection: sa.Connection, table: sa.TableClause, rows: Iterable[dict[str, object]]) -> None:
    """Add rows to a table."""
    execute_many(connection, sa.insert(table), list(rows))


def execute_many(
    connection: sa.Connection, statement: sa.Insert | sa.Update, rows: Sequence[dict[str, object]]
) -> None:
    """Execute a statement once for each row of parameters; not at all where there is none."""
    if rows:
        connection.execute(statement, rows)
