"""The DAG runs that committed a batch, as Airflow's own database has them.

A commit that puts something in the ledger ends with an Asset event, an empty batch has none: so a run with an event of
its task `commit` is a run that committed a batch.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_COMMITTED = """
SELECT r.run_id, r.run_type, r.state, r.start_date, r.end_date, e.extra
FROM dag_run r JOIN asset_event e ON e.source_dag_id = r.dag_id AND e.source_run_id = r.run_id
WHERE r.dag_id = ? AND e.source_task_id = 'commit'
ORDER BY e.timestamp
"""
_FAILED = "SELECT run_id FROM dag_run WHERE dag_id = ? AND state = 'failed' ORDER BY run_after"


@dataclass(frozen=True, slots=True)
class CommittedRun:
    """A DAG run that committed a batch.

    Attributes:
        run_id: its id.
        run_type: `scheduled`, `manual` …
        state: its state, `success` once all its tasks are done.
        started: when it started.
        ended: when it ended; None while it runs.
        rows: how many rows it committed.
    """

    run_id: str
    run_type: str
    state: str
    started: datetime
    ended: datetime | None
    rows: int


def committed_runs(database: Path, dag_id: str) -> list[CommittedRun]:
    """The runs of a DAG that committed a batch, the oldest first. An event that came twice counts once."""
    runs = [
        CommittedRun(run_id, run_type, state, _time(start), _time(end) if end else None, json.loads(extra)["rows"])
        for run_id, run_type, state, start, end, extra in _select(database, _COMMITTED, dag_id)
    ]
    return list({run.run_id: run for run in runs}.values())


def failed_runs(database: Path, dag_id: str) -> list[str]:
    """The ids of a DAG's failed runs, the oldest first."""
    return [run_id for (run_id,) in _select(database, _FAILED, dag_id)]


def scheduled_between(runs: list[CommittedRun], after: datetime | None, before: datetime | None) -> list[CommittedRun]:
    """The successful runs of type scheduled that started after one time and ended before another."""
    return [
        run
        for run in runs
        if (run.run_type, run.state) == ("scheduled", "success")
        and run.ended
        and (after is None or run.started > after)
        and (before is None or run.ended < before)
    ]


def _select(database: Path, query: str, dag_id: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
        return connection.execute(query, [dag_id]).fetchall()


def _time(text: str) -> datetime:
    # Airflow's SQLite has times without an offset, in UTC.
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
