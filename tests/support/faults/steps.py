"""The matrix on processes of their own, one a step: each boundary, each way to go on, an engine without Spark."""

from __future__ import annotations

import functools
import multiprocessing
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from signal import SIGKILL
from typing import Any
from unittest.mock import patch

from demo.postgres import Postgres
from local_kinesis.process import LocalKinesis
from shardlake.names import LIVE, batch_id
from shardlake.plan import BatchPlan
from support.faults.boundaries import Boundary, Tap, let_go_on, wait_until
from support.faults.site import Site
from support.faults.task import DAG, REFUSED, Task, Work, work
from support.lakes import Bucket

KILLED, NEXT, LATER = "run-1", "run-2", "run-3"
PAGE_RECORDS = 8
"""How many records come with a page while the run to be killed ingests; it plans with all it can see."""

_WITHIN_S = 120.0

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["support.faults.task"])


@functools.cache
def _start_fork_server() -> None:
    """Start the fork server with this process' path, which it is not told of in Python 3.11.

    It leaves out what it does not find, and every process would import all of it anew.
    """
    with patch.dict(os.environ, {"PYTHONPATH": os.pathsep.join(sys.path)}):
        forkserver.ensure_running()


@dataclass
class Tasks:
    """Runs steps of one pipeline's runs, one after the other, each in a process.

    Attributes:
        other_code: whether processes that are told of are of another code version.
    """

    site: Site
    tap: Tap
    other_code: bool = False
    interrupted: Task | None = None
    settled: dict[str, Any] = field(default_factory=dict)

    def start(self, task: Task, *, told: bool = False, lock_timeout_s: float = 30) -> BaseProcess:
        """Start a task's process."""
        if told:
            self.site.kinesis.control({"page_limit": PAGE_RECORDS if task.step == "ingest" else None})
        told_to, other_code = self.tap.folder if told else None, told and self.other_code
        given = Work(task, self.site.name, self.site.entry, self.site.root, told_to, lock_timeout_s, other_code)
        process = _forks.Process(target=work, args=(given,))
        _start_fork_server()
        process.start()
        return process

    def do(self, task: Task, *, told: bool = False) -> None:
        """Run a task, which has to end well."""
        process = self.start(task, told=told)
        process.join(_WITHIN_S)
        assert process.exitcode == 0, f"{task} ended with {process.exitcode}"

    def try_to(self, task: Task, lock_timeout_s: float = 30) -> bool:
        """Run a task, which may be refused with one of the product's errors; whether it ended well."""
        process = self.start(task, lock_timeout_s=lock_timeout_s)
        process.join(_WITHIN_S)
        assert process.exitcode is not None
        assert process.exitcode == 0 or process.exitcode > REFUSED, f"{task} ended with {process.exitcode}"
        return process.exitcode == 0

    def steps_of(self, run: str) -> Iterator[Task]:
        """The tasks of a run, which is planned when the second one is asked for; only that, with nothing to read."""
        yield Task("plan", run)
        text = self.site.ledger.batch(batch_id(self.site.name, LIVE, DAG, run))
        groups = len(BatchPlan.from_text(text).groups) if text else 0
        yield from (Task("ingest", run, group) for group in range(groups))
        if groups:
            yield from (Task("verify", run), Task("commit", run))

    def run(self, run: str) -> None:
        """A whole run; a task that ran already runs again."""
        for task in self.steps_of(run):
            self.do(task)

    def from_interrupted(self) -> Iterator[Task]:
        """The interrupted task and those after it."""
        tasks = self.steps_of(KILLED)
        for task in tasks:
            if task == self.interrupted:
                yield task
                yield from tasks

    @contextmanager
    def stopped_at(self, boundary: Boundary) -> Iterator[BaseProcess]:
        """The process that stands still at a boundary of the run to be killed; what came before it ended well.

        Raises:
            AssertionError: the boundary was not reached.
        """
        self.tap.order(boundary)
        for task in self.steps_of(KILLED):
            process = self.start(task, told=True)
            wait_until(lambda process=process: process.exitcode is not None or self.tap.stopped(), _WITHIN_S, str(task))
            if pid := self.tap.stopped():
                assert pid == process.pid
                self.interrupted = task
                self.site.kinesis.control({"page_limit": None})
                try:
                    yield process
                finally:
                    process.kill()
                    process.join()
                return
            assert process.exitcode == 0, f"{task} ended with {process.exitcode}"
        raise AssertionError(f"{boundary} was not reached")

    def kill_at(self, boundary: Boundary) -> None:
        """Kill the process at a boundary, from outside."""
        with self.stopped_at(boundary) as process:
            process.kill()
            process.join()
            assert process.exitcode == -SIGKILL
        self.settled = self.site.settled()


