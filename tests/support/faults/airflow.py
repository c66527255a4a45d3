"""The matrix on a real Airflow with a real Spark: gone on with as Airflow or a person would."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from demo.airflow_home import Airflow, AirflowHome, start_airflow
from demo.background import Background
from demo.folder import REPOSITORY
from demo.java import java_home
from local_kinesis.process import LocalKinesis
from support.faults.boundaries import TAP, Boundary, Tap, kill, let_go_on, wait_until
from support.faults.site import Site
from support.faults.spark import ENGINE
from support.faults.steps import Tasks
from support.faults.task import Task
from support.retries import insist

_WITHIN_S = 600.0
_OVER = ("success", "failed")
_ONE_AT_ONCE = threading.Lock()  # whoever starts a process of a fork server asks how all others are


@dataclass
class Lane:
    """One pipeline of an Airflow, on which cells are tried one after the other."""

    airflow: Airflow
    background: Background
    tap: Tap
    site: Site

    @property
    def dag_id(self) -> str:
        """The pipeline's DAG."""
        return f"kinesis_ingest__{self.site.name}"

    def trigger(self) -> str:
        """Start a run; its id."""
        return str(insist(lambda: self.airflow.api.trigger(self.dag_id))["dag_run_id"])

    def state(self, run: str) -> str:
        """The state of a run."""
        return str(insist(lambda: self.airflow.api.dag_run(self.dag_id, run))["state"])

    def succeeds(self, run: str) -> None:
        """Wait for a run's end, which has to be a good one."""
        wait_until(lambda: self.state(run) in _OVER, _WITHIN_S, f"{run} does not end", every_s=0.5)
        assert self.state(run) == "success", f"{run} is {self.state(run)}"

    def run(self) -> str:
        """A whole run; its id."""
        run = self.trigger()
        self.succeeds(run)
        return run

    def clear(self, run: str, task: str | tuple[str, int], *, downstream: bool = True) -> None:
        """Clear a task in the UI, once Airflow knows that it is not at work any more."""
        name, index = task if isinstance(task, tuple) else (task, None)
        self.wait_until_settled(run, name)
        cleared = insist(lambda: self.airflow.api.clear(self.dag_id, run, [task], downstream=downstream))
        assert name in {each["task_id"] for each in cleared if index in (None, each["map_index"])}

    def clear_run(self, run: str, task: str) -> None:
        """Clear a whole run in the UI, once Airflow knows that a task is not at work any more.

        Cleared before, Airflow 3.3's scheduler ends with an AssertionError when it comes to hear of the task's death.
        """
        self.wait_until_settled(run, task)
        insist(lambda: self.airflow.api.clear_run(self.dag_id, run))

    def wait_until_settled(self, run: str, task: str) -> None:
        """Wait until Airflow knows of no instance of a task that is at work."""

        def at_work() -> bool:
            instances = insist(lambda: self.airflow.api.task_instances(self.dag_id, run))
            states = {each["state"] for each in instances if each["task_id"] == task}
            return not states.isdisjoint(("running", "queued", "scheduled", "restarting"))

        wait_until(lambda: not at_work(), _WITHIN_S, f"{task} is at work", every_s=0.2)

    def command(self) -> None:
        """`shardlake run`, beside Airflow."""
        with _ONE_AT_ONCE:
            Tasks(self.site, self.tap).do(Task("command"))

    @contextmanager
    def stopped_at(self, boundary: Boundary) -> Iterator[tuple[str, int]]:
        """A run and its process that stands still at a boundary."""
        self.tap.order(boundary)
        run = self.trigger()
        wait_until(
            lambda: self.tap.stopped() or self.state(run) in _OVER, _WITHIN_S, f"{boundary} not reached", every_s=0.2
        )
        pid = self.tap.stopped()
        assert pid is not None, f"{boundary} was not reached"
        try:
            yield run, pid
        finally:
            let_go_on(pid)

    def kill_at(self, boundary: Boundary) -> str:
        """Kill the process at a boundary; its run."""
        with self.stopped_at(boundary) as (run, pid):
            kill(pid)
        return run

    def is_quiet(self) -> bool:
        """Whether nothing of Spark runs for this DAG any more."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("AIRFLOW_CTX_DAG_ID") == self.dag_id:
                    return False
        return True


Way = Callable[[Lane, Boundary], None]


def task_of(boundary: Boundary) -> str:
    """The task that works at a boundary."""
    role = boundary.role.removeprefix("supervisor of ")
    return "ingest" if role in ("driver", "worker") else role


def retry(lane: Lane, boundary: Boundary) -> None:
    """Airflow's own."""
    lane.succeeds(lane.kill_at(boundary))


