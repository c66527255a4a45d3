"""Goal 10: one micro-batch inside Airflow, from its run's being due to its commit, step by step."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

from bench.figures import Figure, Goal
from bench.pipeline import NAME, configure, spark_environment
from bench.pour import payloads, pour
from bench.runs import REPOSITORY, BenchError
from bench.setting import Bench
from bench.source import ENVIRONMENT, Source, kinesis
from demo.airflow_home import Airflow, AirflowHome, start_airflow
from demo.background import Background
from demo.processes import ProcessError

DAG_ID = f"kinesis_ingest__{NAME}"
MIB = 2**20
SHARDS = 2
LAST = "commit"
RUN_WITHIN_S = 180
POLL_S = 0.2


def measure(bench: Bench) -> Iterator[Figure]:
    """Runs with 1 MiB each, then runs with nothing to read. The first of all is not counted: Airflow warms up."""
    sizes = bench.sizes
    data = payloads(sizes.record_bytes, MIB // sizes.record_bytes)
    place = bench.place("airflow")
    with kinesis("--stream", f"micro:{SHARDS}") as server, Background(bench.place("airflow.json")) as background:
        config = configure(Source(server, "micro", SHARDS, 0, sizes.record_bytes), place)
        environment = {**ENVIRONMENT, **spark_environment(), "SHARDLAKE_CONFIG": str(config)}
        home = AirflowHome(place / "airflow", REPOSITORY / "dags", REPOSITORY / "plugins", environment)
        try:
            airflow = start_airflow(home, background)
        except ProcessError as exc:
            raise BenchError(str(exc)) from exc
        full: list[dict[str, float]] = []
        for _ in range(sizes.airflow_runs + 1):
            pour(server, "micro", SHARDS, len(data) // SHARDS, data)
            full.append(_run(airflow))
        empty = [_run(airflow) for _ in range(sizes.airflow_runs + 1)]
    how = "manual runs of the DAG, LocalExecutor, spark-submit local[2]; from queued to the end of commit"
    totals = (tuple(sum(steps.values()) for steps in runs[1:]) for runs in (full, empty))
    yield Figure(10, "micro-batch of 1 MiB", "s", next(totals), how, Goal("at most", 15))
    for step in full[-1]:
        taken = tuple(steps.get(step, 0.0) for steps in full[1:])
        yield Figure(10, f"  of it: {step}", "s", taken, "by Airflow's own times of its tasks")
    yield Figure(10, "empty batch", "s", next(totals), how, Goal("at most", 3))


def _run(airflow: Airflow) -> dict[str, float]:
    """One run: the seconds of each step, in order; together they are the whole of it.

    Raises:
        BenchError: it failed, or did not end.
    """
    run_id = _triggered(airflow)
    until_s = time.monotonic() + RUN_WITHIN_S
    while (run := airflow.api.dag_run(DAG_ID, run_id))["state"] not in ("success", "failed"):
        if time.monotonic() > until_s:
            raise BenchError(f"the run of {DAG_ID} has not ended in {RUN_WITHIN_S} s")
        time.sleep(POLL_S)
    if run["state"] == "failed":
        raise BenchError(f"a run of {DAG_ID} has failed")
    tasks = [task for task in airflow.api.task_instances(DAG_ID, run_id) if task["start_date"] and task["end_date"]]
    return steps_of(_time(run["queued_at"]), tasks)


def _triggered(airflow: Airflow) -> str:
    """A new run, once Airflow has parsed the DAG.

    Raises:
        BenchError: it has not.
    """
    until_s = time.monotonic() + RUN_WITHIN_S
    while DAG_ID not in [dag["dag_id"] for dag in airflow.api.dags()]:
        if time.monotonic() > until_s:
            raise BenchError(f"Airflow has not found {DAG_ID}: {airflow.api.import_errors()}")
        time.sleep(POLL_S)
    return str(airflow.api.trigger(DAG_ID)["dag_run_id"])


def steps_of(queued_s: float, tasks: list[dict[str, Any]]) -> dict[str, float]:
    """What each task took up to the commit and, together, what was waited for tasks to start; seconds.

    What is behind the commit does not count. Without one, there was nothing to read, and all tasks count.
    """
    tasks = sorted(tasks, key=lambda task: _time(task["end_date"]))
    names = [task["task_id"] for task in tasks]
    if LAST in names:
        tasks = tasks[: names.index(LAST) + 1]
    steps: dict[str, float] = defaultdict(float)
    ends = [queued_s, *(_time(task["end_date"]) for task in tasks)]
    for task, (before_s, end_s) in zip(tasks, pairwise(ends), strict=True):
        start_s = max(before_s, _time(task["start_date"]))
        steps["waiting for Airflow to start tasks"] += start_s - before_s
        steps[f"task {task['task_id']}"] += end_s - start_s
    return dict(steps)


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
