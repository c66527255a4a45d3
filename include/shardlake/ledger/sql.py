"""The ledger in SQLite or PostgreSQL: the contract's methods, each one transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

import sqlalchemy as sa

from shardlake.ledger import Chain, Contents, Identity, Ledger, LedgerRange, State, migrations, queries, tables
from shardlake.ledger.chain import chain_of, check_loss, choose, conflict, contents_of, is_news, is_open, merge_listing
from shardlake.ledger.database import Database
from shardlake.plan import BatchPlan, digest
from shardlake.ranges import Position, SequenceRange
from shardlake.shards import Shard

PAGE_ROWS = 1000
"""Rows of one page of `ranges`, and ranges looked up by one statement."""


class SqlLedger(Ledger):
    """A ledger in a database whose schema is up to date; `open` sees to that."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.reading() as connection:
            self._ledger_id: str = connection.execute(sa.select(tables.ledger.c.ledger_id)).scalar_one()

    @classmethod
    def open(cls, url: str) -> SqlLedger:
        """The ledger at a SQLAlchemy URL, its schema brought up to date; SQLite makes its file.

        Raises:
            ConfigError: the URL is not one of a supported store, or the schema is newer than this code.
            UnavailableError: the store cannot be reached or written.
        """
        database = Database(url)
        migrations.bring_up_to_date(database)
        return cls(database)

    @property
    def ledger_id(self) -> str:
        return self._ledger_id

    def claim(self, identity: Identity) -> Identity:
        stored = sa.select(tables.pipelines).where(tables.pipelines.c.pipeline == identity.pipeline)
        with self._database.writing(identity.pipeline) as connection:
            row = connection.execute(stored).one_or_none()
            if row is None:
                connection.execute(sa.insert(tables.pipelines), asdict(identity))
            return Identity(*row) if row else identity

    def shards(self, pipeline: str) -> dict[str, Shard]:
        with self._database.reading() as connection:
            return _shards(connection, pipeline)

    def record_listing(
        self, pipeline: str, namespace: str, listed: Sequence[Shard], starts: Mapping[str, Position]
    ) -> None:
        t = tables.shards
        with self._database.writing(pipeline) as connection:
            known = _shards(connection, pipeline)
            changed = merge_listing(known, listed)
            _insert(connection, t, (tables.shard_row(pipeline, s) for id_, s in changed.items() if id_ not in known))
            update = (
                sa.update(t)
                .where(t.c.pipeline == pipeline, t.c.shard_id == sa.bindparam("of_shard"))
                .values(ending_sequence_number=sa.bindparam("ending"), missing=sa.bindparam("missing_now"))
            )
            _execute_many(
                connection,
                update,
                [
                    {"of_shard": id_, "ending": s.ending_sequence_number, "missing_now": s.missing}
                    for id_, s in changed.items()
                    if id_ in known
                ],
            )
            _open_chains(connection, pipeline, namespace, starts)

    def open_chains(self, pipeline: str, namespace: str, starts: Mapping[str, Position]) -> None:
        with self._database.writing(pipeline) as connection:
            _open_chains(connection, pipeline, namespace, starts)

    def chains(self, pipeline: str, namespace: str) -> dict[str, Chain]:
        with self._database.reading() as connection:
            return _chains(connection, pipeline, namespace)

    def mark_caught_up(self, pipeline: str, namespace: str, at_ms: Mapping[str, tuple[Position, int]]) -> None:
        t = tables.chains
        update = (
            sa.update(t)
            .where(t.c.pipeline == pipeline, t.c.namespace == namespace, t.c.shard_id == sa.bindparam("of_shard"))
            .values(caught_up_key=sa.bindparam("key"), caught_up_at_ms=sa.bindparam("at_ms"))
        )
        with self._database.writing(pipeline) as connection:
            chains = _chains(connection, pipeline, namespace)
            _execute_many(
                connection,
                update,
                [
                    {"of_shard": shard_id, "key": position.key, "at_ms": service_ms}
                    for shard_id, (position, service_ms) in at_ms.items()
                    if is_news(chains.get(shard_id), position, service_ms)
                ],
            )

    def batch(self, batch_id: str) -> str | None:
        with self._database.reading() as connection:
            return _batch(connection, batch_id)

    def pin(self, draft: BatchPlan, proposed: Sequence[SequenceRange], group_size: int) -> str:
        with self._database.writing(draft.pipeline) as connection:
            pinned = _batch(connection, draft.batch_id)
            if pinned is not None:
                return pinned
            chosen, new = choose(proposed, _chains(connection, draft.pipeline, draft.namespace))
            rows = (LedgerRange(range_, "planned", draft.batch_id, None, None) for range_ in new)
            _insert_ranges(connection, draft.pipeline, draft.namespace, rows)
            text = draft.with_ranges(chosen, group_size).to_text()
            connection.execute(
                sa.insert(tables.batches),
                {
                    "batch_id": draft.batch_id,
                    "pipeline": draft.pipeline,
                    "namespace": draft.namespace,
                    "dag_id": draft.run.dag_id,
                    "run_id": draft.run.run_id,
                    "plan": text,
                    "digest": digest(text),
                    "created_at_ms": _local_time_ms(),
                },
            )
            return text

    def commit(self, plan: BatchPlan, contents: Mapping[SequenceRange, Contents]) -> list[str]:
        messages = []
        closed = []
        now = _local_time_ms()
        with self._database.writing(plan.pipeline) as connection:
            chains = _chains(connection, plan.pipeline, plan.namespace)
            others = [range_ for range_ in contents if not is_open(range_, chains.get(range_.shard_id))]
            rows = _ranges_at_starts(connection, plan.pipeline, plan.namespace, others)
            for range_, held in contents.items():
                chain = chains.get(range_.shard_id)
                if is_open(range_, chain):
                    of_range = {"of_shard": range_.shard_id, "at_start": range_.start.key}
                    closed.append({**of_range, **asdict(held), "closed_at_ms": now})
                elif message := conflict(range_, held, rows.get(_key(range_)), chain):
                    messages.append(message)
            _execute_many(connection, _commit(plan.pipeline, plan.namespace), closed)
        return messages

    def committed(self, plan: BatchPlan) -> dict[SequenceRange, Contents]:
        with self._database.reading() as connection:
            rows = _ranges_at_starts(connection, plan.pipeline, plan.namespace, list(plan.ranges))
        return contents_of(plan, rows)

    def declare_lost(
        self, pipeline: str, namespace: str, batch_id: str, lost: SequenceRange, rest: SequenceRange | None
    ) -> None:
        with self._database.writing(pipeline) as connection:
            there = _ranges_at_starts(connection, pipeline, namespace, [lost]).get(_key(lost))
            if there and there.state == "lost" and there.range.through == lost.through:
                return
            check_loss(_chains(connection, pipeline, namespace, lost.shard_id).get(lost.shard_id), lost, rest)
            if there:
                t = tables.ranges
                of_chain = (t.c.pipeline == pipeline, t.c.namespace == namespace, t.c.shard_id == lost.shard_id)
                connection.execute(sa.delete(t).where(*of_chain, t.c.start_key == lost.start.key))
            rows = [LedgerRange(lost, "lost", batch_id, None, _local_time_ms())]
            if rest:
                rows.append(LedgerRange(rest, "planned", batch_id, None, None))
            _insert_ranges(connection, pipeline, namespace, rows)

    def ranges(
        self, pipeline: str, namespace: str, shard_id: str | None = None, state: State | None = None
    ) -> Iterator[LedgerRange]:
        behind = None
        while True:
            with self._database.reading() as connection:
                dialect = connection.dialect.name
                page = queries.page(dialect, pipeline, namespace, shard_id, state, behind, PAGE_ROWS)
                rows = [tables.ledger_range(row) for row in connection.execute(page)]
            yield from rows
            if len(rows) < PAGE_ROWS:
                return
            behind = _key(rows[-1].range)


