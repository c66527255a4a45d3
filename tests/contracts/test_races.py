"""Races of whole runs on a real database: whoever is quicker, one chain, every record once, and no error for anybody.

The ledger and the steps are the product's; the stream is a model in this process, the dataset a folder.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from shardlake.abandon import abandon, open_range
from shardlake.backfill import Request
from shardlake.batch import Steps
from shardlake.caught_up import CaughtUp
from shardlake.config import Pipeline
from shardlake.errors import ConflictError, ShardlakeError, UnavailableError
from shardlake.kinesis.budget import Budget
from shardlake.ledger import JournalEntry, LedgerRange, open_ledger
from shardlake.ledger.database import _lock_number
from shardlake.names import LIVE, FileKey, dataset_of
from shardlake.plan import Run
from shardlake.ranges import SequenceNumber, SequenceRange, Start
from shardlake.repair import repair, whose
from support.inline_engine import InlineEngine
from support.model_stream import ModelStream
from support.races import Held, at_once, delayed

pytestmark = pytest.mark.slow

ROUNDS = 8


class Raced:
    """A pipeline `p` over a model of a stream."""

    def __init__(self, url: str, folder: Path, stream: ModelStream) -> None:
        self.folder, self.stream, self._runs = folder / "lake", stream, count()
        place = {"stream": "model", "region": "eu-west-1", "dataset": str(self.folder), "ledger": "sqlite:///unused.db"}
        self._pipeline = Pipeline(name="p", **place)  # type: ignore[arg-type]
        self.ledger = open_ledger(url)  # each of its transactions has a connection of its own

    def steps(self, namespace: str = LIVE) -> Steps:
        """The steps, as a process of its own has them."""
        return Steps(self._pipeline, self.ledger, namespace=namespace)

    def run(self, run: str = "", namespace: str = LIVE) -> None:
        """One batch from plan to commit."""
        self.steps(namespace).run(Run("dag", run or f"run-{next(self._runs)}"), InlineEngine(), lambda line: None)

    def until_caught_up(self) -> None:
        """Batches until one is empty, as `shardlake run --until-caught-up` does."""
        steps = self.steps()
        while steps.run(Run("cli", f"run-{next(self._runs)}"), InlineEngine(), lambda line: None)[1]:
            pass

    def put_some(self, chance: random.Random) -> None:
        """Records on every open shard; now and then a reshard."""
        shards = self.stream.local.shards
        for shard in [shard for shard in shards if shard.is_open]:
            self.stream.put(shard.index, chance.randint(1, 4))
        if chance.random() < 0.2 and len(shards) < 8:
            self.stream.split(chance.choice([shard.index for shard in shards if shard.is_open]))

    def open_ranges(self) -> list[SequenceRange]:
        chains = self.ledger.chains("p", LIVE).values()
        return [chain.open_range for chain in chains if chain.open_range]

    def check(self, namespace: str = LIVE) -> None:
        """The chains are whole, and of committed ranges; their files, and no others, are there; each record is once."""
        rows = list(self.ledger.ranges("p", namespace))
        assert {row.state for row in rows} <= {"committed"}
        for _, chain in groupby(rows, key=lambda row: row.range.shard_id):
            for one, other in pairwise(chain):
                assert one.range.through.key == other.range.start.key
        lake = Path(dataset_of(str(self.folder), namespace))
        files = {str(path.relative_to(lake)) for path in (lake / "data").rglob("*") if path.is_file()}
        assert files == {FileKey.of(row.range).path for row in rows}
        assert [path for path in (lake / "_shardlake/tmp").rglob("*") if path.is_file()] == []
        put = {id_: [number.text for number in numbers] for id_, numbers in self.stream.put_numbers.items() if numbers}
        assert {id_: held for id_, held in self._held(lake, rows).items() if held} == put

    def _held(self, lake: Path, rows: list[LedgerRange]) -> dict[str, list[str]]:
        held: dict[str, list[str]] = {}
        for row in rows:
            found = pq.read_table(lake / FileKey.of(row.range).path, columns=["sequence_number"], partitioning=None)
            assert row.contents
            assert found.num_rows == row.contents.rows
            held.setdefault(row.range.shard_id, []).extend(found.column(0).to_pylist())
        return held


@pytest.fixture
def raced(sql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Raced:
    stream = ModelStream(2)

    def client(*_: Any, **__: Any) -> Any:
        return stream.within(Budget(2))

    monkeypatch.setattr("shardlake.batch.Kinesis", client)
    monkeypatch.setattr("shardlake.ingesting.Kinesis", client)
    return Raced(sql_url, tmp_path, stream)


def no_errors(outcomes: list[Any]) -> None:
    assert [outcome for outcome in outcomes if isinstance(outcome, BaseException)] == []


class TestRuns:
    """Kills: a transaction that writes without the lock, or takes it after its first look; another isolation."""

    def test_two_schedulers(self, raced: Raced) -> None:
        chance = random.Random(1)
        for _ in range(ROUNDS):
            raced.put_some(chance)
            with delayed(chance.randrange(10**6)):
                no_errors(at_once([raced.run] * 2))
        raced.until_caught_up()
        raced.check()

    def test_two_runs_of_one_batch(self, raced: Raced) -> None:
        chance = random.Random(2)
        for number in range(ROUNDS):
            raced.put_some(chance)
            with delayed(chance.randrange(10**6)):
                no_errors(at_once([partial(raced.run, f"same-{number}")] * 2))
        raced.until_caught_up()
        raced.check()

    def test_a_run_beside_the_command_line(self, raced: Raced) -> None:
        chance = random.Random(3)
        for _ in range(ROUNDS // 2):
            raced.put_some(chance)
            with delayed(chance.randrange(10**6)):
                no_errors(at_once([raced.run, raced.until_caught_up, raced.run]))
        raced.check()

    def test_backfills_beside_live(self, raced: Raced) -> None:
        chance = random.Random(4)
        raced.put_some(chance)
        raced.until_caught_up()
        for number in range(ROUNDS // 3):
            raced.put_some(chance)

            def backfill(name: str = f"again-{number}") -> None:
                raced.steps(name).open_backfill(Request())
                raced.run(f"of-{name}", name)

            with delayed(chance.randrange(10**6)):
                no_errors(at_once([raced.run, backfill, backfill]))
            raced.run("rest", f"again-{number}")
            raced.check(f"again-{number}")
        raced.until_caught_up()
        raced.check()


@pytest.mark.parametrize("same_batch", [True, False])
def test_a_zombie_that_goes_on_when_its_successor_is_done(raced: Raced, sql_url: str, same_batch: bool) -> None:
    """It stops before each of its transactions in turn (on PostgreSQL, which is slower, before every ninth). Its
    successor finishes that batch, and a third follows; or another one with its ranges, and a third has planned: what
    the zombie then does changes nothing. Kills: a commit that does not compare."""
    chance = random.Random(5)
    for before in count(1, 1 if "sqlite" in sql_url else 9):
        raced.put_some(chance)
        run = f"zombie-{before}"
        with Held(partial(raced.run, run), before) as zombie:
            if zombie.stopped:
                raced.run(run if same_batch else "")
                raced.put_some(chance)
                raced.run() if same_batch else raced.steps().plan(Run("dag", f"open-{before}"))
        assert zombie.failure is None, f"stopped before transaction {before}: {zombie.failure!r}"
        if not zombie.stopped:
            break
    raced.until_caught_up()
    raced.check()
    assert before > 10


class TestByHand:
    def test_abandon_beside_a_commit(self, raced: Raced) -> None:
        """Either the range is committed with its file, or given up without. Kills: files removed without the lock."""
        chance = random.Random(6)
        for number in range(ROUNDS):
            raced.put_some(chance)
            steps, run = raced.steps(), Run("dag", f"by-hand-{number}")
            batch = steps.plan(run).batch_id
            steps.ingest(batch, 0, InlineEngine(), lambda line: None)
            steps.verify(batch)
            shard_id = chance.choice(raced.open_ranges()).shard_id
            range_ = open_range(steps, shard_id)
            entry = JournalEntry(1, "ada", "abandon", "p", LIVE, range_, "a race")

            def give_up(range_: SequenceRange = range_, entry: JournalEntry = entry) -> None:
                time.sleep(chance.uniform(0, 0.03))  # a commit asks the ledger for more before it has the lock
                abandon(raced.steps(), range_, entry)

            calls: list[Callable[[], object]] = [partial(raced.steps().commit, batch), give_up]
            with delayed(chance.randrange(10**6)):
                committed, abandoned = at_once(calls)
            # A commit that sees the file gone, and the range not yet, takes it for one that has to be read again.
            assert isinstance(committed, ShardlakeError) != isinstance(abandoned, ConflictError), (committed, abandoned)
            assert (raced.folder / FileKey.of(range_).path).exists() == isinstance(abandoned, ConflictError)
            raced.until_caught_up()
        raced.check()

    def test_repairs_beside_a_run(self, raced: Raced) -> None:
        chance = random.Random(7)
        for number in range(ROUNDS // 2):
            raced.put_some(chance)
            raced.until_caught_up()
            rows = list(raced.ledger.ranges("p", LIVE))
            row = chance.choice(rows)
            (raced.folder / FileKey.of(row.range).path).unlink()
            raced.put_some(chance)
            entry = JournalEntry(number, "ada", "repair", "p", LIVE, row.range, "a race")

            def mend(row: LedgerRange = row, entry: JournalEntry = entry) -> None:
                steps = raced.steps()
                repair(steps, whose(steps), row, entry)

            with delayed(chance.randrange(10**6)):
                no_errors(at_once([mend, mend, raced.run]))
            raced.until_caught_up()
        raced.check()
        assert len(raced.ledger.journal("p")) == 2 * (ROUNDS // 2)


class TestLock:
    def test_is_one_a_pipeline(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Kills: one lock for all, by which a pipeline with ten thousand shards would make the others wait."""
        monkeypatch.setattr("shardlake.ledger.database.LOCK_TIMEOUT_S", 0.1)
        ledger = open_ledger(postgres_url)
        engine = sa.create_engine(postgres_url, poolclass=sa.NullPool)
        with engine.begin() as other:
            other.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _lock_number("p")})
            assert ledger.record_listing("q", LIVE, [], {})
            for namespace in (LIVE, "b"):
                with pytest.raises(UnavailableError, match="lock timeout.*Run the same step again"):
                    ledger.record_listing("p", namespace, [], {})
        assert ledger.record_listing("p", LIVE, [], {})


