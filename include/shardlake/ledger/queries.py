"""The ledger's larger queries. None looks at more ranges than it returns, however many there are."""

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from shardlake.ledger import State
from shardlake.ledger.tables import chains, ranges, value_columns

Key = tuple[str, str]
"""Shard id and start key of a range."""


def tips(
    dialect: str, pipeline: str, namespace: str, shard_id: str | None, retention: sa.ColumnElement[int]
) -> sa.Select[Any]:
    """Chains, each with its last range, by shard id.

    Columns: shard_id, start_kind, start_number, caught_up_key, caught_up_at_ms, the retention of that note, then
    `value_columns` (nulls: no range).
    """

    def of_chain(rows: sa.FromClause) -> sa.ColumnElement[bool]:
        return sa.and_(*(rows.c[name] == chains.c[name] for name in ("pipeline", "namespace", "shard_id")))

    all_ = ranges.alias("all_ranges")
    last = sa.select(sa.func.max(all_.c.start_key)).where(of_chain(all_)).correlate(chains).scalar_subquery()
    found, joined = _beside(dialect, chains, lambda rows: sa.and_(of_chain(rows), rows.c.start_key == last))
    own = (chains.c[name] for name in ("shard_id", "start_kind", "start_number", "caught_up_key", "caught_up_at_ms"))
    return (
        sa.select(*own, retention, *value_columns(found))
        .select_from(joined)
        .where(chains.c.pipeline == pipeline, chains.c.namespace == namespace)
        .where(*([] if shard_id is None else [chains.c.shard_id == shard_id]))
        .order_by(chains.c.shard_id)
    )


def at_starts(dialect: str, pipeline: str, namespace: str, keys: Sequence[Key]) -> sa.Select[Any]:
    """The ranges with these keys, as `value_columns` (nulls: no such range)."""
    columns = (sa.column("shard_id", sa.Text), sa.column("start_key", sa.Text))
    given = sa.values(*columns, name="given").data(list(keys)).cte()
    return _of_keys(dialect, pipeline, namespace, given)


def page(
    dialect: str,
    pipeline: str,
    namespace: str,
    shard_id: str | None,
    state: State | None,
    behind: Key | None,
    rows: int,
) -> sa.Select[Any]:
    """The next ranges behind a key, by shard id and start, as `value_columns`."""
    keys = (
        sa.select(ranges.c.shard_id, ranges.c.start_key)
        .where(ranges.c.pipeline == pipeline, ranges.c.namespace == namespace)
        .order_by(ranges.c.shard_id, ranges.c.start_key)
        .limit(rows)
    )
    if shard_id is not None:
        keys = keys.where(ranges.c.shard_id == shard_id)
    if state is not None:
        # Written into the statement, so that the partial index of open and lost ranges serves it. SQLite takes that
        # index only where it covers the query: hence keys first, then their rows.
        keys = keys.where(ranges.c.state == sa.literal(state, sa.String, literal_execute=True))
    if behind is not None:
        keys = keys.where(sa.tuple_(ranges.c.shard_id, ranges.c.start_key) > sa.tuple_(*behind))
    given = keys.cte()
    return _of_keys(dialect, pipeline, namespace, given).order_by(given.c.shard_id, given.c.start_key)


def _of_keys(dialect: str, pipeline: str, namespace: str, given: sa.CTE) -> sa.Select[Any]:
    found, joined = _beside(
        dialect,
        given,
        lambda rows: sa.and_(
            rows.c.pipeline == pipeline,
            rows.c.namespace == namespace,
            rows.c.shard_id == given.c.shard_id,
            rows.c.start_key == given.c.start_key,
        ),
    )
    return sa.select(*value_columns(found)).select_from(joined)


def _beside(
    dialect: str, left: sa.FromClause, is_its_range: Callable[[sa.FromClause], sa.ColumnElement[bool]]
) -> tuple[sa.FromClause, sa.FromClause]:
    """The one range, if any, that belongs to each row of `left`, and the join of both: a seek by key for each row.

    SQLite joins from the left, by index. PostgreSQL would be free to look through all ranges instead; LIMIT 1 leaves it
    no way to.
    """
    if dialect == "postgresql":
        one = sa.select(ranges).where(is_its_range(ranges)).limit(1).lateral("found")
        return one, left.outerjoin(one, sa.true())
    found = ranges.alias("found")
    return found, left.outerjoin(found, is_its_range(found))
