"""The ways of going on: what is killed, and what Airflow or a person does then."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from support.faults.airflow.dag import POLL_S, WITHIN_S
from support.faults.airflow.lane import Lane, kill_traced, task_of
from support.faults.boundaries import Boundary, wait_until

Way = Callable[[Lane, Boundary], None]


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
    wait_until(lambda: lane.dag.is_over(lane.run), WITHIN_S, f"{lane.run} does not end", every_s=POLL_S)
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

LAST: dict[str, Way] = {"an old run": old_run, NEXT_RUN: next_run, "shardlake run": command}

ALONE: dict[str, Way] = {"the scheduler": scheduler, "the API server": api_server, "the DAG processor": dag_processor}
"""Who is killed while a process stands at the boundary: all lanes of the Airflow have to do with them."""

WAYS = {**GOING_ON, **LAST, **ALONE}
