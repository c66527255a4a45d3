"""A ledger of an old schema version with data in it: brought up to date in place, or looked at as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa

import shardlake
from shardlake.caught_up import CaughtUp
from shardlake.errors import ConfigError
from shardlake.ledger import Contents, Identity, JournalEntry, Ledger, LedgerRange, migrations, open_ledger, schema_3
from shardlake.ledger.database import Database
from shardlake.ledger.existing import existing_ledger, ledger_to_look_at
from shardlake.ledger.memory import MemoryLedger
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SHARD_END, Position, SequenceNumber, SequenceRange, Start
from shardlake.shards import Shard

COLUMNS_1 = {
    "ledger": "*",
    "pipelines": "*",
    "shards": "*",
    "batches": "*",
    "chains": "pipeline, namespace, shard_id, start_kind, start_number, start_key, caught_up_key, caught_up_at_ms",
    "ranges": "*",
}
DAY_MS = 86_400_000
HELD = Contents(1, 2, "c")


def range_of(shard_id: str, start: int, through: int) -> SequenceRange:
    first = SequenceNumber(str(start))
    return SequenceRange(shard_id, Start("AFTER", first), SequenceNumber(str(through)), first)


COMMITTED, OPEN, LOST = range_of("s0", 0, 5), range_of("s0", 5, 9), range_of("s1", 0, 3)
OLD_NOTE = CaughtUp(OPEN.start.key, 1000, DAY_MS)


@contextmanager
def raw(url: str) -> Iterator[sa.Connection]:
    """A connection of our own; each statement is its own transaction."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        yield connection


@pytest.fixture
def url_1(sql_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a ledger that only migration 1 has run on: something in every table, a range in every state."""
    with old_ledger(sql_url, 1, monkeypatch) as ledger:
        fill(ledger)
    return sql_url


@pytest.fixture
def url_2(sql_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same as version 2 had it, with a backfill and an entry in the journal."""
    with old_ledger(sql_url, 2, monkeypatch) as ledger:
        fill(ledger)
        ledger.open_backfill("p", "may", "{}", {})
        ledger.record(entry(OPEN))
    return sql_url


@contextmanager
def old_ledger(url: str, version: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """A new ledger of an old version, to be filled by today's code: what that needs beyond it is taken away again."""
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS[:version], schema_3.statements))
        yield open_ledger(url)
    with raw(url) as connection:
        connection.exec_driver_sql("ALTER TABLE shardlake_chains DROP COLUMN caught_up_retention_ms")
        connection.exec_driver_sql(f"DELETE FROM shardlake_schema WHERE version > {version}")


def fill(ledger: Ledger) -> None:
    ledger.claim(Identity("p", "arn", 1, "/lake"))
    starts: dict[str, Position] = {"s0": COMMITTED.start, "s1": LOST.start, "s2": SHARD_END}
    ledger.record_listing("p", "live", [Shard("s0", (), "0", "9", "1", None)], starts)
    ledger.commit(pinned(ledger, "r1", COMMITTED), {COMMITTED: HELD})
    pinned(ledger, "r2", OPEN)
    ledger.declare_lost("p", "live", "b", LOST, None)
    ledger.record_listing("p", "live", [], {}, {"s0": CaughtUp(OPEN.start.key, 1000, 7 * DAY_MS)})


def pinned(ledger: Ledger, run: str, *ranges: SequenceRange) -> BatchPlan:
    stream = Stream("s", "arn", 1, 2, "eu-west-1", None)
    draft = BatchPlan(f"b-{run}", "p", "live", Run("d", run), stream, "/lake", "a" * 32, 0, False, ())
    return BatchPlan.from_text(ledger.pin(draft, ranges, 1))


def entry(range_: SequenceRange) -> JournalEntry:
    return JournalEntry(1, "ada", "abandon", "p", "live", range_, "a reason")


