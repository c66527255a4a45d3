"""The matrix on a real Airflow with a real Spark: gone on with as Airflow or a person would."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar, cast
from urllib.error import HTTPError

import psutil
from psycopg.sql import SQL, Identifier

from demo.airflow_api import AirflowApi, JsonObject
from demo.airflow_home import Airflow, AirflowHome, start_airflow
from demo.background import Background
from demo.folder import REPOSITORY
from demo.java import java_home
from demo.postgres import Postgres
from local_kinesis.process import LocalKinesis
from support.faults.boundaries import TAP, Boundary, Tap, kill, let_go_on, wait_until
from support.faults.results import OK, Cell, Outcome, tried
from support.faults.site import Site
from support.faults.spark import ENGINE, Command
from support.faults.steps import Tasks
from support.faults.task import Task
from support.retries import insist

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_WITHIN_S = 600.0
_POLL_S = 1.0
_OVER = ("success", "failed")
_TASKS = ("plan", "ingest", "verify", "commit", "follow_up")
_ONE_AT_ONCE = threading.Lock()  # whoever starts a process of a fork server asks how all others are
_EVERY_S = 15
"""How often a lane with a schedule is due."""


T = TypeVar("T")


def told(ask: Callable[[], T]) -> T:
    """What Airflow says to what may be asked again where no answer came in time."""
    for _ in range(5):
        with suppress(TimeoutError):
            return cast(T, insist(ask))
    return cast(T, insist(ask))


@dataclass(frozen=True, slots=True)
class Dag:
    """The DAG of one pipeline, as a person sees it.

    Attributes:
        dag_id: its id.
        scheduled: whether its runs are those that its schedule makes. Between cells it is paused then.
    """

    api: AirflowApi
    dag_id: str
    scheduled: bool

    def begin(self) -> str:
        """A new run, which a person triggers or the schedule makes; its id."""
        if not self.scheduled:
            return str(insist(lambda: self.api.trigger(self.dag_id))["dag_run_id"])
        earlier = self.run_ids()
        told(lambda: self.api.set_paused(self.dag_id, False))
        return self.next_after(earlier)

    def next_after(self, earlier: set[str]) -> str:
        """Wait for a run that the schedule makes; its id."""
        wait_until(lambda: self.run_ids("scheduled") - earlier, _WITHIN_S, "the schedule makes no run", every_s=_POLL_S)
        return min(self.run_ids("scheduled") - earlier)

    def rest(self) -> None:
        """Wait until no run is under way, and, where there is a schedule, none begins."""
        while True:
            wait_until(self._is_idle, _WITHIN_S, f"{self.dag_id} is at work", every_s=_POLL_S)
            if self.scheduled:
                told(lambda: self.api.set_paused(self.dag_id, True))
            if self._is_idle():
                return
            told(lambda: self.api.set_paused(self.dag_id, False))

    def _is_idle(self) -> bool:
        return all(run["state"] in _OVER for run in self._runs())

    def give_up(self) -> None:
        """Mark what is left to do of all runs as failed, as a person does with one that does not end."""
        for run in self._runs():
            for task in _TASKS if run["state"] not in _OVER else ():
                with suppress(HTTPError):
                    self.api.mark_failed(self.dag_id, str(run["dag_run_id"]), task)

    def run_ids(self, run_type: str = "") -> set[str]:
        """The ids of all runs, or those of a type."""
        return {str(run["dag_run_id"]) for run in self._runs() if run_type in ("", run["run_type"])}

    def _runs(self) -> list[JsonObject]:
        runs: list[JsonObject] = told(lambda: self.api.dag_runs(self.dag_id))
        return runs

    def is_over(self, run: str) -> bool:
        """Whether a run has ended."""
        return self.state(run) in _OVER

    def state(self, run: str) -> str:
        """The state of a run."""
        return str(told(lambda: self.api.dag_run(self.dag_id, run))["state"])

    def succeeds(self, run: str) -> None:
        """Wait for a run's end, which has to be a good one."""
        wait_until(lambda: self.is_over(run), _WITHIN_S, f"{run} does not end", every_s=_POLL_S)
        assert self.state(run) == "success", f"{run} failed"

    def states(self, run: str, task: str) -> set[str]:
        """The states of a task's instances."""
        instances = told(lambda: self.api.task_instances(self.dag_id, run))
        return {str(each["state"]) for each in instances if each["task_id"] == task}

    def clear(self, run: str, task: str | tuple[str, int], *, downstream: bool = True) -> None:
        """Clear a task, or one mapped index of it."""
        name, index = task if isinstance(task, tuple) else (task, None)
        cleared = told(lambda: self.api.clear(self.dag_id, run, [task], downstream=downstream))
        assert name in {each["task_id"] for each in cleared if index in (None, each["map_index"])}

    def clear_run(self, run: str) -> None:
        """Clear a whole run."""
        told(lambda: self.api.clear_run(self.dag_id, run))

    def mark_failed(self, run: str, task: str) -> None:
        """Mark a task as failed."""
        told(lambda: self.api.mark_failed(self.dag_id, run, task))


