"""A DAG as a person sees it through the API: its runs, what is cleared, marked and waited for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar, cast
from urllib.error import HTTPError

from demo.airflow_api import AirflowApi, JsonObject
from support.faults.boundaries import wait_until
from support.retries import insist

WITHIN_S = 600.0
POLL_S = 1.0
TASKS = ("plan", "ingest", "verify", "commit", "follow_up")
_OVER = ("success", "failed")

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
        wait_until(lambda: self.run_ids("scheduled") - earlier, WITHIN_S, "the schedule makes no run", every_s=POLL_S)
        return min(self.run_ids("scheduled") - earlier)

    def rest(self) -> None:
        """Wait until no run is under way, and, where there is a schedule, none begins."""
        while True:
            wait_until(self._is_idle, WITHIN_S, f"{self.dag_id} is at work", every_s=POLL_S)
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
            for task in TASKS if run["state"] not in _OVER else ():
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
        wait_until(lambda: self.is_over(run), WITHIN_S, f"{run} does not end", every_s=POLL_S)
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
