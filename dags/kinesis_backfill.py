"""A stretch of a stream once more, by hand, beside the live pipeline: plan → ingest (mapped) → verify → commit.

Trigger it with the form. The records from `from` to `to` go to `<dataset>/backfill/<run id>/`; the live pipeline's
position does not move. A long stretch takes several runs, each of which starts the next. What went wrong can be
cleared, task by task or whole; a backfill that was given up is gone on with by its name.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Asset, Param, get_current_context, task

from shardlake.airflow import tasks
from shardlake.airflow.operators import FollowUpOperator, IngestOperator
from shardlake.backfill import BOUND, DAG_ID, READ_FRACTION, SHARD_LINE
from shardlake.config import config_file, load_pipelines


def params(pipelines: list[str]) -> dict[str, Param]:
    """The form."""
    bound: dict[str, Any] = {"type": ["null", "string"], "pattern": BOUND}
    return {
        "pipeline": Param(pipelines[0], type="string", enum=pipelines, title="Pipeline"),
        "shards": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "pattern": SHARD_LINE},
            title="Shards",
            description="One shard id a line. Empty: all shards.",
        ),
        "from": Param(
            None,
            **bound,
            title="From",
            description="A time with an offset, like 2026-01-31T00:00:00Z; or a sequence number of the one shard named."
            " Empty: the oldest that is retained.",
        ),
        "to": Param(
            None,
            **bound,
            title="To",
            description="A time, whose records are left out; or a sequence number, whose record is read."
            " Empty: the newest that is there now.",
        ),
        "read_fraction": Param(
            READ_FRACTION,
            type="number",
            exclusiveMinimum=0,
            maximum=1,
            title="Share of the read limits",
            description="Of each shard's 2 MiB/s and 5 calls/s; the rest is left to the live pipeline and others.",
        ),
        "retained_only": Param(
            False,
            type="boolean",
            title="Retained only",
            description="Where the beginning is no longer retained: begin with what is left, instead of failing.",
        ),
        "backfill": Param(
            None,
            type=["null", "string"],
            maxLength=250,
            title="Go on with",
            description="The id of a backfill that was opened before, or of the run that opened it. Leave all else, but"
            " for the pipeline, as it is then.",
        ),
    }


def backfill_dag(pipelines: list[str]) -> DAG:
    """The one DAG for all pipelines."""
    committed = Asset(name=DAG_ID)
    with DAG(
        dag_id=DAG_ID,
        description="A stretch of a stream once more, into a folder of its own",
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        default_args={"retries": 2, "retry_delay": timedelta(seconds=30), "retry_exponential_backoff": True},
        params=params(pipelines),
        tags=["shardlake", "kinesis"],
        doc_md=__doc__,
    ) as dag:

        @task.short_circuit(task_id="plan")
        def plan() -> list[int]:
            return tasks.plan_backfill()

        @task(task_id="verify", trigger_rule="all_done")
        def verify() -> dict[str, int]:
            return tasks.verify(tasks.current_backfill())

        @task(task_id="commit", outlets=[committed])
        def commit() -> None:
            target = tasks.current_backfill()
            extra = {**tasks.commit(target), "backfill": target.namespace}
            get_current_context()["outlet_events"][committed].extra = extra

        ingest = IngestOperator.partial(task_id="ingest").expand(group=plan())
        follow_up = FollowUpOperator(task_id="follow_up", trigger_dag_id=DAG_ID)
        ingest >> verify() >> commit() >> follow_up
    return dag


if _pipelines := list(load_pipelines(config_file())):
    kinesis_backfill = backfill_dag(_pipelines)