@dataclass
class Lane:
    """One pipeline of an Airflow, and a run of it that is interrupted.

    Attributes:
        run: the run's id, once it has begun.
    """

    airflow: Airflow
    background: Background
    dag: Dag
    tap: Tap
    site: Site
    run: str = ""

    def wait_until_found_dead(self, boundary: Boundary) -> None:
        """Wait until Airflow knows that the task at the boundary does not go on, and has not begun it again.

        Cleared before, Airflow 3.3's scheduler ends with an AssertionError when it comes to hear of the task's death.
        """
        expected = "queued" if is_untold(boundary) else "up_for_retry"
        wait_until(
            lambda: expected in self.dag.states(self.run, task_of(boundary)),
            _WITHIN_S,
            f"{boundary}: no {expected}",
            every_s=_POLL_S,
        )

    def command(self) -> None:
        """`shardlake run`, beside Airflow."""
        with _ONE_AT_ONCE:
            Tasks(self.site, self.tap).do(Task("command"))

    @contextmanager
    def stopped_at(self, boundary: Boundary) -> Iterator[int]:
        """The process that stands still at a boundary of the run; the run is begun if it was not yet."""
        self.tap.order(boundary)
        self.run = self.run or self.dag.begin()
        wait_until(
            lambda: self.tap.stopped() or self.dag.is_over(self.run),
            _WITHIN_S,
            f"{boundary} not reached",
            every_s=_POLL_S,
        )
        pid = self.tap.stopped()
        assert pid is not None, f"{boundary} was not reached"
        try:
            yield pid
        finally:
            let_go_on(pid)

    def kill_at(self, boundary: Boundary) -> None:
        """Kill the process at a boundary."""
        with self.stopped_at(boundary) as pid:
            kill_traced(pid)

    def replace(self, part: str, boundary: Boundary) -> None:
        """Kill a part of Airflow while the process stands at the boundary, which then goes on; start a new one."""
        process = [each for each in self.background.processes if each.name == f"airflow {part}"][-1]
        with self.stopped_at(boundary):
            kill(process.pid)
        self.background.start(
            process.name,
            [sys.executable, "-m", "airflow", *_COMMANDS[part]],
            log=Path(process.log),
            folder=self.airflow.home.home,
            environment=self.airflow.environment,
        )
        wait_until(self.airflow.api.healthy, _WITHIN_S, "no API", every_s=_POLL_S)

    def is_quiet(self) -> bool:
        """Whether nothing of Spark runs for this DAG any more."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("AIRFLOW_CTX_DAG_ID") == self.dag.dag_id:
                    return False
        return True


_COMMANDS = {
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "api-server": ["api-server"],
    "dag-processor": ["dag-processor"],
}


def kill_traced(pid: int) -> None:
    """SIGKILL to a process that somebody else started; a tracer is told its status too, which is -9."""
    traced = _LIBC.ptrace(_PTRACE_SEIZE, pid, None, None)
    assert traced == 0, f"process {pid} cannot be traced: {os.strerror(ctypes.get_errno())}"
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, _ALL_KINDS_OF_CHILDREN)
    code = os.waitstatus_to_exitcode(status)
    assert code == -signal.SIGKILL, f"process {pid} ended with {code}"


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_PTRACE_SEIZE = 0x4206
_ALL_KINDS_OF_CHILDREN = 0x40000000  # __WALL


Way = Callable[[Lane, Boundary], None]


def task_of(boundary: Boundary) -> str:
    """The task that works at a boundary."""
    role = boundary.role.removeprefix("supervisor of ")
    return "ingest" if role in ("driver", "worker") else role


def is_untold(boundary: Boundary) -> bool:
    """Whether Airflow is never told that the task began, and so does not find out that it does not go on.

    It stays queued until somebody clears it, or a new scheduler takes over: what would free it after
    `task_queued_timeout` is not there in Airflow 3.3's LocalExecutor (`revoke_task`).
    """
    return str(boundary).startswith("supervisor of") and str(boundary.name).endswith("PATCH run")


def retry(lane: Lane, boundary: Boundary) -> None:
    """Airflow's own."""
    lane.kill_at(boundary)