def one_task(lane: Lane, boundary: Boundary) -> None:
    """Clear of the task alone."""
    run = lane.kill_at(boundary)
    lane.clear(run, task_of(boundary), downstream=False)
    lane.succeeds(run)


def one_index(lane: Lane, boundary: Boundary) -> None:
    """Clear of the second mapped index of `ingest`; where there is none yet, when the run is over."""
    run = lane.kill_at(boundary)
    if task_of(boundary) != "ingest":
        lane.succeeds(run)
    lane.clear(run, ("ingest", 1))
    lane.succeeds(run)


def downstream(lane: Lane, boundary: Boundary) -> None:
    """Clear of the task with all that comes after it."""
    run = lane.kill_at(boundary)
    lane.clear(run, task_of(boundary))
    lane.succeeds(run)


def whole_run(lane: Lane, boundary: Boundary) -> None:
    """Clear of the whole run, which is not over."""
    run = lane.kill_at(boundary)
    lane.clear_run(run, task_of(boundary))
    lane.succeeds(run)


def old_run(lane: Lane, boundary: Boundary) -> None:
    """Airflow's retry; the next run; then Clear of the first one, which is an old committed run."""
    run = lane.kill_at(boundary)
    lane.succeeds(run)
    lane.site.put(10)
    lane.run()
    before = lane.site.published()
    lane.clear_run(run, "commit")
    lane.succeeds(run)
    assert lane.site.published() == before


def next_run(lane: Lane, boundary: Boundary) -> None:
    """A person gives the run up; the next one takes over."""
    run = lane.kill_at(boundary)
    task = task_of(boundary)
    lane.wait_until_settled(run, task)
    insist(lambda: lane.airflow.api.mark_failed(lane.dag_id, run, task))
    wait_until(lambda: lane.state(run) in _OVER, _WITHIN_S, f"{run} does not end", every_s=0.5)
    lane.site.put(10)
    lane.run()
    lane.command()


def command(lane: Lane, boundary: Boundary) -> None:
    """`shardlake run` at once; Airflow's retry comes after it."""
    run = lane.kill_at(boundary)
    lane.command()
    lane.succeeds(run)


def jvm(lane: Lane, boundary: Boundary) -> None:
    """Spark's JVM is killed while the Python worker stands at the boundary; Airflow's retry.

    The worker goes on, unless the kernel was first to end it: a stopped process whose group is orphaned gets SIGHUP.
    """
    with lane.stopped_at(boundary) as (run, pid):
        (java,) = (parent for parent in psutil.Process(pid).parents() if parent.name() == "java")
        kill(java.pid)
    lane.succeeds(run)


def scheduler(lane: Lane, boundary: Boundary) -> None:
    """The scheduler is killed while the process stands at the boundary, which then goes on; a new one is started."""
    (process,) = (each for each in lane.background.processes if each.name == "airflow scheduler")
    with lane.stopped_at(boundary) as (run, _):
        kill(process.pid)
    start_scheduler(lane)
    lane.succeeds(run)


def start_scheduler(lane: Lane) -> None:
    """A new scheduler beside what the old one left."""
    home, command = lane.airflow.home.home, [sys.executable, "-m", "airflow", "scheduler", "--skip-serve-logs"]
    lane.background.start(
        "airflow scheduler",
        command,
        log=home / "logs" / "scheduler-2.log",
        folder=home,
        environment=lane.airflow.environment,
    )


SCHEDULER = "the scheduler"

WAYS: dict[str, Way] = {
    "retry": retry,
    "one task": one_task,
    "one mapped index": one_index,
    "downstream": downstream,
    "the whole run": whole_run,
    "an old run": old_run,
    "next run": next_run,
    "shardlake run": command,
    "the JVM": jvm,
    SCHEDULER: scheduler,
}
"""The last two say who is killed while a process stands at the boundary; the others, how it is gone on with."""

