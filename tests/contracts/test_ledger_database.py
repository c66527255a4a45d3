"""The SQL ledger as a guest of its database: URLs, schema versions, failures, and what its statements cost."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

import shardlake
from shardlake.caught_up import CaughtUp
from shardlake.errors import ConfigError, UnavailableError
from shardlake.ledger import Contents, JournalEntry, Ledger, State, database, migrations, open_ledger, queries, tables
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SequenceNumber, SequenceRange, Start

STREAM = Stream("s", "arn", 1, 2, "eu-west-1", None)
SHARDS = ("s0", "s1", "s2", "s3")


def draft(run: str) -> BatchPlan:
    return BatchPlan(f"b-{run}", "p", "live", Run("d", run), STREAM, "/lake", "a" * 32, 0, False, ())


def range_of(shard_id: str, start: int, through: int) -> SequenceRange:
    first = SequenceNumber(str(start))
    return SequenceRange(shard_id, Start("AFTER", first), SequenceNumber(str(through)), first)


@contextmanager
def raw(url: str) -> Iterator[sa.Connection]:
    """A connection of our own; each statement is its own transaction."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        yield connection


@contextmanager
def whenever(name: str, call: Callable[..., None]) -> Iterator[None]:
    """`call` on an event of every engine."""
    event.listen(sa.Engine, name, call)
    try:
        yield
    finally:
        event.remove(sa.Engine, name, call)


class TestUrls:
    @pytest.mark.parametrize(
        "url",
        [
            "sqlite://",
            "sqlite:///",
            "sqlite:///:memory:",
            "sqlite:///file::memory:?uri=true",
            "sqlite:///file:x?mode=memory&uri=true",
        ],
    )
    def test_a_ledger_in_memory_is_refused(self, url: str) -> None:
        with pytest.raises(
            ConfigError, match=r"is in memory: nothing would survive.*Write sqlite:////absolute/path.db"
        ):
            open_ledger(url)

    @pytest.mark.parametrize("scheme", ["mysql", "postgresql", "postgresql+psycopg2", "sqlite+aiosqlite", "redis"])
    def test_another_store_is_refused(self, scheme: str) -> None:
        with pytest.raises(ConfigError) as caught:
            open_ledger(f"{scheme}://user:s3cret@host/db")
        assert str(caught.value) == (
            f"a ledger cannot be kept in {scheme}://. "
            "Write sqlite:////absolute/path.db or postgresql+psycopg://user@host/database"
        )

    @pytest.mark.parametrize("url", ["", "ledger.db", "postgresql+psycopg://user:s3cret@host:s3cret/db"])
    def test_what_is_not_a_url_is_refused_without_being_shown(self, url: str) -> None:
        with pytest.raises(ConfigError, match="the ledger's URL cannot be read") as caught:
            open_ledger(url)
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))


class TestSchema:
    def test_a_ledger_is_found_again(self, sql_url: str) -> None:
        first = open_ledger(sql_url)
        first.record_listing("p", "live", [], {"s0": range_of("s0", 1, 2).start})
        again = open_ledger(sql_url)
        assert again.ledger_id == first.ledger_id
        assert again.chains("p", "live") == first.chains("p", "live")

    def test_processes_that_open_a_new_ledger_at_once_agree(self, sql_url: str) -> None:
        program = "import sys; from shardlake.ledger import open_ledger; print(open_ledger(sys.argv[1]).ledger_id)"
        environment = {**os.environ, "PYTHONPATH": str(Path(shardlake.__file__).parents[1])}
        command = [sys.executable, "-c", program, sql_url]
        openers = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        ids = [opener.communicate(timeout=60)[0].strip() for opener in openers]
        assert ids == [open_ledger(sql_url).ledger_id] * 4

    def test_a_newer_schema_is_refused_before_anything_is_written(self, sql_url: str) -> None:
        open_ledger(sql_url)
        with raw(sql_url) as connection:
            connection.exec_driver_sql("INSERT INTO shardlake_schema (version) VALUES (9)")
            before = contents(sql_url, connection)
            with pytest.raises(
                ConfigError, match=r"schema is version 9, this Shardlake knows up to 3 \(.*Upgrade"
            ) as caught:
                open_ledger(sql_url)
            assert contents(sql_url, connection) == before
        assert_shows_no_password(caught.value, sql_url)

    def test_a_ledger_gets_the_migrations_that_it_lacks(self, sql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger_id = open_ledger(sql_url).ledger_id
        another = ["CREATE TABLE shardlake_another (x INTEGER)"]
        monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, lambda _dialect: another))
        assert open_ledger(sql_url).ledger_id == ledger_id
        with raw(sql_url) as connection:
            versions = connection.exec_driver_sql("SELECT version FROM shardlake_schema ORDER BY version")
            assert versions.scalars().all() == [1, 2, 3, 4]
            assert sa.inspect(connection).has_table("shardlake_another")

    def test_a_migration_that_fails_leaves_nothing(self, sql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        open_ledger(sql_url)
        another = ["CREATE TABLE shardlake_another (x INTEGER)", "CREATE TABLE shardlake_another (x INTEGER)"]
        with monkeypatch.context() as patched:
            patched.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, lambda _dialect: another))
            with pytest.raises((ConfigError, UnavailableError), match="already exists"):
                open_ledger(sql_url)
        open_ledger(sql_url)
        with raw(sql_url) as connection:
            assert not sa.inspect(connection).has_table("shardlake_another")