def one_task(lane: Lane, boundary: Boundary) -> None:
    """Clear of the task alone."""
    lane.kill_at(boundary)
    lane.wait_until_found_dead(boundary)
    lane.dag.clear(lane.run, task_of(boundary), downstream=False)


def one_index(lane: Lane, boundary: Boundary) -> None:
    """Clear of the second mapped index of `ingest`; where another task is killed, when the run is over."""
    lane.kill_at(boundary)
    if task_of(boundary) != "ingest":
        lane.dag.succeeds(lane.run)
    else:
        lane.wait_until_found_dead(boundary)
    lane.dag.clear(lane.run, ("ingest", 1))


def downstream(lane: Lane, boundary: Boundary) -> None:
    """Clear of the task with all that comes after it."""
    lane.kill_at(boundary)
    lane.wait_until_found_dead(boundary)
    lane.dag.clear(lane.run, task_of(boundary))


def whole_run(lane: Lane, boundary: Boundary) -> None:
    """Clear of the whole run, which is not over."""
    lane.kill_at(boundary)
    lane.wait_until_found_dead(boundary)
    lane.dag.clear_run(lane.run)


def old_run(lane: Lane, boundary: Boundary) -> None:
    """Airflow's retry; the next run; then Clear of the first one, which is an old committed run."""
    lane.kill_at(boundary)
    lane.dag.succeeds(lane.run)
    lane.site.put(10)
    lane.dag.succeeds(lane.dag.begin())
    before = lane.site.published()
    lane.dag.clear_run(lane.run)
    lane.dag.succeeds(lane.run)
    assert lane.site.published() == before


def next_run(lane: Lane, boundary: Boundary) -> None:
    """A person gives the run up; the next one that the schedule makes takes over."""
    lane.kill_at(boundary)
    lane.site.put(10)
    lane.wait_until_found_dead(boundary)
    earlier = lane.dag.run_ids()
    lane.dag.mark_failed(lane.run, task_of(boundary))
    wait_until(lambda: lane.dag.is_over(lane.run), _WITHIN_S, f"{lane.run} does not end", every_s=_POLL_S)
    assert "failed" in lane.dag.states(lane.run, task_of(boundary)), f"{lane.run} went on by itself"
    lane.run = lane.dag.next_after(earlier)
    lane.dag.succeeds(lane.run)


def command(lane: Lane, boundary: Boundary) -> None:
    """`shardlake run` at once; Airflow's retry comes after it."""
    lane.kill_at(boundary)
    lane.command()


