"""One Airflow with all its lanes, and the cells that are tried on it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from psycopg.sql import SQL, Identifier

from demo.airflow_home import Airflow, AirflowHome, start_airflow
from demo.background import Background
from demo.folder import REPOSITORY
from demo.java import java_home
from demo.postgres import Postgres
from local_kinesis.process import LocalKinesis
from support.faults.airflow.cells import strings
from support.faults.airflow.dag import POLL_S, Dag
from support.faults.airflow.lane import Lane
from support.faults.airflow.run import interrupt, record
from support.faults.airflow.ways import ALONE, NEXT_RUN, WAYS
from support.faults.boundaries import TAP, Boundary, Tap, wait_until
from support.faults.results import OK, Cell, Outcome, tried
from support.faults.site import Site
from support.faults.spark import engine

_EVERY_S = 15
"""How often a lane with a schedule is due."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What sets one lane apart from another.

    Attributes:
        ledger: `sqlite` or `postgres`.
        scheduled: whether it has a schedule.
    """

    ledger: str
    scheduled: bool = False

    @staticmethod
    def needed_by(string: Sequence[Cell]) -> Kind:
        """The kind of lane that cells of one run can be tried on."""
        return Kind(string[0].ledger, string[-1].way == NEXT_RUN)


def lanes(ledgers: Iterable[str]) -> dict[str, Kind]:
    """One Airflow's lanes: as many as two cores keep busy."""
    beside = {"sqlite": 2, "postgres": 1}
    plain = {f"{ledger}-{number}": Kind(ledger) for ledger in ledgers for number in range(beside[ledger])}
    return plain | {f"{ledger}-scheduled": Kind(ledger, scheduled=True) for ledger in ledgers}


