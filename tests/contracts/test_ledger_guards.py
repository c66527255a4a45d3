"""Invariants 1 to 3 hold in the database itself: raw SQL over a plain connection that violates one is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol

import psycopg
import pytest
import sqlalchemy as sa

from shardlake.ledger import Identity, JournalEntry, open_ledger
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start

REFUSED = (sqlite3.IntegrityError, psycopg.errors.IntegrityError)
FOLLOWS = "invariant 1: a range starts where the closed range before it ends, the first one where its chain starts"
CHANGES_ONCE = "invariant 3: a range changes once, from planned to committed, and only in what its file holds"
IS_NUMBERED = "the entries of a pipeline in the journal are numbered 1, 2, 3 as they are written"
IS_KEPT = "invariant 3: a committed or lost range is never deleted"
COMMIT = "UPDATE shardlake_ranges SET state = 'committed', rows = 1, bytes = 2, checksum = 'c', closed_at_ms = 3"


class Raw(Protocol):
    """A plain connection without any setting of ours; each statement is its own transaction."""

    def execute(self, query: str, /) -> Any: ...


@pytest.fixture
def raw(sql_url: str) -> Iterator[Raw]:
    """A connection to each kind of database."""
    with prepared(sql_url) as connection:
        yield connection


@contextmanager
def prepared(url: str) -> Iterator[Raw]:
    """A connection to a ledger with a row in each table but that of ranges. The chain of shard `s` starts AFTER 10."""
    ledger = open_ledger(url)
    ledger.claim(Identity("p", "arn", 1, "/lake"))
    stream = Stream("s", "arn", 1, 2, "eu-west-1", None)
    ledger.pin(BatchPlan("b", "p", "live", Run("d", "r"), stream, "/lake", ledger.ledger_id, 0, False, ()), [], 1)
    ledger.open_backfill("p", "backfill", "{}", {})
    range_ = SequenceRange("s", Start("AFTER", SequenceNumber("10")), SHARD_END, None)
    ledger.record(JournalEntry(1, "ada", "repair", "p", "live", range_, "a reason"))
    with closing(plain_connection(url)) as connection:
        connection.execute(
            "INSERT INTO shardlake_chains (pipeline, namespace, shard_id, start_kind, start_number, start_key) "
            f"VALUES ('p', 'live', 's', 'AFTER', '10', '{key(10)}')"
        )
        yield connection


def plain_connection(url: str) -> sqlite3.Connection | psycopg.Connection:
    parsed = sa.make_url(url)
    if parsed.drivername == "sqlite":
        return sqlite3.connect(str(parsed.database), isolation_level=None)
    return psycopg.connect(
        host=parsed.host,
        port=parsed.port,
        user=parsed.username,
        password=str(parsed.password),
        dbname=parsed.database,
        autocommit=True,
    )


def key(number: int) -> str:
    return f"{number:056}"


def insert(start: int, through: int, /, *, verb: str = "INSERT", **other: str) -> str:
    """The statement that adds a planned range to shard `s`; `other` are columns as SQL."""
    columns = {
        "pipeline": "'p'",
        "namespace": "'live'",
        "shard_id": "'s'",
        "start_kind": "'AFTER'",
        "start_number": f"'{start}'",
        "start_key": f"'{key(start)}'",
        "through": f"'{through}'",
        "through_key": f"'{key(through)}'",
        "anchor": f"'{start}'",
        "state": "'planned'",
        "batch_id": "'b'",
        **other,
    }
    return f"{verb} INTO shardlake_ranges ({', '.join(columns)}) VALUES ({', '.join(columns.values())})"


def journal_insert(*, verb: str = "INSERT", **other: str) -> str:
    """The statement that adds the second entry of pipeline `p`; `other` are columns as SQL."""
    columns = {
        "pipeline": "'p'",
        "entry_number": "2",
        "at_ms": "1",
        "who": "''",
        "action": "'repair'",
        "namespace": "'live'",
        "shard_id": "'s'",
        "start_kind": "'AFTER'",
        "start_number": "'10'",
        "through": "'20'",
        "anchor": "'10'",
        "reason": "'r'",
        **other,
    }
    return f"{verb} INTO shardlake_journal ({', '.join(columns)}) VALUES ({', '.join(columns.values())})"


def chain(raw: Raw) -> list[tuple[Any, ...]]:
    """Start, end and state of the ranges."""
    query = "SELECT start_number, through, state FROM shardlake_ranges ORDER BY shard_id, start_key"
    return [tuple(row) for row in raw.execute(query).fetchall()]


class TestInvariant1:
    """The ranges of a shard form a chain."""

    def test_ranges_that_follow_each_other_are_accepted(self, raw: Raw) -> None:
        for start, through in ((10, 20), (20, 30)):
            raw.execute(insert(start, through))
            raw.execute(f"{COMMIT} WHERE state = 'planned'")
        raw.execute(insert(30, 40, state="'lost'", closed_at_ms="1"))
        raw.execute(insert(40, 0, through="'SHARD_END'", through_key="'SHARD_END'"))
        assert chain(raw) == [
            ("10", "20", "committed"),
            ("20", "30", "committed"),
            ("30", "40", "lost"),
            ("40", "SHARD_END", "planned"),
        ]

    @pytest.mark.parametrize("start", [9, 11])
    def test_the_first_range_starts_where_its_chain_does(self, raw: Raw, start: int) -> None:
        with pytest.raises(REFUSED, match=FOLLOWS):
            raw.execute(insert(start, 20))

    def test_a_range_needs_a_chain(self, raw: Raw) -> None:
        with pytest.raises(REFUSED, match=FOLLOWS):
            raw.execute(insert(10, 20, shard_id="'other'"))

    @pytest.mark.parametrize(("start", "through"), [(21, 30), (19, 30), (10, 30), (10, 20), (5, 10)])
    def test_a_gap_an_overlap_and_a_fork_are_refused(self, raw: Raw, start: int, through: int) -> None:
        raw.execute(insert(10, 20))
        raw.execute(COMMIT)
        with pytest.raises(REFUSED, match=FOLLOWS):
            raw.execute(insert(start, through))
        assert chain(raw) == [("10", "20", "committed")]

    def test_nothing_follows_the_end_of_a_shard(self, raw: Raw) -> None:
        raw.execute(insert(10, 0, through="'SHARD_END'", through_key="'SHARD_END'"))
        raw.execute(COMMIT)
        with pytest.raises(REFUSED, match=FOLLOWS):
            raw.execute(insert(20, 30))
        with pytest.raises(REFUSED, match=r"range_moves_forward|range_start_key_is_of_its_number"):
            raw.execute(insert(10, 20, start_key="'SHARD_END'"))

    @pytest.mark.parametrize("through", [10, 9])
    def test_a_range_moves_forward(self, raw: Raw, through: int) -> None:
        with pytest.raises(REFUSED, match="range_moves_forward"):
            raw.execute(insert(10, through))

    @pytest.mark.parametrize(
        "other",
        [
            {"start_number": "'11'"},
            {"start_number": "'x'"},
            {"start_kind": "'AT'"},
            {"start_kind": "'AT'", "start_number": "'9'"},
        ],
    )
    def test_the_key_of_a_start_is_that_of_its_number(self, raw: Raw, other: dict[str, str]) -> None:
        with pytest.raises(REFUSED, match="range_start_key_is_of_its_number"):
            raw.execute(insert(10, 20, **other))

    @pytest.mark.parametrize("through", ["'21'", "'SHARD_END'", "'x'", "'-1'"])
    def test_the_key_of_an_end_is_that_of_its_text(self, raw: Raw, through: str) -> None:
        with pytest.raises(REFUSED, match="range_through_key_is_of_its_end"):
            raw.execute(insert(10, 20, through=through))

    @pytest.mark.parametrize("columns", ["pipeline, namespace, shard_id, start_key", "through_key"])
    def test_starts_and_ends_are_unique_even_without_guards(self, raw: Raw, columns: str) -> None:
        raw.execute(insert(10, 20))
        raw.execute(COMMIT)
        drop_guard(raw, "shardlake_range_follows")
        start, through = (10, 30) if "start_key" in columns else (5, 20)
        with pytest.raises(REFUSED, match=r"(?i)unique"):
            raw.execute(insert(start, through))

    @pytest.mark.parametrize(
        "change",
        [
            "start_key = '9'",
            "start_kind = 'AT'",
            "start_number = '9'",
            "shard_id = 't'",
            "namespace = 'n'",
            "pipeline = 'q'",
        ],
    )
    def test_the_start_of_a_chain_never_changes(self, raw: Raw, change: str) -> None:
        with pytest.raises(REFUSED, match="invariant 1: the start of a chain never changes"):
            raw.execute(f"UPDATE shardlake_chains SET {change}")

    def test_a_chain_is_never_deleted(self, raw: Raw) -> None:
        with pytest.raises(REFUSED, match="invariant 1: a chain is never deleted"):
            raw.execute("DELETE FROM shardlake_chains")

    def test_a_chain_notes_when_it_was_caught_up(self, raw: Raw) -> None:
        raw.execute(
            f"UPDATE shardlake_chains SET caught_up_key = '{key(10)}', caught_up_at_ms = 5, caught_up_retention_ms = 6"
        )


class TestInvariant2:
    """At most one open range a chain."""

    def test_no_range_follows_an_open_one(self, raw: Raw) -> None:
        raw.execute(insert(10, 20))
        for state in ({}, {"state": "'lost'", "closed_at_ms": "1"}):
            with pytest.raises(REFUSED, match=FOLLOWS):
                raw.execute(insert(20, 30, **state))

    def test_there_is_one_open_range_even_without_guards(self, raw: Raw) -> None:
        raw.execute(insert(10, 20))
        drop_guard(raw, "shardlake_range_follows")
        with pytest.raises(REFUSED, match=r"(?i)unique"):
            raw.execute(insert(20, 30))

    def test_a_range_is_planned_before_it_is_committed(self, raw: Raw) -> None:
        with pytest.raises(REFUSED, match="invariant 2: a range is planned before it is committed"):
            raw.execute(insert(10, 20, state="'committed'", rows="1", bytes="2", checksum="'c'", closed_at_ms="3"))

    def test_two_connections_cannot_both_plan(self, raw: Raw, sql_url: str) -> None:
        with closing(plain_connection(sql_url)) as other:
            raw.execute("BEGIN")
            raw.execute(insert(10, 20))
            impatient = "PRAGMA busy_timeout = 100" if "sqlite" in sql_url else "SET lock_timeout = 100"
            other.execute(impatient)
            with pytest.raises((sqlite3.OperationalError, psycopg.errors.LockNotAvailable), match="lock"):
                other.execute(insert(10, 30))
            raw.execute("COMMIT")
            with pytest.raises(REFUSED, match=FOLLOWS):
                other.execute(insert(10, 30))
        assert chain(raw) == [("10", "20", "planned")]

    def test_an_open_range_may_be_deleted(self, raw: Raw) -> None:
        raw.execute(insert(10, 20))
        raw.execute("DELETE FROM shardlake_ranges")
        assert chain(raw) == []


class TestInvariant3:
    """A committed range never changes."""

    @pytest.mark.parametrize(
        "change",
        [
            "through = '21'",
            f"through_key = '{key(21)}'",
            f"start_key = '{key(9)}'",
            "start_number = '9'",
            "start_kind = 'AT'",
            "anchor = '11'",
            "batch_id = 'c'",
            "shard_id = 't'",
            "namespace = 'n'",
            "pipeline = 'q'",
            "state = 'planned'",
        ],
    )
    def test_an_open_range_stays_as_it_was_pinned(self, raw: Raw, change: str) -> None:
        raw.execute(insert(10, 20))
        before = everything(raw)
        with pytest.raises(REFUSED, match=CHANGES_ONCE):
            raw.execute(f"UPDATE shardlake_ranges SET {change}")
        if "state" not in change:
            with pytest.raises(REFUSED, match=CHANGES_ONCE):
                raw.execute(f"{COMMIT}, {change}")
        assert everything(raw) == before

    @pytest.mark.parametrize("change", ["rows = 9", "checksum = 'd'", "state = 'planned'", "state = 'committed'"])
    @pytest.mark.parametrize("state", ["committed", "lost"])
    def test_a_closed_range_never_changes(self, raw: Raw, state: str, change: str) -> None:
        close(raw, state)
        before = everything(raw)
        with pytest.raises(REFUSED, match=CHANGES_ONCE):
            raw.execute(f"UPDATE shardlake_ranges SET {change}")
        assert everything(raw) == before

    def test_an_open_range_is_not_turned_into_a_lost_one(self, raw: Raw) -> None:
        raw.execute(insert(10, 20))
        with pytest.raises(REFUSED, match=CHANGES_ONCE):
            raw.execute("UPDATE shardlake_ranges SET state = 'lost', closed_at_ms = 1")

    @pytest.mark.parametrize("state", ["committed", "lost"])
    def test_a_closed_range_is_never_deleted(self, raw: Raw, state: str) -> None:
        close(raw, state)
        with pytest.raises(REFUSED, match=IS_KEPT):
            raw.execute("DELETE FROM shardlake_ranges")

    @pytest.mark.parametrize("column", ["rows", "bytes", "checksum"])
    def test_a_commit_says_what_the_file_holds(self, raw: Raw, column: str) -> None:
        raw.execute(insert(10, 20))
        incomplete = {"rows": "rows = 1, ", "bytes": "bytes = 2, ", "checksum": "checksum = 'c', "}[column]
        with pytest.raises(REFUSED, match="range_contents_are_of_a_commit"):
            raw.execute(COMMIT.replace(incomplete, ""))

    def test_counts_are_not_negative(self, raw: Raw) -> None:
        raw.execute(insert(10, 20))
        with pytest.raises(REFUSED, match="range_contents_are_counts"):
            raw.execute(COMMIT.replace("rows = 1", "rows = -1"))

    @pytest.mark.parametrize("contents", [{"rows": "1"}, {"bytes": "1"}, {"checksum": "'c'"}])
    @pytest.mark.parametrize("state", [{"state": "'planned'"}, {"state": "'lost'", "closed_at_ms": "1"}])
    def test_only_a_commit_has_contents(self, raw: Raw, state: dict[str, str], contents: dict[str, str]) -> None:
        with pytest.raises(REFUSED, match="range_contents_are_of_a_commit"):
            raw.execute(insert(10, 20, **state, **contents))

    def test_an_unknown_state_is_refused(self, raw: Raw) -> None:
        with pytest.raises(REFUSED, match=r"(?i)check"):
            raw.execute(insert(10, 20, state="'done'", closed_at_ms="1"))


class TestWrittenOnce:
    """Batches, identities, backfills and the journal never change."""

    @pytest.mark.parametrize("table", ["batches", "pipelines", "ledger", "backfills", "journal"])
    def test_rows_are_neither_changed_nor_deleted(self, raw: Raw, table: str) -> None:
        columns = {"batches": "plan", "pipelines": "dataset", "ledger": "ledger_id"}
        column = {**columns, "backfills": "bounds", "journal": "reason"}[table]
        for statement in (f"UPDATE shardlake_{table} SET {column} = 'x'", f"DELETE FROM shardlake_{table}"):
            with pytest.raises(REFUSED, match=f"a row of shardlake_{table} is written once and kept"):
                raw.execute(statement)

    def test_a_ledger_has_one_id(self, raw: Raw) -> None:
        with pytest.raises(REFUSED, match=r"(?i)check|replaced"):
            raw.execute("INSERT INTO shardlake_ledger (only_row, ledger_id) VALUES (2, 'x')")


class TestBackfills:
    def test_a_backfill_has_a_namespace_of_its_own(self, raw: Raw) -> None:
        values = "INSERT INTO shardlake_backfills VALUES ('p', '{}', '{{}}', 1)"
        with pytest.raises(REFUSED, match="backfill_is_not_live"):
            raw.execute(values.format("live"))
        with pytest.raises(REFUSED, match=r"(?i)unique|never replaced"):
            raw.execute(values.format("backfill"))
        raw.execute(values.format("another"))


class TestJournal:
    @pytest.mark.parametrize("entry_number", [-1, 0, 1, 3])
    def test_an_entry_is_not_put_between_others(self, raw: Raw, entry_number: int) -> None:
        with pytest.raises(REFUSED, match=IS_NUMBERED):
            raw.execute(journal_insert(entry_number=str(entry_number)))

    def test_each_pipeline_has_its_own_numbers(self, raw: Raw) -> None:
        for statement in (
            journal_insert(entry_number="2"),
            journal_insert(entry_number="1", pipeline="'q'"),
            journal_insert(entry_number="3"),
        ):
            raw.execute(statement)
        with pytest.raises(REFUSED, match=IS_NUMBERED):
            raw.execute(journal_insert(entry_number="4", pipeline="'q'"))

    @pytest.mark.parametrize(
        ("column", "refused", "accepted"),
        [
            ("who", "x" * 201, "\N{PILE OF POO}" * 200),
            ("reason", "x" * 2001, "\N{PILE OF POO}" * 2000),
            ("reason", "", "x"),
            ("action", "forget", "abandon"),
            ("start_kind", "SHARD_END", "AT"),
        ],
    )
    def test_what_an_entry_says_is_bounded(self, raw: Raw, column: str, refused: str, accepted: str) -> None:
        with pytest.raises(REFUSED, match=r"(?i)check"):
            raw.execute(journal_insert(**{column: f"'{refused}'"}))
        raw.execute(journal_insert(**{column: f"'{accepted}'"}))


class TestReplaceInSqlite:
    """`INSERT OR REPLACE` deletes rows without asking DELETE triggers."""

    @pytest.fixture
    def raw(self, sqlite_url: str) -> Iterator[Raw]:
        with prepared(sqlite_url) as connection:
            yield connection

    @pytest.mark.parametrize("state", ["planned", "committed", "lost"])
    def test_a_range_is_not_replaced(self, raw: Raw, state: str) -> None:
        close(raw, state)
        before = everything(raw)
        for start, through in ((10, 20), (10, 30), (5, 20)):
            with pytest.raises(REFUSED, match=FOLLOWS):
                raw.execute(insert(start, through, verb="INSERT OR REPLACE"))
        assert everything(raw) == before

    @pytest.mark.parametrize("table", ["chains", "batches", "pipelines", "ledger", "backfills"])
    def test_no_other_guarded_row_is_replaced(self, raw: Raw, table: str) -> None:
        with pytest.raises(REFUSED, match=f"a row of shardlake_{table} is never replaced"):
            raw.execute(f"INSERT OR REPLACE INTO shardlake_{table} SELECT * FROM shardlake_{table}")

    def test_an_entry_of_the_journal_is_not_replaced(self, raw: Raw) -> None:
        with pytest.raises(REFUSED, match=IS_NUMBERED):
            raw.execute(journal_insert(verb="INSERT OR REPLACE", entry_number="1"))

    def test_no_guarded_table_has_a_rowid(self, raw: Raw) -> None:
        for table in ("ranges", "chains", "batches", "pipelines", "ledger", "backfills", "journal"):
            with pytest.raises(sqlite3.OperationalError, match="no such column: rowid"):
                raw.execute(f"SELECT rowid FROM shardlake_{table}")


class TestPostgresOnly:
    @pytest.fixture
    def raw(self, postgres_url: str) -> Iterator[Raw]:
        with prepared(postgres_url) as connection:
            yield connection

    @pytest.mark.parametrize("table", ["ranges", "chains", "batches", "pipelines", "ledger", "backfills", "journal"])
    def test_a_table_is_never_truncated(self, raw: Raw, table: str) -> None:
        with pytest.raises(REFUSED, match=f"shardlake_{table} is never truncated"):
            raw.execute(f"TRUNCATE shardlake_{table}")

    def test_guards_hold_on_any_search_path(self, raw: Raw) -> None:
        raw.execute("SET search_path = pg_catalog")
        with pytest.raises(REFUSED, match=FOLLOWS):
            raw.execute(insert(9, 20).replace("shardlake_ranges", "public.shardlake_ranges"))

    def test_an_upsert_is_guarded(self, raw: Raw) -> None:
        raw.execute(insert(10, 20))
        with pytest.raises(REFUSED, match=FOLLOWS):
            raw.execute(
                "INSERT INTO shardlake_ranges SELECT * FROM shardlake_ranges "
                "ON CONFLICT (pipeline, namespace, shard_id, start_key) DO UPDATE SET batch_id = 'x'"
            )


def close(raw: Raw, state: str) -> None:
    """A range of shard `s`, 10 to 20, in this state."""
    if state == "lost":
        raw.execute(insert(10, 20, state="'lost'", closed_at_ms="1"))
    else:
        raw.execute(insert(10, 20))
    if state == "committed":
        raw.execute(COMMIT)


def everything(raw: Raw) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in raw.execute("SELECT * FROM shardlake_ranges").fetchall()]


def drop_guard(raw: Raw, name: str) -> None:
    on_table = "" if isinstance(raw, sqlite3.Connection) else " ON shardlake_ranges"
    raw.execute(f"DROP TRIGGER {name}{on_table}")
