"""The ledger in SQLite or PostgreSQL: the contract's methods, each one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

import sqlalchemy as sa

from shardlake.caught_up import CaughtUp
from shardlake.ledger import (
    NO_NOTES,
    Chain,
    Contents,
    Identity,
    JournalEntry,
    Ledger,
    LedgerRange,
    State,
    journal,
    migrations,
    queries,
    statements,
    tables,
)
from shardlake.ledger.chain import (
    check_abandon,
    check_backfill,
    check_loss,
    choose,
    conflict,
    contents_of,
    is_open,
    merge_listing,
    was_seen,
)
from shardlake.ledger.database import Database
from shardlake.ledger.restoring import Told
from shardlake.plan import BatchPlan
from shardlake.ranges import Position, SequenceRange
from shardlake.shards import Shard


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
            return statements.shards(connection, pipeline)

    def record_listing(
        self,
        pipeline: str,
        namespace: str,
        listed: Sequence[Shard],
        starts: Mapping[str, Position],
        caught_up: Mapping[str, CaughtUp] = NO_NOTES,
        *,
        first: bool = False,
    ) -> bool:
        t = tables.shards
        with self._database.writing(pipeline) as connection:
            known = statements.shards(connection, pipeline)
            if first and known:
                return False
            changed = merge_listing(known, listed)
            statements.insert(
                connection, t, (tables.shard_row(pipeline, s) for id_, s in changed.items() if id_ not in known)
            )
            update = (
                sa.update(t)
                .where(t.c.pipeline == pipeline, t.c.shard_id == sa.bindparam("of_shard"))
                .values(ending_sequence_number=sa.bindparam("ending"), missing=sa.bindparam("missing_now"))
            )
            statements.execute_many(
                connection,
                update,
                [
                    {"of_shard": id_, "ending": s.ending_sequence_number, "missing_now": s.missing}
                    for id_, s in changed.items()
                    if id_ in known
                ],
            )
            statements.open_chains(connection, pipeline, namespace, starts)
            statements.note_caught_up(connection, pipeline, namespace, caught_up)
            return True

    def open_backfill(self, pipeline: str, namespace: str, text: str, starts: Mapping[str, Position]) -> str:
        with self._database.writing(pipeline) as connection:
            stored = statements.backfill(connection, pipeline, namespace)
            if stored is not None:
                return stored
            check_backfill(namespace)
            statements.insert_backfill(connection, pipeline, namespace, text, _local_time_ms())
            statements.open_chains(connection, pipeline, namespace, starts)
            return text

    def backfill(self, pipeline: str, namespace: str) -> str | None:
        with self._database.reading() as connection:
            return statements.backfill(connection, pipeline, namespace)

    def backfills(self, pipeline: str) -> dict[str, str]:
        with self._database.reading() as connection:
            return statements.backfills(connection, pipeline)

    def chains(self, pipeline: str, namespace: str) -> dict[str, Chain]:
        with self._database.reading() as connection:
            return statements.chains(connection, pipeline, namespace)

    def batch(self, batch_id: str) -> str | None:
        with self._database.reading() as connection:
            return statements.batch(connection, batch_id)

    def pin(self, draft: BatchPlan, proposed: Sequence[SequenceRange], group_size: int) -> str:
        with self._database.writing(draft.pipeline) as connection:
            pinned = statements.batch(connection, draft.batch_id)
            if pinned is not None:
                return pinned
            chosen, new = choose(proposed, statements.chains(connection, draft.pipeline, draft.namespace))
            rows = (LedgerRange(range_, "planned", draft.batch_id, None, None) for range_ in new)
            statements.insert_ranges(connection, draft.pipeline, draft.namespace, rows)
            text = draft.with_ranges(chosen, group_size).to_text()
            statements.insert_batch(connection, draft, text, _local_time_ms())
            return text

    def commit(
        self,
        plan: BatchPlan,
        contents: Mapping[SequenceRange, Contents],
        seen: Mapping[SequenceRange, str] | None = None,
    ) -> list[str]:
        messages = []
        closed = []
        now = _local_time_ms()
        with self._database.writing(plan.pipeline) as connection:
            chains = statements.chains(connection, plan.pipeline, plan.namespace)
            rows = statements.ranges_at_starts(connection, plan.pipeline, plan.namespace, list(contents))
            for range_, held in contents.items():
                chain, row = chains.get(range_.shard_id), rows.get(statements.key_of(range_))
                if row and is_open(range_, chain) and was_seen(row, seen):
                    closed.append(statements.closing(range_, held, now))
                elif message := conflict(range_, held, row, chain):
                    messages.append(message)
            statements.execute_many(connection, statements.commit_ranges(plan.pipeline, plan.namespace), closed)
        return messages

    def committed(self, plan: BatchPlan) -> dict[SequenceRange, Contents]:
        with self._database.reading() as connection:
            rows = statements.ranges_at_starts(connection, plan.pipeline, plan.namespace, list(plan.ranges))
        return contents_of(plan, rows)

    def declare_lost(
        self, pipeline: str, namespace: str, batch_id: str, lost: SequenceRange, rest: SequenceRange | None
    ) -> None:
        with self._database.writing(pipeline) as connection:
            there = statements.ranges_at_starts(connection, pipeline, namespace, [lost]).get(statements.key_of(lost))
            if there and there.state == "lost" and there.range.through == lost.through:
                return
            check_loss(statements.chains(connection, pipeline, namespace, lost.shard_id).get(lost.shard_id), lost, rest)
            if there:
                statements.delete_range(connection, pipeline, namespace, lost)
            rows = [LedgerRange(lost, "lost", batch_id, None, _local_time_ms())]
            if rest:
                rows.append(LedgerRange(rest, "planned", batch_id, None, None))
            statements.insert_ranges(connection, pipeline, namespace, rows)

    def abandon(self, entry: JournalEntry, remove_files: Callable[[], None]) -> None:
        scope = (entry.pipeline, entry.namespace)
        with self._database.writing(entry.pipeline) as connection:
            chain = statements.chains(connection, *scope, entry.range.shard_id).get(entry.range.shard_id)
            check_abandon(chain, entry)
            remove_files()
            statements.delete_range(connection, *scope, entry.range)
            journal.append(connection, entry)

    def record(self, entry: JournalEntry) -> None:
        with self._database.writing(entry.pipeline) as connection:
            journal.append(connection, entry)

    def journal(self, pipeline: str) -> list[JournalEntry]:
        with self._database.reading() as connection:
            return journal.entries(connection, pipeline)

    def ranges(
        self, pipeline: str, namespace: str, shard_id: str | None = None, state: State | None = None
    ) -> Iterator[LedgerRange]:
        behind = None
        while True:
            with self._database.reading() as connection:
                dialect = connection.dialect.name
                page = queries.page(dialect, pipeline, namespace, shard_id, state, behind, statements.PAGE_ROWS)
                rows = [tables.ledger_range(row) for row in connection.execute(page)]
            yield from rows
            if len(rows) < statements.PAGE_ROWS:
                return
            behind = statements.key_of(rows[-1].range)

    def restore(self, pipeline: str, shards: Sequence[Shard], told: Sequence[Told]) -> None:
        with self._database.writing(pipeline) as connection:
            known, backfills = statements.shards(connection, pipeline), statements.backfills(connection, pipeline)
            new = (tables.shard_row(pipeline, shard) for shard in shards if shard.shard_id not in known)
            statements.insert(connection, tables.shards, new)
            for each in told:
                if each.bounds is not None and each.namespace not in backfills:
                    statements.insert_backfill(connection, pipeline, each.namespace, each.bounds, each.opened_at_ms)
                statements.restore(connection, pipeline, each)


def _local_time_ms() -> int:
    return time.time_ns() // 1_000_000
