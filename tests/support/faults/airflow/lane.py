"""One pipeline of an Airflow, a run of which is stopped at boundaries; and killing what somebody else started."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from demo.airflow_home import Airflow
from demo.background import Background
from support.faults.airflow.dag import POLL_S, WITHIN_S, Dag
from support.faults.boundaries import Boundary, Tap, kill, let_go_on, wait_until
from support.faults.site import Site
from support.faults.steps import Tasks
from support.faults.task import Task

ONE_AT_ONCE = threading.Lock()
"""Held by whoever starts a process of a fork server: it asks how all others are."""


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
        Who is killed when the task's success was told already, or a worker at its end, is missed by nobody.
        """
        task, found = task_of(boundary), "queued" if is_untold(boundary) else "up_for_retry"

        def is_known() -> bool:
            states = self.dag.states(self.run, task)
            return found in states or states == {"success"}

        self._wait_for(is_known, f"{boundary}: neither {found} nor success")

    def _wait_for(self, condition: Callable[[], object], otherwise: str) -> None:
        wait_until(condition, WITHIN_S, otherwise, every_s=POLL_S)

    def command(self) -> None:
        """`shardlake run`, beside Airflow."""
        with ONE_AT_ONCE:
            Tasks(self.site, self.tap).do(Task("command"))

    @contextmanager
    def stopped_at(self, boundary: Boundary) -> Iterator[int]:
        """The process that stands still at a boundary of the run; the run is begun if it was not yet."""
        self.tap.order(boundary)
        self.run = self.run or self.dag.begin()
        self._wait_for(lambda: self.tap.stopped() or self.dag.is_over(self.run), f"{boundary} not reached")
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
        self._wait_for(self.airflow.api.healthy, "no API")

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