@dataclass
class AirflowTier:
    """The cells of this matrix on one Airflow and one local Kinesis.

    Attributes:
        lanes: pipelines by their names, a run at a time on each.
        postgres: the server of the ledgers that are not in SQLite.
    """

    root: Path
    kinesis: LocalKinesis
    background: Background
    lanes: Mapping[str, Kind]
    postgres: Postgres | None
    airflow: Airflow = field(init=False)

    def start(self) -> None:
        """Start the Airflow, with a DAG for each lane."""
        for name in self.lanes:
            self._empty_ledger(name)
        entries = {name: self._entry(name) for name in self.lanes}
        (self.root / "pipelines.yaml").write_text(json.dumps({"pipelines": entries}), encoding="utf-8")
        tap = self.root / "tap"
        tap.mkdir(parents=True, exist_ok=True)
        environment = {
            **Tap(tap).environment(self.root / "lake"),
            **{_variable(name): self._ledger_url(name) for name in self.lanes},
            "SHARDLAKE_CONFIG": str(self.root / "pipelines.yaml"),
            "PYTHONPATH": os.pathsep.join(map(str, (TAP, REPOSITORY / "include"))),
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        settings = {
            "AIRFLOW__CORE__PARALLELISM": str(2 * len(self.lanes)),
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "10",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
        }
        home = AirflowHome(self.root / "airflow", REPOSITORY / "dags", REPOSITORY / "plugins", environment, settings)
        self.airflow = start_airflow(home, self.background)
        dags = {f"kinesis_ingest__{name}" for name in self.lanes}
        wait_until(lambda: dags <= {dag["dag_id"] for dag in self.airflow.api.dags()}, 120, "no DAGs", every_s=POLL_S)
        for name, kind in self.lanes.items():
            if kind.scheduled:
                self._dag(name).rest()

    def boundaries(self) -> list[Boundary]:
        """Every boundary of a clean run."""
        found: list[Boundary] = record(self._lane(self._free(Kind("sqlite")).get()))
        return found

    def outcomes(self, cells: Iterable[Cell], boundaries: Mapping[str, Boundary]) -> Iterator[Outcome]:
        """Try cells; those that kill a part of Airflow come last, one run at a time.

        All cells of a run have its outcome, and each an equal part of its time.
        """
        sorted_out = defaultdict[tuple[bool, str], list[Cell]](list)
        for cell in cells:
            sorted_out[cell.way in ALONE, cell.ledger].append(cell)
        runs = [(alone, run) for (alone, _), own in sorted_out.items() for run in strings(own, boundaries)]
        yield from self._beside_each_other([run for alone, run in runs if not alone], boundaries)
        for alone, run in runs:
            if alone:
                yield from self._tried(run, boundaries, self._free(Kind.needed_by(run)))

    def _beside_each_other(self, runs: Iterable[list[Cell]], boundaries: Mapping[str, Boundary]) -> Iterator[Outcome]:
        by_kind = defaultdict[Kind, list[list[Cell]]](list)
        for run in runs:
            by_kind[Kind.needed_by(run)].append(run)
        with ExitStack() as stack:
            started = []
            for kind, own in by_kind.items():
                free = self._free(kind)
                pool = stack.enter_context(ThreadPoolExecutor(free.qsize()))
                started += [pool.submit(self._tried, run, boundaries, free) for run in own]
            try:
                for done in as_completed(started):
                    yield from done.result()
            finally:
                for each in started:
                    each.cancel()

    def _free(self, kind: Kind) -> SimpleQueue[str]:
        """The lanes of a kind."""
        free = SimpleQueue[str]()
        for name, its_kind in self.lanes.items():
            if its_kind == kind:
                free.put(name)
        return free

    def _tried(self, run: Sequence[Cell], boundaries: Mapping[str, Boundary], free: SimpleQueue[str]) -> list[Outcome]:
        name = free.get()
        try:
            lane = self._lane(name)
            kills = [(boundaries[cell.boundary], WAYS[cell.way]) for cell in run]
            came = tried(run[0], lambda: interrupt(lane, kills))
            if came.said != OK:
                lane.dag.give_up()
        finally:
            free.put(name)
        said = came.said if came.said == OK else f"{came.said}; a run with {' | '.join(map(_text, run))}"
        return [Outcome(cell, said, round(came.seconds / len(run), 2)) for cell in run]

    def _lane(self, name: str) -> Lane:
        """A lane with a stream, a ledger and a dataset that are new, once all its runs are over."""
        dag = self._dag(name)
        dag.rest()
        shutil.rmtree(self.root / "lake" / name, ignore_errors=True)
        self._empty_ledger(name)
        self.kinesis.client().delete_stream(StreamName=name)
        tap = Tap(self.root / "tap", dag.dag_id)
        tap.forget()
        return Lane(self.airflow, self.background, dag, tap, self._site(name))

    def _empty_ledger(self, name: str) -> None:
        for file in self.root.glob(f"{name}.db*"):
            file.unlink()
        if self.postgres and self.lanes[name].ledger == "postgres":
            with closing(self.postgres.connect("postgres")) as connection:
                connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))
                connection.execute(SQL("CREATE DATABASE {} STRATEGY wal_log").format(Identifier(name)))

    def _dag(self, name: str) -> Dag:
        return Dag(self.airflow.api, f"kinesis_ingest__{name}", self.lanes[name].scheduled)

    def _site(self, name: str) -> Site:
        settings = {"engine": engine(self.root)}
        return Site(self.kinesis, self.kinesis.client(), name, self.root, self._ledger_url(name), settings)

    def _entry(self, name: str) -> dict[str, Any]:
        """A lane's pipeline in the configuration file, which refuses a password."""
        entry = {**self._site(name).entry, "ledger": f"${{{_variable(name)}}}"}
        return {**entry, "schedule": f"{_EVERY_S}s"} if self.lanes[name].scheduled else entry

    def _ledger_url(self, name: str) -> str:
        if self.lanes[name].ledger == "postgres":
            assert self.postgres
            return self.postgres.url(name)
        return f"sqlite:///{self.root}/{name}.db"


def _variable(name: str) -> str:
    """The variable of the environment that a lane's ledger is in."""
    return f"LEDGER_OF_{name.upper().replace('-', '_')}"


def _text(cell: Cell) -> str:
    return f"{cell.boundary}; {cell.way}"