def rows_1(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the tables of version 1, as far as it had them."""
    with raw(url) as connection:
        return {
            table: sorted(map(tuple, connection.exec_driver_sql(f"SELECT {columns} FROM shardlake_{table}")), key=str)
            for table, columns in COLUMNS_1.items()
        }


def versions(url: str) -> list[int]:
    with raw(url) as connection:
        return list(connection.exec_driver_sql("SELECT version FROM shardlake_schema ORDER BY version").scalars())


def states(ledger: Ledger) -> list[tuple[SequenceRange, str]]:
    return [(row.range, row.state) for row in ledger.ranges("p", "live")]


class TestUpgrade:
    def test_a_ledger_of_version_1_keeps_everything(self, url_1: str) -> None:
        before = rows_1(url_1)
        assert all(before.values())
        ledger = open_ledger(url_1)
        assert versions(url_1) == [1, 2, 3]
        assert rows_1(url_1) == before
        assert states(ledger) == [(COMMITTED, "committed"), (OPEN, "planned"), (LOST, "lost")]

        assert ledger.chains("p", "live")["s0"].caught_up == OLD_NOTE

    def test_an_old_note_counts_as_made_under_the_shortest_retention_until_there_is_a_new_one(self, url_2: str) -> None:
        ledger = open_ledger(url_2)
        assert ledger.chains("p", "live")["s0"].caught_up == OLD_NOTE
        note = CaughtUp(OPEN.start.key, 1001, 7 * DAY_MS)
        ledger.record_listing("p", "live", [], {}, {"s0": note})
        assert ledger.chains("p", "live")["s0"].caught_up == note

    def test_a_ledger_of_version_2_keeps_everything(self, url_2: str) -> None:
        before = rows_1(url_2)
        ledger = open_ledger(url_2)
        assert versions(url_2) == [1, 2, 3]
        assert rows_1(url_2) == before
        assert (ledger.backfills("p"), ledger.journal("p")) == ({"may": "{}"}, [entry(OPEN)])

    def test_a_ledger_that_was_of_version_1_does_all_that_a_new_one_does(self, url_1: str) -> None:
        ledger = open_ledger(url_1)
        assert (ledger.backfills("p"), ledger.journal("p")) == ({}, [])
        assert ledger.open_backfill("p", "may", "{}", {"s0": COMMITTED.start}) == "{}"
        ledger.abandon(entry(OPEN), lambda: None)
        again = open_ledger(url_1)
        assert again.backfills("p") == {"may": "{}"}
        assert again.journal("p") == [entry(OPEN)]
        shorter = range_of("s0", 5, 6)
        assert again.commit(pinned(again, "r3", shorter), {shorter: HELD}) == []
        assert states(again) == [(COMMITTED, "committed"), (shorter, "committed"), (LOST, "lost")]

    def test_a_ledger_of_version_3_is_refused_by_code_that_knows_1(
        self, url_1: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        open_ledger(url_1)
        monkeypatch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:1])
        for open_it in (open_ledger, existing_ledger, ledger_to_look_at):
            with pytest.raises(ConfigError, match=r"schema is version 3, this Shardlake knows up to 1 \(.*Upgrade"):
                open_it(url_1)

    def test_openers_that_all_saw_version_1_upgrade_it_once(self, url_1: str, monkeypatch: pytest.MonkeyPatch) -> None:
        before, gate, look = rows_1(url_1), Barrier(4), migrations.schema_version

        def look_together(database: Database) -> int:
            version = look(database)
            gate.wait(timeout=30)
            return version

        monkeypatch.setattr(migrations, "schema_version", look_together)
        with ThreadPoolExecutor(4) as pool:
            ids = {ledger.ledger_id for ledger in pool.map(open_ledger, [url_1] * 4)}
        assert len(ids) == 1
        assert versions(url_1) == [1, 2, 3]
        assert rows_1(url_1) == before

    def test_processes_that_upgrade_at_once_agree(self, url_1: str) -> None:
        program = "import sys; from shardlake.ledger import open_ledger; print(open_ledger(sys.argv[1]).journal('p'))"
        environment = {**os.environ, "PYTHONPATH": str(Path(shardlake.__file__).parents[1])}
        command = [sys.executable, "-c", program, url_1]
        openers = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        assert [opener.communicate(timeout=60)[0].strip() for opener in openers] == ["[]"] * 3
        assert versions(url_1) == [1, 2, 3]

    def test_a_worker_that_opened_version_1_goes_on_beside_the_upgrade(
        self, url_1: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:1])
            worker = open_ledger(url_1)
        open_ledger(url_1)
        assert worker.commit(pinned(worker, "r3", OPEN), {OPEN: HELD}) == []


class TestLooking:
    def test_a_look_at_version_1_writes_nothing(self, url_1: str) -> None:
        before = rows_1(url_1)
        ledger = ledger_to_look_at(url_1)
        assert ledger.ledger_id == before["ledger"][0][1]
        assert states(ledger) == [(COMMITTED, "committed"), (OPEN, "planned"), (LOST, "lost")]
        assert list(ledger.ranges("p", "live", state="planned")) == [LedgerRange(OPEN, "planned", "b-r2", None, None)]
        assert (ledger.backfill("p", "may"), ledger.backfills("p"), ledger.journal("p")) == (None, {}, [])
        assert ledger.chains("p", "live")["s0"].caught_up == OLD_NOTE
        assert versions(url_1) == [1]
        assert rows_1(url_1) == before

    def test_a_look_at_version_2_sees_all_of_it_and_writes_nothing(self, url_2: str) -> None:
        before = rows_1(url_2)
        look = ledger_to_look_at(url_2)
        assert (look.backfill("p", "may"), look.backfills("p")) == ("{}", {"may": "{}"})
        assert look.journal("p") == [entry(OPEN)]
        assert look.chains("p", "live")["s0"].caught_up == OLD_NOTE
        assert versions(url_2) == [1, 2]
        assert rows_1(url_2) == before

    def test_a_look_at_version_3_sees_all_of_it(self, url_1: str) -> None:
        ledger = open_ledger(url_1)
        ledger.record_listing("p", "live", [], {}, {"s0": CaughtUp(OPEN.start.key, 1001, 7 * DAY_MS)})
        ledger.record(entry(OPEN))
        look = ledger_to_look_at(url_1)
        assert look.chains("p", "live") == ledger.chains("p", "live")
        assert look.journal("p") == [entry(OPEN)]

    def test_who_may_only_read_can_look(self, url_1: str) -> None:
        look = ledger_to_look_at(read_only(url_1))
        assert list(look.chains("p", "live")) == ["s0", "s1", "s2"]
        assert look.journal("p") == []

    def test_who_writes_to_an_existing_ledger_brings_it_up_to_date(self, url_1: str) -> None:
        ledger = existing_ledger(url_1)
        assert ledger is not None
        ledger.record(entry(OPEN))
        assert versions(url_1) == [1, 2, 3]

    def test_no_ledger_is_made_by_looking(self, sql_url: str) -> None:
        assert isinstance(ledger_to_look_at(sql_url), MemoryLedger)
        assert existing_ledger(sql_url) is None
        if "sqlite" in sql_url:
            assert not Path(str(sa.make_url(sql_url).database)).exists()
        else:
            with raw(sql_url) as connection:
                assert sa.inspect(connection).get_table_names() == []


def read_only(url: str) -> str:
    """The same database, opened so that it refuses to be written."""
    parsed = sa.make_url(url)
    if parsed.drivername == "sqlite":
        return f"sqlite:///file:{parsed.database}?mode=ro&uri=true"
    options = "-c default_transaction_read_only=on"
    return parsed.update_query_dict({"options": options}).render_as_string(hide_password=False)