class TestFailures:
    def test_an_unreachable_server_is_told_without_the_password(self) -> None:
        url = "postgresql+psycopg://user:s3cret%2F@127.0.0.1:1/db?connect_timeout=2"
        with pytest.raises(
            UnavailableError, match=r"user:\*\*\*@127.0.0.1:1/db.* cannot be used now: .*refused"
        ) as caught:
            open_ledger(url)
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))

    def test_a_wrong_password_is_not_shown(self, postgres_url: str) -> None:
        url = sa.make_url(postgres_url).set(password="s3cret").render_as_string(hide_password=False)
        with pytest.raises(UnavailableError, match="password authentication failed") as caught:
            open_ledger(url)
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))

    def test_a_server_that_was_stopped_is_found_again(self, postgres_url: str) -> None:
        ledger = opened(postgres_url)
        with raw(postgres_url) as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert list(ledger.chains("p", "live")) == list(SHARDS)

    def test_a_user_who_may_not_create_tables_is_told_so(self, postgres_url: str) -> None:
        with raw(postgres_url) as connection:
            connection.exec_driver_sql("DROP ROLE IF EXISTS guest")
            connection.exec_driver_sql("CREATE ROLE guest LOGIN PASSWORD 's3cret'")
            connection.exec_driver_sql("REVOKE CREATE ON SCHEMA public FROM public")
        url = sa.make_url(postgres_url).set(username="guest", password="s3cret").render_as_string(hide_password=False)
        with pytest.raises(
            ConfigError, match=r"permission denied for schema public.*Check that the URL names"
        ) as caught:
            open_ledger(url)
        assert "s3cret" not in str(caught.value)

    def test_a_folder_that_is_not_there_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(
            UnavailableError, match=r"missing/ledger.db cannot be used now: unable to open database file"
        ):
            open_ledger(f"sqlite:///{tmp_path}/missing/ledger.db")

    def test_a_read_only_file_is_told(self, tmp_path: Path) -> None:
        open_ledger(f"sqlite:///{tmp_path}/ledger.db")
        ledger = open_ledger(f"sqlite:///file:{tmp_path}/ledger.db?mode=ro&uri=true")
        with pytest.raises(UnavailableError, match="attempt to write a readonly database"):
            ledger.record_listing("p", "live", [], {"s0": range_of("s0", 1, 2).start})

    def test_a_file_of_something_else_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "ledger.db").write_text("pipelines:\n" * 1000)
        with pytest.raises(ConfigError, match="file is not a database"):
            open_ledger(f"sqlite:///{tmp_path}/ledger.db")
        assert (tmp_path / "ledger.db").read_text() == "pipelines:\n" * 1000

    def test_a_lock_that_is_not_given_up_is_told(self, sql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database, "LOCK_TIMEOUT_S", 0.1)
        ledger = opened(sql_url)
        with raw(sql_url) as other:
            other.exec_driver_sql("BEGIN IMMEDIATE" if "sqlite" in sql_url else "BEGIN")
            other.exec_driver_sql("UPDATE shardlake_chains SET caught_up_at_ms = 1")
            with pytest.raises(UnavailableError, match=r"cannot be used now: .*lock.*Run the same step again"):
                ledger.record_listing("p", "live", [], {}, {"s0": CaughtUp(range_of("s0", 0, 2).start.key, 5, 1)})
            other.exec_driver_sql("ROLLBACK")

    def test_a_guard_that_refuses_is_a_conflict_not_a_crash(self, sql_url: str) -> None:
        ledger = opened(sql_url)
        with raw(sql_url) as connection:
            connection.exec_driver_sql("CREATE UNIQUE INDEX one_batch ON shardlake_batches (dag_id)")
        ledger.pin(draft("r1"), [], 1)
        with pytest.raises(shardlake.errors.ConflictError, match=r"refused a change: .*(?i:unique)"):
            ledger.pin(draft("r2"), [range_of("s0", 0, 2)], 1)
        assert ledger.chains("p", "live")["s0"].open_range is None