def _key(range_: SequenceRange) -> queries.Key:
    return range_.shard_id, range_.start.key


def _shards(connection: sa.Connection, pipeline: str) -> dict[str, Shard]:
    t = tables.shards
    columns = (column for column in t.c if column is not t.c.pipeline)
    rows = connection.execute(sa.select(*columns).where(t.c.pipeline == pipeline).order_by(t.c.shard_id))
    return {row.shard_id: tables.shard(row) for row in rows}


def _chains(connection: sa.Connection, pipeline: str, namespace: str, shard_id: str | None = None) -> dict[str, Chain]:
    found = {}
    for id_, kind, number, key, at_ms, *tip in connection.execute(
        queries.tips(connection.dialect.name, pipeline, namespace, shard_id)
    ):
        last = None if tip[0] is None else tables.ledger_range(tip)
        found[id_] = chain_of(id_, tables.position(kind, number), last, None if key is None else (key, at_ms))
    return found


def _open_chains(connection: sa.Connection, pipeline: str, namespace: str, starts: Mapping[str, Position]) -> None:
    t = tables.chains
    known = set(
        connection.execute(
            sa.select(t.c.shard_id).where(t.c.pipeline == pipeline, t.c.namespace == namespace)
        ).scalars()
    )
    new = (tables.chain_row(pipeline, namespace, id_, start) for id_, start in starts.items() if id_ not in known)
    _insert(connection, t, new)


def _batch(connection: sa.Connection, batch_id: str) -> str | None:
    return connection.execute(
        sa.select(tables.batches.c.plan).where(tables.batches.c.batch_id == batch_id)
    ).scalar_one_or_none()


def _ranges_at_starts(
    connection: sa.Connection, pipeline: str, namespace: str, wanted: Sequence[SequenceRange]
) -> dict[queries.Key, LedgerRange]:
    """The rows that start where the wanted ranges do, by shard id and start key."""
    keys = [_key(range_) for range_ in wanted]
    found: dict[queries.Key, LedgerRange] = {}
    for first in range(0, len(keys), PAGE_ROWS):
        page = queries.at_starts(connection.dialect.name, pipeline, namespace, keys[first : first + PAGE_ROWS])
        rows = (tables.ledger_range(row) for row in connection.execute(page) if row.shard_id is not None)
        found.update({_key(row.range): row for row in rows})
    return found


def _commit(pipeline: str, namespace: str) -> sa.Update:
    """The change of open ranges, given by `of_shard` and `at_start`, to committed ones."""
    t = tables.ranges
    return (
        sa.update(t)
        .where(t.c.pipeline == pipeline, t.c.namespace == namespace)
        .where(t.c.shard_id == sa.bindparam("of_shard"), t.c.start_key == sa.bindparam("at_start"))
        .values({name: sa.bindparam(name) for name in ("rows", "bytes", "checksum", "closed_at_ms")})
        .values(state="committed")
    )


def _insert_ranges(connection: sa.Connection, pipeline: str, namespace: str, rows: Iterable[LedgerRange]) -> None:
    _insert(connection, tables.ranges, (tables.range_row(pipeline, namespace, row) for row in rows))


def _insert(connection: sa.Connection, table: sa.TableClause, rows: Iterable[dict[str, object]]) -> None:
    _execute_many(connection, sa.insert(table), list(rows))


def _execute_many(
    connection: sa.Connection, statement: sa.Insert | sa.Update, rows: Sequence[dict[str, object]]
) -> None:
    if rows:
        connection.execute(statement, rows)


def _local_time_ms() -> int:
    return time.time_ns() // 1_000_000
