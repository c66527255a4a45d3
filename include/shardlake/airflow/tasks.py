"""The steps of a batch as the DAG's tasks call them. XCom carries group numbers and counts, never plans.

A run's batch id follows from its DAG and run ids, so a cleared task finds its batch without XCom.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from shardlake.airflow.connections import aws_session, ledger_url
from shardlake.config import config_file, load_pipeline
from shardlake.errors import ShardlakeError
from shardlake.names import LIVE, batch_id
from shardlake.plan import Run

if TYPE_CHECKING:
    from shardlake.batch import Steps

log = logging.getLogger(__name__)


@contextlib.contextmanager
def steps_of(pipeline: str) -> Iterator[Steps]:
    """The steps of a pipeline. An error that no retry can help fails the task for good.

    Raises:
        AirflowFailException: for every terminal `ShardlakeError`.
        ShardlakeError: the others, which Airflow retries.
    """
    from shardlake.batch import Steps
    from shardlake.ledger import open_ledger

    try:
        config = load_pipeline(config_file(), pipeline)
        yield Steps(config, open_ledger(ledger_url(config)), aws_session(config))
    except ShardlakeError as exc:
        if exc.terminal:
            raise AirflowFailException(f"{type(exc).__name__}: {exc}") from exc
        raise


def current_run() -> Run:
    """The run that the task at work belongs to."""
    dag_run = get_current_context()["dag_run"]
    return Run(dag_run.dag_id, dag_run.run_id)


def current_batch(pipeline: str) -> str:
    """The id of the current run's batch."""
    run = current_run()
    return batch_id(pipeline, LIVE, run.dag_id, run.run_id)


def plan(pipeline: str) -> list[int]:
    """Pin the run's ranges; the numbers of the groups to ingest, none where there is nothing to read."""
    with steps_of(pipeline) as steps:
        batch = steps.plan(current_run())
    for range_ in batch.ranges:
        log.info("planned %s", range_)
    for loss in batch.losses:
        log.error("left out: %s", loss)
    return list(range(len(batch.groups)))


def verify(pipeline: str) -> dict[str, int]:
    """Find out which ranges hold; how many do, and how many do not."""
    with steps_of(pipeline) as steps:
        verified = steps.verify(current_batch(pipeline))
    failed = [found for found in verified.values() if isinstance(found, ShardlakeError)]
    for error in failed:
        log.error("does not hold: %s", error)
    return {"verified": len(verified) - len(failed), "failed": len(failed)}


def commit(pipeline: str) -> dict[str, Any]:
    """Commit what was verified; the payload of the Asset event, taken from the ledger."""
    with steps_of(pipeline) as steps:
        committed = steps.commit(current_batch(pipeline))
    log.info("committed %d rows in %d ranges, %d bytes", committed.rows, len(committed.ranges), committed.bytes)
    return asdict(committed)


def is_behind(pipeline: str) -> bool:
    """Whether the run's batch left records behind, so that the next run should start at once."""
    with steps_of(pipeline) as steps:
        return steps.pinned(current_batch(pipeline)).behind
