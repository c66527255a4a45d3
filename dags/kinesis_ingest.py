"""One DAG a pipeline of `pipelines.yaml`: plan → ingest (one mapped task a group) → verify → commit.

At parse time nothing but that file is read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Asset, get_current_context, task

from shardlake.airflow import tasks
from shardlake.airflow.operators import FollowUpOperator, IngestOperator
from shardlake.config import Pipeline, config_file, load_pipelines


def ingest_dag(pipeline: Pipeline) -> DAG:
    """The DAG of one pipeline."""
    target = tasks.Target(pipeline.name)
    committed = Asset(name=pipeline.dag_id, uri=pipeline.data_uri)
    with DAG(
        dag_id=pipeline.dag_id,
        description=f"{pipeline.stream} to {pipeline.dataset}, each record once",
        schedule=pipeline.schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 2, "retry_delay": timedelta(seconds=30), "retry_exponential_backoff": True},
        tags=["shardlake", "kinesis"],
        doc_md=__doc__,
    ) as dag:

        @task.short_circuit(task_id="plan")
        def plan() -> list[int]:
            return tasks.plan(target)

        # What could be published is committed also when a group failed, so that one bad shard does not age out others.
        @task(task_id="verify", trigger_rule="all_done")
        def verify() -> dict[str, int]:
            return tasks.verify(target)

        @task(task_id="commit", outlets=[committed])
        def commit() -> None:
            get_current_context()["outlet_events"][committed].extra = tasks.commit(target)

        ingest = IngestOperator.partial(task_id="ingest", pipeline=pipeline.name).expand(group=plan())
        follow_up = FollowUpOperator(task_id="follow_up", pipeline=pipeline.name, trigger_dag_id=pipeline.dag_id)
        ingest >> verify() >> commit() >> follow_up
    return dag


for _pipeline in load_pipelines(config_file()).values():
    globals()[_pipeline.dag_id] = ingest_dag(_pipeline)