class TestDeadlocks:
    """Transactions of ours make none. One that a stranger makes ends in an error that may be retried."""

    def test_the_victim_of_a_deadlock_may_try_again(self, postgres_url: str) -> None:
        ledger = open_ledger(postgres_url)
        start = Start("AFTER", SequenceNumber("1"))
        note = CaughtUp(start.key, 5, 1)
        ledger.record_listing("p", LIVE, [], {"s": start})
        engine = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as stranger, ThreadPoolExecutor(1) as pool:
            stranger.exec_driver_sql("SET deadlock_timeout = '60s'")  # it is the other one who finds out, and is ended
            stranger.exec_driver_sql("BEGIN")
            stranger.exec_driver_sql("UPDATE shardlake_chains SET caught_up_at_ms = NULL")
            marked = pool.submit(ledger.record_listing, "p", LIVE, [], {}, {"s": note})
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            until_s = time.monotonic() + 30
            while stranger.exec_driver_sql(waiting).scalar_one() == 0:
                assert time.monotonic() < until_s
            stranger.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _lock_number("p")})
            stranger.exec_driver_sql("ROLLBACK")
            with pytest.raises(UnavailableError, match=r"deadlock detected.*Run the same step again"):
                marked.result(30)
        ledger.record_listing("p", LIVE, [], {}, {"s": note})
        assert ledger.chains("p", LIVE)["s"].caught_up == note

    def test_whoever_cannot_be_serialized_may_try_again(self, postgres_url: str) -> None:
        """Not under READ COMMITTED; but where a server raises it all the same, nobody is told of a conflict."""
        ledger = open_ledger(postgres_url)
        start = Start("AFTER", SequenceNumber("1"))
        note = CaughtUp(start.key, 5, 1)
        ledger.record_listing("p", LIVE, [], {"s": start})
        engine = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as stranger:
            stranger.exec_driver_sql(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'serialization_failure'; END $$"
            )
            stranger.exec_driver_sql(
                "CREATE TRIGGER refuse BEFORE UPDATE ON shardlake_chains FOR EACH ROW EXECUTE FUNCTION refuse()"
            )
        with pytest.raises(UnavailableError, match=r"could not serialize access.*Run the same step again"):
            ledger.record_listing("p", LIVE, [], {}, {"s": note})