class TestOneTransaction:
    """A change that the database refuses leaves nothing of what was asked for with it."""

    def test_a_range_is_abandoned_with_its_entry_or_not_at_all(self, sql_url: str) -> None:
        ledger = opened(sql_url)
        range_ = range_of("s0", 0, 2)
        ledger.pin(draft("r1"), [range_], 1)
        with raw(sql_url) as connection:
            connection.exec_driver_sql("CREATE UNIQUE INDEX one_entry ON shardlake_journal (who)")
        ledger.record(abandoned(range_))
        with pytest.raises(shardlake.errors.ConflictError, match=r"refused a change: .*(?i:unique)"):
            ledger.abandon(abandoned(range_), lambda: None)
        assert ledger.chains("p", "live")["s0"].open_range == range_
        assert len(ledger.journal("p")) == 1

    def test_a_backfill_is_stored_with_its_chains_or_not_at_all(self, sql_url: str) -> None:
        ledger = opened(sql_url)
        with raw(sql_url) as connection:
            connection.exec_driver_sql("CREATE UNIQUE INDEX one_chain ON shardlake_chains (shard_id)")
        with pytest.raises(shardlake.errors.ConflictError, match=r"refused a change: .*(?i:unique)"):
            ledger.open_backfill("p", "may", "{}", {"s9": range_of("s9", 0, 2).start, "s0": range_of("s0", 0, 2).start})
        assert ledger.backfill("p", "may") is None
        assert ledger.chains("p", "may") == {}


class TestStateUnknown:
    """The connection is lost at COMMIT: nobody knows whether it was done, and the same call again finds out."""

    def test_a_transaction_that_was_not_committed_is_done_by_the_second_call(self, postgres_url: str) -> None:
        ledger = opened(postgres_url)

        def kill(connection: sa.Connection) -> None:
            pid = connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
            with raw(postgres_url) as other:
                other.exec_driver_sql(f"SELECT pg_terminate_backend({pid})")

        range_ = range_of("s0", 0, 2)
        with whenever("commit", kill), pytest.raises(UnavailableError, match="Run the same step again"):
            ledger.pin(draft("r1"), [range_], 1)
        assert ledger.batch("b-r1") is None
        plan = BatchPlan.from_text(ledger.pin(draft("r1"), [range_], 1))
        held = {range_: Contents(1, 2, "c")}
        with whenever("commit", kill), pytest.raises(UnavailableError, match="Run the same step again"):
            ledger.commit(plan, held)
        assert ledger.committed(plan) == {}
        assert ledger.commit(plan, held) == []
        assert ledger.committed(plan) == held

    def test_a_transaction_that_was_committed_is_left_by_the_second_call(self, sql_url: str) -> None:
        ledger = opened(sql_url)

        range_, rest = range_of("s0", 0, 2), range_of("s1", 1, 2)
        with whenever("commit", lose_the_reply), pytest.raises(UnavailableError, match="Run the same step again"):
            ledger.pin(draft("r1"), [range_], 1)
        text = ledger.batch("b-r1")
        assert ledger.pin(draft("r1"), [range_of("s0", 0, 9)], 1) == text
        held = {range_: Contents(1, 2, "c")}
        with whenever("commit", lose_the_reply), pytest.raises(UnavailableError, match="Run the same step again"):
            ledger.commit(draft("r1"), held)
        assert ledger.commit(draft("r1"), held) == []
        lost = range_of("s1", 0, 1)
        with whenever("commit", lose_the_reply), pytest.raises(UnavailableError, match="Run the same step again"):
            ledger.declare_lost("p", "live", "b", lost, rest)
        ledger.declare_lost("p", "live", "b", lost, rest)
        assert [(row.range, row.state) for row in ledger.ranges("p", "live")] == [
            (range_, "committed"),
            (lost, "lost"),
            (rest, "planned"),
        ]

    def test_what_a_person_asked_for_is_found_by_the_second_call(self, sql_url: str) -> None:
        ledger = opened(sql_url)
        start = range_of("s0", 0, 2).start
        with whenever("commit", lose_the_reply), pytest.raises(UnavailableError, match="Run the same step again"):
            ledger.open_backfill("p", "may", "{}", {"s0": start})
        assert ledger.open_backfill("p", "may", "other", {}) == "{}"
        assert ledger.chains("p", "may")["s0"].position == start
        range_ = range_of("s0", 0, 2)
        ledger.pin(draft("r1"), [range_], 1)
        with whenever("commit", lose_the_reply), pytest.raises(UnavailableError, match="Run the same step again"):
            ledger.abandon(abandoned(range_), lambda: None)
        with pytest.raises(shardlake.errors.ConflictError, match="found no open range"):
            ledger.abandon(abandoned(range_), lambda: None)
        assert ledger.journal("p") == [abandoned(range_)]


