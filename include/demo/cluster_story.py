"""What happens in the cluster demo: the demo in a data centre, and what goes wrong there or is done by hand.

the demo's story                 on SeaweedFS, PostgreSQL and a Spark cluster of two workers
kill a worker                    after the reshard, while both of them are at work
read the whole stream once more  a backfill through its DAG, beside the live pipeline
clear the first committed run    as in the UI: no file is touched, the ledger stays as it is
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import psutil
from rich.console import Console

from demo.airflow_home import DATABASE, Airflow
from demo.background import Background
from demo.data_centre import AWS, in_a_data_centre
from demo.folder import DemoFolder
from demo.object_store import start_object_store
from demo.postgres import postgres
from demo.processes import Process
from demo.runs import committed_runs
from demo.services import DAG_ID, PIPELINE
from demo.spark_cluster import SparkCluster, start_cluster
from demo.story import Story
from demo.watch import DemoError
from shardlake.backfill import DAG_ID as BACKFILL_DAG_ID

_RUNS_ON_EACH_SIDE = 2
"""Of the reshard: a run takes longer here than on one machine's own disk."""

_PATIENCE_S = 180
_POLL_S = 0.2
_PYTHON = "pyspark.daemon"
"""What an executor runs once it has a task for Python."""
_LOST = "Lost executor"
"""What Spark's driver logs when a worker goes, with its executors (TaskSchedulerImpl)."""


def tell_on_cluster(folder: DemoFolder, background: Background, console: Console) -> None:
    """Runs the cluster demo.

    Raises:
        DemoError: something is not as it must be; the message says what.
    """
    begun = time.monotonic()
    with postgres(background) as server:
        store = start_object_store(folder.root / "object-store", background)
        cluster = start_cluster(folder.root / "spark", background, environment=AWS)
        setting = in_a_data_centre(server, store, cluster, folder.root / "copy")
        story = Story(folder, background, console, setting, begun)
        story.say(f"S3 is SeaweedFS on {store.endpoint_url}, the ledger PostgreSQL on port {server.port}")
        story.say(f"Spark is {cluster.master_url} with {len(cluster.workers)} workers")

        airflow = story.ingest(_RUNS_ON_EACH_SIDE, lambda: _kill_a_worker(story, cluster))
        _find_the_loss_in_the_logs(story, airflow)
        story.check()

        namespace = _backfill(story, airflow)
        story.check(f"backfill/{namespace}", "--backfill", namespace)

        before = setting.objects(), story.shardlake("ranges", PIPELINE)
        _clear(story, airflow)
        if (setting.objects(), story.shardlake("ranges", PIPELINE)) != before:
            raise DemoError("the cleared run changed files or ledger")
        story.say(f"no file of {len(before[0])} was touched, and the ledger is as it was")


def _kill_a_worker(story: Story, cluster: SparkCluster) -> None:
    _wait("both workers to be at work", lambda: all(map(_at_work, cluster.workers)))
    worker = next(iter(cluster.workers))
    cluster.kill(worker)
    story.say(f"{worker.name} was at work and is killed with all that it ran; another one starts")
    cluster.start_worker()
    cluster.wait_until_ready()


def _at_work(worker: Process) -> bool:
    for member in worker.members():
        with suppress(psutil.Error):
            if any(_PYTHON in word for word in member.cmdline()):
                return True
    return False


def _find_the_loss_in_the_logs(story: Story, airflow: Airflow) -> None:
    logs = (airflow.home.home / "logs").rglob("*.log")
    lines = [line for log in logs for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    lost = [line for line in lines if _LOST in line]
    if not lost:
        raise DemoError("no ingest task's log tells of the killed worker: it was not in the middle of a job")
    story.say(f"{len(lost)} line(s) of the ingest tasks' logs tell of it: {_LOST} …")


def _backfill(story: Story, airflow: Airflow) -> str:
    """Read the whole stream once more; the backfill's namespace."""
    asked = {"pipeline": PIPELINE, "read_fraction": 1}
    run_id = airflow.api.trigger(BACKFILL_DAG_ID, asked)["dag_run_id"]
    story.say(f"backfill of all shards: {BACKFILL_DAG_ID}, run {run_id}")
    _wait("the backfill", lambda: _all_succeeded(airflow, BACKFILL_DAG_ID))
    ((namespace,),) = [[each["backfill"] for each in story.shardlake("backfills", PIPELINE)]]
    return str(namespace)


def _clear(story: Story, airflow: Airflow) -> None:
    first = committed_runs(airflow.home.home / DATABASE, DAG_ID)[0].run_id
    cleared = airflow.api.clear(DAG_ID, first, ["plan"])
    story.say(f"run {first} is cleared: {len(cleared)} tasks run again")
    _wait("the cleared run", lambda: _state(airflow, DAG_ID, first) in ("success", "failed"))
    if _state(airflow, DAG_ID, first) != "success":
        raise DemoError(f"the cleared run {first} failed")
    tries = {each["try_number"] for each in airflow.api.task_instances(DAG_ID, first)}
    if tries != {2}:
        raise DemoError(f"the tasks of the cleared run are at their tries {tries}, not at their second ones")


def _all_succeeded(airflow: Airflow, dag_id: str) -> bool:
    """Whether every run has, and none has to follow: the last one's next run is started by its last task."""
    states = [run["state"] for run in airflow.api.dag_runs(dag_id)]
    if "failed" in states:
        raise DemoError(f"a run of {dag_id} failed; its tasks' logs are below {airflow.home.home / 'logs'}")
    return bool(states) and set(states) == {"success"}


def _state(airflow: Airflow, dag_id: str, run_id: str) -> str:
    return next(str(run["state"]) for run in airflow.api.dag_runs(dag_id) if run["dag_run_id"] == run_id)


def _wait(what: str, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not reached():
        if time.monotonic() > deadline:
            raise DemoError(f"after {_PATIENCE_S} s still waiting for {what}")
        time.sleep(_POLL_S)
