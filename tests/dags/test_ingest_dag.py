"""The DAG of a pipeline, run in this process: what runs, what is skipped, what is emitted, what is retried."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from shardlake.errors import UnavailableError
from support.dag_parse import parse

ROOT = Path(__file__).parents[2]

Make = Callable[..., Any]
Rows = Callable[..., list[tuple[Any, ...]]]

EVENTS = "SELECT extra FROM asset_event WHERE source_dag_id = ?"
GREEN = {"plan": ["success"], "verify": ["success"], "commit": ["success"], "follow_up": ["skipped"]}


def test_a_batch_goes_through_every_task_and_emits_what_was_committed(
    pipeline: Make, engine: Any, airflow_rows: Rows
) -> None:
    made = pipeline(shards=2)
    made.put(500)
    assert made.run() == ("success", {**GREEN, "ingest": ["success"]})
    assert pq.read_table(made.dataset / "data").num_rows == 500
    ((extra,),) = airflow_rows(EVENTS, f"kinesis_ingest__{made.name}")
    event = json.loads(extra)
    assert (event["pipeline"], event["rows"], len(event["ranges"])) == (made.name, 500, 2)
    files = sorted((made.dataset / "data").rglob("*.parquet"))
    assert event["bytes"] == sum(file.stat().st_size for file in files)
    assert event["batch_id"] == json.loads(engine.jobs[0].plan_text)["batch_id"]


def test_an_empty_batch_skips_the_engine_emits_nothing_and_is_green(
    pipeline: Make, engine: Any, airflow_rows: Rows
) -> None:
    made = pipeline()
    skipped = {task: ["skipped"] for task in ("ingest", "verify", "commit", "follow_up")}
    assert made.run() == ("success", {"plan": ["success"], **skipped})
    assert engine.jobs == []
    assert airflow_rows(EVENTS, f"kinesis_ingest__{made.name}") == []


def test_a_large_batch_is_ingested_in_groups_one_mapped_task_each(pipeline: Make, engine: Any) -> None:
    made = pipeline(shards=3, max_group_ranges=2)
    made.put(300)
    assert made.run() == ("success", {**GREEN, "ingest": ["success", "success"]})
    assert sorted(len(job.ranges) for job in engine.jobs) == [1, 2]


def test_xcom_carries_group_numbers_and_counts_not_plans(pipeline: Make, engine: Any, airflow_rows: Rows) -> None:
    made = pipeline(shards=3, max_group_ranges=2)
    made.put(300)
    made.run()
    query = "SELECT task_id, value FROM xcom WHERE dag_id = ? AND key = 'return_value' ORDER BY task_id"
    found = {
        task: json.loads(json.loads(value) if isinstance(json.loads(value), str) else value)
        for task, value in airflow_rows(query, f"kinesis_ingest__{made.name}")
    }
    assert found == {"plan": [0, 1], "verify": {"verified": 3, "failed": 0}}


def test_a_passing_error_is_retried(pipeline: Make, engine: Any) -> None:
    made = pipeline()
    made.put(100)
    engine.failures = [UnavailableError("the endpoint does not answer")]
    state, tasks = made.run(retries=1)
    assert (state, tasks["ingest"]) == ("success", ["success"])
    assert len(engine.jobs) == 2


def test_a_terminal_error_is_not_retried(pipeline: Make, engine: Any, airflow_rows: Rows) -> None:
    made = pipeline(stream="not-there")
    state, tasks = made.run(retries=2)
    assert (state, tasks["plan"]) == ("failed", ["failed"])
    query = "SELECT try_number FROM task_instance WHERE dag_id = ? AND task_id = 'plan'"
    assert airflow_rows(query, f"kinesis_ingest__{made.name}") == [(1,)]
    assert not made.dataset.exists()


def test_one_bad_shard_fails_the_run_after_the_others_are_committed(
    pipeline: Make, engine: Any, airflow_rows: Rows
) -> None:
    made = pipeline(shards=2)
    made.put(200)
    lose = {"trim": {"stream": made.name, "shard": "shardId-000000000000", "all": True}}
    run = engine.run

    def lose_then_run(job: Any, log: Any) -> None:
        made.kinesis.control(lose)
        run(job, log)

    engine.run = lose_then_run
    state, tasks = made.run()
    assert (state, tasks["ingest"], tasks["verify"], tasks["commit"]) == (
        "failed",
        ["failed"],
        ["success"],
        ["failed"],
    )
    shards = {path.parent.name for path in (made.dataset / "data").rglob("*.parquet")}
    assert shards == {"shard_id=shardId-000000000001"}
    assert airflow_rows(EVENTS, f"kinesis_ingest__{made.name}") == []
    from shardlake.ledger import open_ledger

    ledger = open_ledger(f"sqlite:///{made.config.parent / 'ledger.db'}")
    assert [row.range.shard_id for row in ledger.ranges(made.name, "live", state="committed")] == [
        "shardId-000000000001"
    ]


def test_a_run_that_leaves_records_behind_starts_the_next_one_and_only_one(
    pipeline: Make, engine: Any, airflow_rows: Rows
) -> None:
    made = pipeline(shards=1, max_range_bytes=100)
    made.put(50)
    _, tasks = made.run()
    assert tasks["follow_up"] == ["success"]
    query = "SELECT run_id, state FROM dag_run WHERE dag_id = ? AND run_id LIKE 'follow_up__%'"
    ((_, state),) = airflow_rows(query, f"kinesis_ingest__{made.name}")
    assert state == "queued"


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("15m", timedelta(minutes=15)), ("@hourly", "@hourly"), ("0 6 * * *", "0 6 * * *"), (None, None)],
)
def test_the_dag_has_the_pipelines_schedule_and_never_overlaps_itself(
    pipeline: Make, schedule: str | None, expected: object
) -> None:
    dag = pipeline(schedule=schedule).dag()
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (expected, False, 1)
    assert {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks} == {
        "plan": ["ingest"],
        "ingest": ["verify"],
        "verify": ["commit"],
        "commit": ["follow_up"],
        "follow_up": [],
    }


def test_the_dag_file_parses_within_a_second_and_loads_nothing_heavy(pipeline: Make) -> None:
    made = pipeline()
    parsed = parse(ROOT / "dags" / "kinesis_ingest.py")
    assert parsed.cpu_s < 1
    assert parsed.heavy == []
    assert [each for each in parsed.names if each.startswith("kinesis_ingest__")] == [f"kinesis_ingest__{made.name}"]
