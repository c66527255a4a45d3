"""Which runs count: of type scheduled, successful, with a committed batch, wholly on one side of a time."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demo.runs import committed_runs, failed_runs, scheduled_between

DAG = "kinesis_ingest__flights"
RESHARD = datetime(2026, 1, 1, 10, 5, tzinfo=UTC)


def _run(run_id: str, run_type: str, state: str, start: str, end: str | None) -> tuple[str | None, ...]:
    return DAG, run_id, run_type, state, f"2026-01-01 10:{start}:00.000000", end and f"2026-01-01 10:{end}:00.000000"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "airflow.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE dag_run (dag_id, run_id, run_type, state, start_date, end_date, run_after)")
        connection.execute("CREATE TABLE asset_event (source_dag_id, source_run_id, source_task_id, extra, timestamp)")
        connection.executemany(
            "INSERT INTO dag_run VALUES (?, ?, ?, ?, ?, ?, '')",
            [
                _run("before", "scheduled", "success", "01", "02"),
                _run("by hand", "manual", "success", "02", "03"),
                _run("empty", "scheduled", "success", "03", "04"),
                _run("across", "scheduled", "success", "04", "06"),
                _run("after", "scheduled", "success", "07", "08"),
                _run("failed", "scheduled", "failed", "08", "09"),
                _run("at work", "scheduled", "running", "09", None),
            ],
        )
        events = [
            ("before", 1),
            ("by hand", 2),
            ("across", 3),
            ("after", 4),
            ("after", 4),
            ("failed", 5),
            ("at work", 6),
        ]
        connection.executemany(
            "INSERT INTO asset_event VALUES (?, ?, 'commit', ?, ?)",
            [(DAG, run_id, f'{{"rows": {rows}}}', time) for time, (run_id, rows) in enumerate(events)],
        )
        connection.commit()
    return file


def test_runs_with_an_event_of_their_commit_are_found_once_each(database: Path) -> None:
    assert [(run.run_id, run.rows) for run in committed_runs(database, DAG)] == [
        ("before", 1),
        ("by hand", 2),
        ("across", 3),
        ("after", 4),
        ("failed", 5),
        ("at work", 6),
    ]


def test_only_scheduled_successes_wholly_on_one_side_count(database: Path) -> None:
    runs = committed_runs(database, DAG)

    assert [run.run_id for run in scheduled_between(runs, None, RESHARD)] == ["before"]
    assert [run.run_id for run in scheduled_between(runs, RESHARD, None)] == ["after"]


def test_failed_runs_are_found(database: Path) -> None:
    assert failed_runs(database, DAG) == ["failed"]
    assert failed_runs(database, "another_dag") == []