def jvm(lane: Lane, boundary: Boundary) -> None:
    """Spark's JVM is killed while its Python stands at the boundary; Airflow's retry.

    The Python goes on, unless the kernel was first to end it: a stopped process whose group is orphaned gets SIGHUP.
    """
    with lane.stopped_at(boundary) as pid:
        (java,) = (parent for parent in psutil.Process(pid).parents() if parent.name() == "java")
        kill_traced(java.pid)


def scheduler(lane: Lane, boundary: Boundary) -> None:
    """The scheduler is killed, and another one started."""
    lane.replace("scheduler", boundary)


def api_server(lane: Lane, boundary: Boundary) -> None:
    """The API server is killed, and another one started."""
    lane.replace("api-server", boundary)


def dag_processor(lane: Lane, boundary: Boundary) -> None:
    """The DAG processor is killed, and another one started."""
    lane.replace("dag-processor", boundary)


ONE_INDEX, JVM, NEXT_RUN = "one mapped index", "the JVM", "next run"

GOING_ON: dict[str, Way] = {
    "retry": retry,
    "one task": one_task,
    ONE_INDEX: one_index,
    "downstream": downstream,
    "the whole run": whole_run,
    JVM: jvm,
}
"""After these the run goes on, and can be interrupted again, in a later task."""

_BY_A_PERSON = ("one task", "downstream", "the whole run")

LAST: dict[str, Way] = {"an old run": old_run, NEXT_RUN: next_run, "shardlake run": command}

ALONE: dict[str, Way] = {"the scheduler": scheduler, "the API server": api_server, "the DAG processor": dag_processor}
"""Who is killed while a process stands at the boundary: all lanes of the Airflow have to do with them."""

WAYS = {**GOING_ON, **LAST, **ALONE}


_CORE = (
    "plan: COMMIT ranges batches",
    "ingest: start Spark",
    "worker: link data/shard_id=*/*.parquet",
    "driver: rename _shardlake/batches/*/report-*.json",
    "verify: rename _shardlake/batches/*/verified.json",
    "commit: COMMIT ranges",
    "supervisor of commit: PATCH state",
)
"""Where what was done begins to count for the next step."""


PART = (
    *(("plan: COMMIT ranges batches", "the whole run"), ("worker: link data/shard_id=*/*.parquet", JVM)),
    *(("verify: rename _shardlake/batches/*/verified.json", "one task"), ("commit: COMMIT ranges", "an old run")),
    *(("driver: rename _shardlake/batches/*/report-*.json", ONE_INDEX), ("verify: say SucceedTask", "downstream")),
    *(("supervisor of commit: PATCH state", "shardlake run"), ("ingest: start Spark", NEXT_RUN)),
)
"""A few cells of three runs, a lane each, with all ways that concern one run only."""


def cells(boundaries: list[Boundary], ledger: str) -> Iterable[tuple[str, str]]:
    """Each boundary once, the ways by turns; the other ways and victims at the core. On PostgreSQL, each way once."""
    pairs = _once_each_way(boundaries) if ledger == "postgres" else [*_covering(boundaries), *_at_the_core(boundaries)]
    return dict.fromkeys((str(boundary), way) for boundary, way in pairs)


def _covering(boundaries: list[Boundary]) -> Iterator[tuple[Boundary, str]]:
    turns = {task: cycle([way for way in GOING_ON if _suits(way, task)]) for task in _TASKS}
    by_a_person = cycle(_BY_A_PERSON)
    for boundary in boundaries:
        yield boundary, next(by_a_person if is_untold(boundary) else turns[task_of(boundary)])


def _at_the_core(boundaries: list[Boundary]) -> Iterator[tuple[Boundary, str]]:
    core = [boundary for boundary in boundaries if str(boundary) in _CORE]
    yield from ((boundary, way) for way in (*LAST, *ALONE) for boundary in core)
    yield from (
        (boundary, JVM) for boundary in boundaries if boundary.role in ("worker", "driver") and boundary.count == 1
    )


def _once_each_way(boundaries: list[Boundary]) -> Iterator[tuple[Boundary, str]]:
    core = {str(boundary): boundary for boundary in boundaries if str(boundary) in _CORE}
    yield core[_CORE[2]], JVM
    yield from zip(cycle(core.values()), (way for way in WAYS if way != JVM))