Way = Callable[[Tasks, Boundary], None]


def retry(tasks: Tasks, boundary: Boundary) -> None:
    """The interrupted task again, and those after it; as Clear of it with what is downstream.

    They are told of too: what they count on has to be on disk, though another process wrote it and died.
    """
    tasks.kill_at(boundary)
    for task in tasks.from_interrupted():
        tasks.do(task, told=True)
    tasks.site.kinesis.control({"page_limit": None})


def killed_twice(tasks: Tasks, boundary: Boundary) -> None:
    """The retry is killed at the same boundary, where it comes there; then the whole run."""
    tasks.kill_at(boundary)
    tasks.tap.order(boundary)
    process = tasks.start(tasks.interrupted or Task("plan", KILLED), told=True)
    wait_until(lambda: process.exitcode is not None or tasks.tap.stopped(), _WITHIN_S, "the retry")
    if tasks.tap.stopped():
        process.kill()
        process.join()
        assert process.exitcode == -SIGKILL
    else:
        assert process.exitcode == 0
    tasks.site.kinesis.control({"page_limit": None})
    tasks.run(KILLED)


def one_task(tasks: Tasks, boundary: Boundary) -> None:
    """The interrupted task alone; the rest is left to the next run."""
    tasks.kill_at(boundary)
    tasks.do(tasks.interrupted or Task("plan", KILLED))
    tasks.run(NEXT)


def one_index(tasks: Tasks, boundary: Boundary) -> None:
    """The second mapped index, verify and commit, which fails where the first one is missing; then the whole run."""
    tasks.kill_at(boundary)
    if tasks.interrupted == Task("plan", KILLED):
        tasks.do(Task("plan", KILLED))
    tasks.do(Task("ingest", KILLED, 1))
    tasks.do(Task("verify", KILLED))
    tasks.try_to(Task("commit", KILLED))
    tasks.run(KILLED)


def whole_run(tasks: Tasks, boundary: Boundary) -> None:
    """All tasks of the run again."""
    tasks.kill_at(boundary)
    tasks.run(KILLED)


def next_run(tasks: Tasks, boundary: Boundary) -> None:
    """The next scheduled run; nobody clears the killed one."""
    tasks.kill_at(boundary)
    tasks.site.put(10)
    tasks.run(NEXT)
    tasks.run(LATER)


def old_run(tasks: Tasks, boundary: Boundary) -> None:
    """The next run first; then the killed one, which is an old one by now, and the next one once more."""
    tasks.kill_at(boundary)
    tasks.run(NEXT)
    tasks.run(KILLED)
    tasks.run(NEXT)


def command(tasks: Tasks, boundary: Boundary) -> None:
    """`shardlake run`."""
    tasks.kill_at(boundary)
    tasks.do(Task("command"))


def resharded(tasks: Tasks, boundary: Boundary) -> None:
    """While it stands at the boundary the first shard is split, and more comes in; then the whole run, and the next."""
    with tasks.stopped_at(boundary) as process:
        tasks.site.split()
        tasks.site.put(20)
        process.kill()
        process.join()
        assert process.exitcode == -SIGKILL
    tasks.settled = tasks.site.settled()
    tasks.run(KILLED)
    tasks.run(NEXT)
    tasks.run(LATER)


def at_once(tasks: Tasks, boundary: Boundary) -> None:
    """The whole run and the next one, step beside step."""
    tasks.kill_at(boundary)
    for at_once in zip_longest(tasks.steps_of(KILLED), tasks.steps_of(NEXT)):
        started = [(task, tasks.start(task)) for task in at_once if task]
        for task, process in started:
            process.join(_WITHIN_S)
            assert process.exitcode == 0, f"{task} ended with {process.exitcode}"


def zombie(tasks: Tasks, boundary: Boundary) -> None:
    """It is not killed but stands still, until the next run has finished; then it goes on. The whole run in the end.

    Where it stands within a transaction, the next run is told so, and has its turn when the zombie has gone on.
    """
    with tasks.stopped_at(boundary) as process:
        finished = all(tasks.try_to(task, lock_timeout_s=1) for task in tasks.steps_of(NEXT))
        assert finished or "COMMIT" in boundary.name
        _go_on(tasks, process)
    tasks.run(NEXT)
    tasks.run(KILLED)


