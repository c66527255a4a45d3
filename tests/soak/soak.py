"""A soak: steady input and trouble for a long time; in the end every record once, and no more memory or open files.

Two workers share one pipeline. One lives as long as the soak does and is measured; the other one is killed every few
seconds and begun again, so that ranges are left open, files half written, and both race. The service's clock runs ahead
as fast as the workers keep up, so that retention trims what the local Kinesis holds.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

import duckdb
import yaml

from local_kinesis.process import LocalKinesis, running
from local_kinesis.produce import kinesis_client
from shardlake.ledger import open_ledger
from shardlake.names import LIVE, FileKey
from shardlake.ranges import SequenceNumber
from soak.processes import Usage, Worker
from soak.stream import STREAM, Producer, fault_plan, faults_met, reshard
from soak.worker import PIPELINE

MOST_GROWTH = 1.05
RESTART_EVERY_S = 9.0
RESHARD_EVERY_S = 13.0
ADVANCE_HOURS = 12
CATCH_UP_S = 300
WARM_BATCHES = 10
"""After so many, all code is loaded, and the allocators have what they need."""
WARM_WITHIN_S = 300


@dataclass
class Figures:
    """What a soak came to."""

    seconds: float = 0
    batches: int = 0
    failed_runs: int = 0
    records: int = 0
    faults: int = 0
    reshards: int = 0
    restarts: int = 0
    days: float = 0
    usages: tuple[Usage, ...] = ()

    def __str__(self) -> str:
        return (
            f"soak: {self.seconds:.0f} s, {self.days:.1f} days of the service's clock; {self.batches} batches,"
            f" {self.failed_runs} failed runs, {self.records} records, each there once;"
            f" {self.faults} faults, {self.reshards} reshards, {self.restarts} restarts;"
            f" {'; '.join(map(str, self.usages))}"
        )


def soak(seconds: float, folder: Path, seed: int) -> Figures:
    """Run for so long, let the pipeline catch up, and check everything but the usage.

    Raises:
        AssertionError: a worker or the producer has ended by itself; or a record is missing, or there twice; or the
            ledger's chains are not whole.
    """
    with running("--stream", f"{STREAM}:2") as server:
        soak = _Soak(server, folder, seed)
        try:
            soak.go_on(until_warm=True, seconds=WARM_WITHIN_S)
            began = time.monotonic()
            soak.go_on(until_warm=False, seconds=seconds)
            soak.figures.seconds = time.monotonic() - began
            soak.end()
        finally:
            soak.lasting.kill()
            soak.restarted.kill()
    _check_records(folder)
    _check_ledger(folder, soak.figures.records)
    return soak.figures


class _Soak:
    """What is at work, and the trouble that is made for it."""

    def __init__(self, server: LocalKinesis, folder: Path, seed: int) -> None:
        self._server, self._folder, self._chance = server, folder, random.Random(seed)
        self._client = kinesis_client(server.endpoint_url, "us-east-1")
        self._newest: dict[str, SequenceNumber] = {}
        self._next_restart_s = self._next_reshard_s = time.monotonic()
        server.control({"faults": fault_plan(seed)})
        self._producer = Producer(self._client, folder / "acknowledged.csv")
        self._configuration = _configuration(folder, server)
        self.lasting, self.restarted = self._worker("lasting"), self._worker("restarted")
        self.figures = Figures()
        self.figures.usages = Usage("worker", self.lasting.process.pid), Usage("local Kinesis", server.pid)

    def _worker(self, name: str) -> Worker:
        return Worker(self._configuration, self._folder / f"{name}.log")

    def go_on(self, *, until_warm: bool, seconds: float) -> None:
        """Make trouble for so long; or, unmeasured, until the lasting worker has loaded all that it needs."""
        until_s = time.monotonic() + seconds
        while (now_s := time.monotonic()) < until_s:
            if until_warm and self.lasting.batches >= WARM_BATCHES:
                return
            time.sleep(0.5)
            for each in (self.lasting, self.restarted, self._producer):
                each.check_alive()
            for usage in () if until_warm else self.figures.usages:
                usage.look()
            self._let_time_fly()
            if now_s > self._next_restart_s:
                self._restart()
                self._next_restart_s = now_s + RESTART_EVERY_S * self._chance.uniform(0.5, 1.5)
            if now_s > self._next_reshard_s:
                reshard(self._client, self._chance)
                self.figures.reshards += 1
                self._next_reshard_s = now_s + RESHARD_EVERY_S * self._chance.uniform(0.5, 1.5)
        assert not until_warm, f"not {WARM_BATCHES} batches in {seconds} s"

    def _let_time_fly(self) -> None:
        """Move the service's clock once all is read that was there when it was moved before: nothing is ever lost.

        Of the runs since then, the first may have planned before, the next ones read what is there, and another one
        notes that nothing is behind it.
        """
        if self.lasting.runs < 4 or not _is_committed(self._folder, self._newest):
            return
        self._server.control({"advance_clock_s": ADVANCE_HOURS * 3600})
        self.lasting.runs, self._newest = 0, dict(self._producer.newest)
        self.figures.days += ADVANCE_HOURS / 24

    def _restart(self) -> None:
        self.restarted.kill()
        self._add(self.restarted)
        self.restarted = self._worker("restarted")
        self.figures.restarts += 1

    def end(self) -> None:
        """Put no more, make no more trouble, and let the lasting worker catch up."""
        self._producer.end()
        self.restarted.kill()
        self.figures.faults = faults_met(self._server)
        self._server.control({"faults": []})
        _catch_up(self.lasting)
        self.lasting.end()
        for worker in (self.restarted, self.lasting):
            self._add(worker)
        self.figures.records = self._producer.acknowledged

    def _add(self, worker: Worker) -> None:
        self.figures.batches += worker.batches
        self.figures.failed_runs += worker.failures


def _configuration(folder: Path, server: LocalKinesis) -> Path:
    entry = {
        "stream": STREAM,
        "region": "us-east-1",
        "endpoint_url": server.endpoint_url,
        "dataset": str(folder / "lake"),
        "ledger": _ledger(folder),
        "max_window": "24h",
        "retry_budget": "30s",
    }
    file = folder / "pipelines.yaml"
    file.write_text(yaml.safe_dump({"pipelines": {PIPELINE: entry}}))
    return file


def _ledger(folder: Path) -> str:
    return f"sqlite:///{folder}/ledger.db"


def _is_committed(folder: Path, newest: dict[str, SequenceNumber]) -> bool:
    """Whether shards are read up to these records: then none can be trimmed unread when the clock moves."""
    chains = open_ledger(_ledger(folder)).chains(PIPELINE, LIVE)
    return all(id_ in chains and chains[id_].position.key >= number.key for id_, number in newest.items())


def _catch_up(worker: Worker) -> None:
    """Wait until a worker finds nothing any more: three plans in a row, for it takes two listings to miss a shard."""
    worker.idle, until = 0, time.monotonic() + CATCH_UP_S
    while worker.idle < 3:
        worker.check_alive()
        assert time.monotonic() < until, f"the pipeline has not caught up within {CATCH_UP_S} s"
        time.sleep(0.2)


def _check_records(folder: Path) -> None:
    """Compare the dataset with what was acknowledged."""
    with duckdb.connect() as database:
        database.execute(f"SET memory_limit = '500MB'; SET temp_directory = '{folder}/duckdb'")
        wrong = database.execute(
            f"""
            SELECT shard_id, sequence_number, put.number, times FROM
                (SELECT shard_id, sequence_number, data::VARCHAR AS data, count(*) AS times
                 FROM read_parquet('{folder}/lake/data/**/*.parquet') GROUP BY ALL) AS found
            FULL JOIN
                (SELECT shard_id, sequence_number, number, repeat(number || ' ', 5) AS data
                 FROM read_csv('{folder}/acknowledged.csv', all_varchar = true,
                               names = ['shard_id', 'sequence_number', 'number'])) AS put
            USING (shard_id, sequence_number, data)
            WHERE times IS DISTINCT FROM 1 OR put.number IS NULL
            LIMIT 20
            """
        ).fetchall()
    assert wrong == [], "records that are missing (times null), doubled, or not as they were put (number null)"


def _check_ledger(folder: Path, records: int) -> None:
    """Check that the chains are whole, and that the files are theirs."""
    rows = list(open_ledger(_ledger(folder)).ranges(PIPELINE, LIVE))
    assert {row.state for row in rows} == {"committed"}, "ranges are open or lost"
    for _, chain in groupby(rows, key=lambda row: row.range.shard_id):
        for one, other in pairwise(chain):
            assert one.range.through.key == other.range.start.key, f"{one.range} is followed by {other.range}"
    assert sum(row.contents.rows for row in rows if row.contents) == records
    lake = folder / "lake"
    files = {str(path.relative_to(lake)) for path in (lake / "data").rglob("*") if path.is_file()}
    assert files == {FileKey.of(row.range).path for row in rows}, "stray files, or files that are missing"
