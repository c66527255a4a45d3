"""The matrix on `shardlake run` with a real Spark: each of its processes killed from outside, at each boundary."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from subprocess import STDOUT, Popen

import psutil
import yaml

from demo.folder import REPOSITORY
from demo.java import java_home
from local_kinesis.process import LocalKinesis
from support.faults.boundaries import TAP, Boundary, Tap, kill, let_go_on, wait_until
from support.faults.site import Site
from support.faults.steps import Tasks
from support.faults.task import Task

ITSELF, JVM, COMMAND = VICTIMS = ("itself", "the JVM", "the command")
"""Who is killed while a process stands at a boundary: that process; Spark's JVM, and the process goes on; or the
command that started Spark, and Spark goes on when what came after has finished."""

_WITHIN_S = 600.0


def engine(root: Path) -> dict[str, str]:
    """Spark on one core. The first of all jobs below a folder, a clean run, leaves the others an archive of classes."""
    return {"master": "local[1]", "class_archive": str(root / "spark.jsa")}


@dataclass
class Command:
    """`shardlake run` of one pipeline, as a process that tells its effects; and so do all that it starts."""

    site: Site
    tap: Tap

    @contextmanager
    def running(self) -> Iterator[Popen[bytes]]:
        """The process; when the block is left, it and all that it started are gone."""
        config = self.site.root / "pipelines.yaml"
        config.write_text(yaml.safe_dump({"pipelines": {self.site.name: self.site.entry}}), encoding="utf-8")
        mark = uuid.uuid4().hex
        environment = {
            **os.environ,
            **self.tap.environment(self.site.dataset.parent),
            "PYTHONPATH": os.pathsep.join(map(str, (TAP, REPOSITORY / "include"))),
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "SHARDLAKE_FAULTS_MARK": mark,
        }
        arguments = [sys.executable, "-m", "shardlake", "--config", str(config), "run", "--verbose", self.site.name]
        with (self.site.root / "command.log").open("ab") as log:
            process = Popen(arguments, env=environment, stdout=log, stderr=STDOUT)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for member in _family(mark):
                member.kill()

    def stop_at(self, boundary: Boundary, process: Popen[bytes]) -> psutil.Process:
        """Wait for a process to stand still at the boundary."""
        wait_until(lambda: self.tap.stopped() or process.poll() is not None, _WITHIN_S, f"{boundary} was not reached")
        pid = self.tap.stopped()
        assert pid is not None, f"{boundary} was not reached"
        return psutil.Process(pid)


def record(command: Command) -> list[Boundary]:
    """Every boundary of a run that nobody interrupts, in order, over all its processes."""
    command.site.put(40)
    with command.running() as process:
        assert process.wait(_WITHIN_S) == 0
    command.site.check()
    return list(command.tap.told())


def without_spark(command: Command) -> None:
    """`shardlake run`, with an engine in its own process."""
    Tasks(command.site, command.tap).do(Task("command"))


def with_spark(command: Command) -> None:
    """`shardlake run`."""
    with command.running() as process:
        assert process.wait(_WITHIN_S) == 0


def two_at_once(command: Command) -> None:
    """`shardlake run`, twice, side by side."""
    with command.running() as one, command.running() as other:
        assert [one.wait(_WITHIN_S), other.wait(_WITHIN_S)] == [0, 0]


GOING_ON: dict[str, Callable[[Command], None]] = {
    "a run without Spark": without_spark,
    "shardlake run": with_spark,
    "two runs at once": two_at_once,
}


def cell(command: Command, boundary: Boundary, victim: str, go_on: Callable[[Command], None]) -> None:
    """One cell: what came of both runs is checked, and once more after another one.

    Raises:
        AssertionError: something does not hold.
    """
    site = command.site
    site.put(40)
    command.tap.order(boundary)
    with command.running() as process:
        stopped = command.stop_at(boundary, process)
        if victim == ITSELF:
            kill(stopped.pid)
        elif victim == JVM:
            (java,) = (
                child for child in psutil.Process(process.pid).children(recursive=True) if child.name() == "java"
            )
            kill(java.pid)
            let_go_on(stopped.pid)
        else:
            process.kill()
        code = process.wait(_WITHIN_S)
        assert (code == -SIGKILL) == (stopped.pid == process.pid or victim == COMMAND), f"the command ended with {code}"
        settled = site.settled()
        go_on(command)
        if victim == COMMAND:
            let_go_on(stopped.pid)
            wait_until(lambda: not stopped.is_running(), _WITHIN_S, "what the command started does not end")
    site.check()
    site.put(20)
    site.run_later()
    site.check()
    site.check_nothing_is_half_written()
    site.check_unchanged(settled)


def cells(boundaries: Sequence[Boundary]) -> Iterator[tuple[str, str]]:
    """Each boundary with everybody who can be killed there, the ways to go on by turns."""
    for row, boundary in enumerate(boundaries):
        for turn, victim in enumerate(VICTIMS if boundary.role in ("driver", "worker") else [ITSELF]):
            yield str(boundary), f"{victim}; {list(GOING_ON)[(row + turn) % len(GOING_ON)]}"


@dataclass(frozen=True)
class SparkTier:
    """The cells of this matrix on one local Kinesis.

    Attributes:
        root: where each cell has a folder, which stays where it fails.
    """

    root: Path
    kinesis: LocalKinesis

    def boundaries(self) -> list[Boundary]:
        """Every boundary of a clean run.

        Raises:
            AssertionError: the clean run is not right, or counts on what may not be on disk.
        """
        command = self._command()
        found = record(command)
        missing = command.tap.not_on_disk()
        assert missing == [], f"not on disk: {missing}"
        return found

    def run(self, boundary: Boundary, way: str) -> None:
        """Run a cell."""
        command = self._command()
        victim, going_on = way.split("; ")
        cell(command, boundary, victim, GOING_ON[going_on])
        shutil.rmtree(command.site.root)

    def _command(self) -> Command:
        name = f"spark-{uuid.uuid4().hex[:12]}"
        root = self.root / name
        (root / "tap").mkdir(parents=True)
        settings = {"engine": engine(self.root), "max_group_ranges": 2}
        site = Site(self.kinesis, self.kinesis.client(), name, root, f"sqlite:///{root}/ledger.db", settings)
        return Command(site, Tap(root / "tap"))


def _family(mark: str) -> Iterator[psutil.Process]:
    """The processes that have a mark in their environment."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("SHARDLAKE_FAULTS_MARK") == mark:
                yield process
        except psutil.Error:
            continue