def zombie_between(tasks: Tasks, boundary: Boundary) -> None:
    """As a zombie, but it goes on when the next run has published and not verified yet."""
    with tasks.stopped_at(boundary) as process:
        steps = tasks.steps_of(NEXT)
        for task in steps:
            if task.step == "verify" or not tasks.try_to(task, lock_timeout_s=1):
                break
        assert task.step == "verify" or "COMMIT" in boundary.name or boundary.role == "commit"
        _go_on(tasks, process)
    tasks.run(NEXT)
    tasks.run(KILLED)


def zombie_of_other_code(tasks: Tasks, boundary: Boundary) -> None:
    """As a zombie, which is of another code version than the runs after it."""
    tasks.other_code = True
    zombie(tasks, boundary)


def zombie_between_of_other_code(tasks: Tasks, boundary: Boundary) -> None:
    """As a zombie between, which is of another code version: only now is what it wrote still there, to be published."""
    tasks.other_code = True
    zombie_between(tasks, boundary)


def _go_on(tasks: Tasks, process: BaseProcess) -> None:
    """Let a zombie go on to its end, which may be one of the product's errors; what is published by now stays."""
    tasks.settled = tasks.site.settled()
    let_go_on(process.pid or 0)
    process.join(_WITHIN_S)
    assert process.exitcode is not None
    assert process.exitcode == 0 or process.exitcode > REFUSED, f"the zombie ended with {process.exitcode}"


WAYS: dict[str, Way] = {
    "retry": retry,
    "killed twice": killed_twice,
    "one task": one_task,
    "one mapped index": one_index,
    "the whole run": whole_run,
    "an old run": old_run,
    "next run": next_run,
    "shardlake run": command,
    "resharded": resharded,
    "two runs at once": at_once,
    "zombie": zombie,
    "zombie between": zombie_between,
    "zombie of other code": zombie_of_other_code,
    "zombie of other code between": zombie_between_of_other_code,
}


def record(tasks: Tasks) -> list[Boundary]:
    """Every boundary of a run that nobody interrupts, in order."""
    tasks.site.put(40)
    for task in tasks.steps_of(KILLED):
        tasks.do(task, told=True)
    tasks.site.check()
    return list(tasks.tap.told())


def cell(tasks: Tasks, boundary: Boundary, way: Way) -> None:
    """One cell: what came of it is checked, and once more after the next records.

    Raises:
        AssertionError: something does not hold.
    """
    tasks.site.put(40)
    way(tasks, boundary)
    tasks.site.check()
    tasks.site.put(20)
    tasks.site.run_later()
    tasks.site.check()
    tasks.site.check_nothing_is_half_written()
    tasks.site.check_unchanged(tasks.settled)
    missing = tasks.tap.not_on_disk()
    assert missing == [], f"not on disk: {missing}"


class Database:
    """A database of a PostgreSQL server, which is emptied for each cell: a new one would take longer, and stay."""

    def __init__(self, server: Postgres) -> None:
        self._server, self._name = server, server.new_database()

    def emptied(self) -> str:
        """The URL of the database, with nothing in it."""
        with closing(self._server.connect(self._name)) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return self._server.url(self._name)


@dataclass(frozen=True)
class StepsTier:
    """The cells of this matrix on one local Kinesis.

    Attributes:
        root: where each cell has a folder, which stays where it fails.
        database: where ledgers are, one after the other; None: each is a SQLite file of its own.
        bucket: where datasets are; None: each is in its cell's folder.
    """

    root: Path
    kinesis: LocalKinesis
    database: Database | None = None
    bucket: Bucket | None = None

    def boundaries(self) -> list[Boundary]:
        """Every boundary of a clean run.

        Raises:
            AssertionError: the clean run is not right, or counts on what may not be on disk.
        """
        tasks = self._tasks()
        found = record(tasks)
        missing = tasks.tap.not_on_disk()
        assert missing == [], f"not on disk: {missing}"
        return found

    def run(self, boundary: Boundary, way: str) -> None:
        """Run a cell."""
        tasks = self._tasks()
        cell(tasks, boundary, WAYS[way])
        shutil.rmtree(tasks.site.root)

    def _tasks(self) -> Tasks:
        name = f"steps-{uuid.uuid4().hex[:12]}"
        root = self.root / name
        (root / "tap").mkdir(parents=True)
        url = self.database.emptied() if self.database else f"sqlite:///{root}/ledger.db"
        site = Site(self.kinesis, self.kinesis.client(), name, root, url, bucket=self.bucket)
        return Tasks(site, Tap(root / "tap"))