_ANYWHERE = list(WAYS)[:-2]


def cells(boundaries: list[Boundary]) -> Iterator[tuple[str, str]]:
    """Each boundary once, the ways to go on by turns; and who else is killed.

    The JVM wherever a Python worker is; the scheduler wherever something is published, reported, committed or told.
    """
    for row, boundary in enumerate(boundaries):
        yield str(boundary), _ANYWHERE[row % len(_ANYWHERE)]
    yield from ((str(each), "the JVM") for each in boundaries if each.role == "worker" and "end" not in each.name)
    told = re.compile(r"(link|rename|COMMIT|say|POST|PATCH) ")
    yield from ((str(each), SCHEDULER) for each in boundaries if each.count == 1 and told.search(each.name))


def record(lane: Lane) -> list[Boundary]:
    """Every boundary of a run that nobody interrupts, in order, over all its processes; each name once."""
    lane.site.put(40)
    lane.run()
    lane.site.check()
    return list(lane.tap.told())


def cell(lane: Lane, boundary: Boundary, way: Way) -> None:
    """One cell: what came of it is checked, and once more after another run.

    Raises:
        AssertionError: something does not hold.
    """
    site = lane.site
    site.put(40)
    way(lane, boundary)
    wait_until(lane.is_quiet, _WITHIN_S, "Spark does not end", every_s=0.5)
    site.check()
    seen = site.published()
    site.put(20)
    site.let_time_pass()
    lane.command()
    site.check()
    site.check_nothing_is_half_written()
    published = site.published()
    assert {path: published.get(path) for path in seen} == seen, "a published file changed"


@dataclass
class AirflowTier:
    """The cells of this matrix on one Airflow and one local Kinesis.

    Attributes:
        lanes: the names of pipelines, one cell at a time on each.
    """

    root: Path
    kinesis: LocalKinesis
    background: Background
    lanes: list[str]

    def start(self) -> Airflow:
        """Start the Airflow, with a DAG for each lane."""
        entries = {name: self._site(name).entry for name in self.lanes}
        (self.root / "pipelines.yaml").write_text(json.dumps({"pipelines": entries}), encoding="utf-8")
        tap = self.root / "tap"
        tap.mkdir(parents=True, exist_ok=True)
        environment = {
            **Tap(tap).environment(self.root / "lake"),
            "SHARDLAKE_CONFIG": str(self.root / "pipelines.yaml"),
            "PYTHONPATH": os.pathsep.join(map(str, (TAP, REPOSITORY / "include"))),
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        settings = {
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "10",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
        }
        home = AirflowHome(self.root / "airflow", REPOSITORY / "dags", REPOSITORY / "plugins", environment, settings)
        airflow = start_airflow(home, self.background)
        dags = {f"kinesis_ingest__{name}" for name in self.lanes}
        wait_until(lambda: dags <= {dag["dag_id"] for dag in airflow.api.dags()}, 120, "no DAGs", every_s=0.5)
        return airflow

    def lane(self, airflow: Airflow, name: str) -> Lane:
        """A lane with a stream, a ledger and a dataset that are new, once all runs of cells before it are over."""
        dag_id = f"kinesis_ingest__{name}"
        wait_until(
            lambda: all(run["state"] in _OVER for run in insist(lambda: airflow.api.dag_runs(dag_id))),
            _WITHIN_S,
            f"{name} is at work",
            every_s=0.5,
        )
        shutil.rmtree(self.root / "lake" / name, ignore_errors=True)
        for file in self.root.glob(f"{name}.db*"):
            file.unlink()
        with suppress(self.kinesis.client().exceptions.ResourceNotFoundException):
            self.kinesis.client().delete_stream(StreamName=name)
        tap = Tap(self.root / "tap", dag_id)
        tap.forget()
        return Lane(airflow, self.background, tap, self._site(name))

    def _site(self, name: str) -> Site:
        return Site(
            self.kinesis, self.kinesis.client(), name, self.root, f"sqlite:///{self.root}/{name}.db", {"engine": ENGINE}
        )