def _suits(way: str, task: str) -> bool:
    """Whether a way needs no more than that the task is killed, and leaves what comes after it to be killed too."""
    return way != JVM and (way != ONE_INDEX or task == "ingest")


def strings(cells: Iterable[Cell], boundaries: Mapping[str, Boundary]) -> Iterator[list[Cell]]:
    """Cells that one run can have: a kill a task, in the order of tasks, until the run is left to others.

    A run costs half a minute, most of it for Spark; so each has as many kills as it can.
    """
    waiting = {task: deque[Cell]() for task in _TASKS}
    for cell in cells:
        waiting[task_of(boundaries[cell.boundary])].append(cell)
    while any(waiting.values()):
        string: list[Cell] = []
        for queue in waiting.values():
            if queue and not (string and _is_last(string[-1], boundaries)):
                string.append(queue.popleft())
        yield string


def _is_last(cell: Cell, boundaries: Mapping[str, Boundary]) -> bool:
    return cell.way in LAST or (cell.way == ONE_INDEX and task_of(boundaries[cell.boundary]) != "ingest")


def record(lane: Lane) -> list[Boundary]:
    """Every boundary of a run that nobody interrupts, in order, over all its processes; each name once."""
    lane.site.put(40)
    lane.dag.succeeds(lane.dag.begin())
    lane.site.check()
    return list(lane.tap.told())


def interrupt(lane: Lane, kills: Sequence[tuple[Boundary, Way]]) -> None:
    """One run with its kills: what came of it is checked, and once more after another run.

    Raises:
        AssertionError: something does not hold.
    """
    site = lane.site
    site.put(40)
    for boundary, way in kills:
        way(lane, boundary)
    lane.dag.succeeds(lane.run)
    lane.dag.rest()
    wait_until(lane.is_quiet, _WITHIN_S, "Spark does not end", every_s=_POLL_S)
    site.check()
    seen = site.published()
    site.put(20)
    site.let_time_pass()
    lane.command()
    site.check()
    with _ONE_AT_ONCE:  # all lanes' commands have one folder for temporary files
        site.check_nothing_is_half_written()
    published = site.published()
    assert {path: published.get(path) for path in seen} == seen, "a published file changed"


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
        self._make_archive()
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
        wait_until(lambda: dags <= {dag["dag_id"] for dag in self.airflow.api.dags()}, 120, "no DAGs", every_s=_POLL_S)
        for name, kind in self.lanes.items():
            if kind.scheduled:
                self._dag(name).rest()

    def boundaries(self) -> list[Boundary]:
        """Every boundary of a clean run."""
        return record(self._lane(self._free(Kind("sqlite")).get()))

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
            for done in as_completed(started):
                yield from done.result()

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
        settings = {"engine": _engine(f"-XX:SharedArchiveFile={self._archive}")}
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

    @property
    def _archive(self) -> Path:
        return self.root / "spark.jsa"

    def _make_archive(self) -> None:
        """Write down the classes of a Spark job as its JVM has them in memory: each later one costs half the CPU."""
        root = self.root / "archive"
        settings = {"engine": _engine(f"-XX:ArchiveClassesAtExit={self._archive}"), "max_group_ranges": 2}
        site = Site(self.kinesis, self.kinesis.client(), "archive", root, f"sqlite:///{root}/ledger.db", settings)
        site.put(1)
        with Command(site, Tap(root)).running() as process:
            assert process.wait(_WITHIN_S) == 0


def _variable(name: str) -> str:
    """The variable of the environment that a lane's ledger is in."""
    return f"LEDGER_OF_{name.upper().replace('-', '_')}"


def _engine(option: str) -> dict[str, Any]:
    """Spark, with one more option for its JVM."""
    return {**ENGINE, "conf": {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {option}"}}


def _text(cell: Cell) -> str:
    return f"{cell.boundary}; {cell.way}"