class TestTransactions:
    def test_postgres_is_asked_for_its_isolation_and_durability(self, postgres_url: str) -> None:
        options = "-c default_transaction_isolation=serializable -c synchronous_commit=off"
        url = sa.make_url(postgres_url).update_query_dict({"options": options}).render_as_string(hide_password=False)
        ledger = opened(url)
        seen = []

        def look(connection: sa.Connection) -> None:
            names = ("transaction_isolation", "synchronous_commit")
            seen.append([connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names])

        with whenever("commit", look):
            ledger.pin(draft("r1"), [range_of("s0", 0, 2)], 1)
        assert seen == [["read committed", "on"]]

    def test_sqlite_waits_for_the_disk_and_writes_ahead(self, sqlite_url: str) -> None:
        ledger = opened(sqlite_url)
        seen = []

        def look(connection: sa.Connection) -> None:
            names = ("journal_mode", "synchronous")
            seen.append([connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names])

        with whenever("commit", look):
            ledger.pin(draft("r1"), [range_of("s0", 0, 2)], 1)
        assert seen == [["wal", 2]]


class TestCost:
    @pytest.mark.slow
    def test_sqlite_does_the_same_work_on_a_long_ledger(self, sqlite_url: str, tmp_path: Path) -> None:
        short, long = opened(sqlite_url), opened(f"sqlite:///{tmp_path}/long.db")
        lengthen(f"sqlite:///{tmp_path}/long.db", 50_000)
        assert sum(1 for _ in long.ranges("p", "live", "s0")) == 50_000
        lengthen(sqlite_url, 5)
        assert sqlite_work(long, 50_000) <= 1.2 * sqlite_work(short, 5)

    def test_postgres_reads_only_the_ranges_it_needs(self, postgres_url: str) -> None:
        opened(postgres_url)
        lengthen(postgres_url, 5_000)
        keys = [(shard_id, f"{n:056}") for shard_id in SHARDS for n in (7, 4_000)]
        with raw(postgres_url) as connection:
            connection.exec_driver_sql("ANALYZE")
            tips = queries.tips("postgresql", "p", "live", None, tables.chains.c.caught_up_retention_ms)
            assert ranges_read(connection, tips) == 2 * len(SHARDS)
            assert ranges_read(connection, queries.at_starts("postgresql", "p", "live", keys)) == 8
            expected: list[tuple[State, int]] = [("committed", 20), ("planned", 0), ("lost", 0)]
            for state, rows in expected:
                page = queries.page("postgresql", "p", "live", None, state, ("s1", f"{7:056}"), 10)
                assert ranges_read(connection, page) == rows


def abandoned(range_: SequenceRange) -> JournalEntry:
    return JournalEntry(1, "ada", "abandon", "p", "live", range_, "a reason")


def lose_the_reply(connection: sa.Connection) -> None:
    """Commit, and lose the connection before it is said."""
    driver: Any = connection.connection.driver_connection
    driver.commit()
    if isinstance(driver, sqlite3.Connection):
        raise sa.exc.OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))
    driver.close()


def opened(url: str) -> Ledger:
    """A ledger with four chains that start AFTER 0."""
    ledger = open_ledger(url)
    ledger.record_listing("p", "live", [], {shard_id: range_of(shard_id, 0, 1).start for shard_id in SHARDS})
    return ledger


def lengthen(url: str, ranges: int) -> None:
    """Add ranges of one number each, committed, to the four empty chains; behind the back of one guard."""
    guard = "shardlake_range_is_born_open"
    with raw(url) as connection:
        if connection.dialect.name == "sqlite":
            definition = connection.exec_driver_sql(
                f"SELECT sql FROM sqlite_master WHERE name = '{guard}'"
            ).scalar_one()
            connection.exec_driver_sql(f"DROP TRIGGER {guard}")
            numbers, key = (
                "WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n LIMIT {})",
                "printf('%056d', {})",
            )
        else:
            definition = f"ALTER TABLE shardlake_ranges ENABLE TRIGGER {guard}"
            connection.exec_driver_sql(f"ALTER TABLE shardlake_ranges DISABLE TRIGGER {guard}")
            numbers, key = "WITH n(i) AS (SELECT generate_series(0, {} - 1))", "lpad(({})::text, 56, '0')"
        for shard_id in SHARDS:
            connection.execute(
                sa.text(
                    "INSERT INTO shardlake_ranges (pipeline, namespace, shard_id, start_kind, start_number, start_key,"
                    " through, through_key, anchor, state, batch_id, rows, bytes, checksum, closed_at_ms)"
                    f" {numbers.format(ranges)} SELECT 'p', 'live', '{shard_id}', 'AFTER', CAST(i AS TEXT),"
                    f" {key.format('i')}, CAST(i + 1 AS TEXT), {key.format('i + 1')}, CAST(i AS TEXT), 'committed',"
                    " 'b', 1, 2, 'c', 3 FROM n ORDER BY n.i"
                )
            )
        connection.exec_driver_sql(definition)


def sqlite_work(ledger: Ledger, position: int) -> int:
    """The instructions of SQLite's virtual machine, in hundreds, for a batch on the four chains."""
    ticks = []

    def count(connection: sqlite3.Connection, _record: object) -> None:
        connection.set_progress_handler(lambda: ticks.append(1), 100)

    ranges = [range_of(shard_id, position, position + 1) for shard_id in SHARDS]
    with whenever("connect", count):
        ledger.chains("p", "live")
        plan = BatchPlan.from_text(ledger.pin(draft("r1"), ranges, 1))
        assert list(plan.ranges) == ranges
        for _ in range(2):
            assert ledger.commit(plan, dict.fromkeys(ranges, Contents(1, 2, "c"))) == []
        assert list(ledger.committed(plan)) == ranges
        for state in ("planned", "lost"):
            assert list(ledger.ranges("p", "live", state=state)) == []
    return len(ticks)


def ranges_read(connection: sa.Connection, query: sa.Select[Any]) -> int:
    """How many rows of the ranges PostgreSQL looks at for a query."""
    text = query.compile(connection, compile_kwargs={"literal_binds": True})
    (plan,) = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}").scalar_one()

    def read(node: dict[str, Any]) -> int:
        own = (
            node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            if "ranges" in node.get("Relation Name", "")
            else 0
        )
        return int(own * node["Actual Loops"]) + sum(map(read, node.get("Plans", [])))

    return read(plan["Plan"])


def contents(url: str, connection: sa.Connection) -> str:
    """A digest of what the database holds."""
    if "sqlite" in url:
        folder = Path(str(sa.make_url(url).database)).parent
        return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("ledger.db")))).hexdigest()
    names = connection.exec_driver_sql("SELECT relname, relfilenode FROM pg_class ORDER BY 1, 2").all()
    return json.dumps([list(name) for name in names])


def assert_shows_no_password(error: Exception, url: str) -> None:
    password = sa.make_url(url).password
    assert password is None or str(password) not in str(error)
    assert password is None or ":***@" in str(error)
