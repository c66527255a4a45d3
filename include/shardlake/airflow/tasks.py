"""The steps of a batch as the DAG's tasks call them. XCom carries group numbers and counts, never plans.

A run's batch id follows from its DAG and run ids, so a cleared task finds its batch without XCom.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from shardlake.airflow.connections import aws_session, ledger_url
from shardlake.backfill import parse_request
from shardlake.config import config_file, load_pipeline
from shardlake.errors import ShardlakeError
from shardlake.names import LIVE, backfill_namespace, batch_id
from shardlake.plan import Run

if TYPE_CHECKING:
    from shardlake.batch import Steps

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """What a run works on: a pipeline, or one of its backfills."""

    pipeline: str
    namespace: str = LIVE


@contextlib.contextmanager
def steps_of(target: Target) -> Iterator[Steps]:
    """The steps of what a run works on. An error that no retry can help fails the task for good.

    Raises:
        AirflowFailException: for every terminal `ShardlakeError`.
        ShardlakeError: the others, which Airflow retries.
    """
    from shardlake.batch import Steps
    from shardlake.ledger import open_ledger

    try:
        config = load_pipeline(config_file(), target.pipeline)
        yield Steps(config, open_ledger(ledger_url(config)), aws_session(config), target.namespace)
    except ShardlakeError as exc:
        if exc.terminal:
            raise AirflowFailException(f"{type(exc).__name__}: {exc}") from exc
        raise


def current_run() -> Run:
    """The run that the task at work belongs to."""
    dag_run = get_current_context()["dag_run"]
    return Run(dag_run.dag_id, dag_run.run_id)


def backfill_of(form: Mapping[str, Any], run_id: str) -> Target:
    """What a run of the backfill DAG works on: the backfill that its form names, else one that begins with it."""
    return Target(form["pipeline"], backfill_namespace(form["backfill"] or run_id))


def current_backfill() -> Target:
    """What the current run of the backfill DAG works on."""
    return backfill_of(get_current_context()["params"], current_run().run_id)


def target_of(pipeline: str | None) -> Target:
    """The pipeline of a DAG; or, where it has none of its own, what its current run's form names."""
    return Target(pipeline) if pipeline else current_backfill()


def current_batch(target: Target) -> str:
    """The id of the current run's batch."""
    run = current_run()
    return batch_id(target.pipeline, target.namespace, run.dag_id, run.run_id)


def plan_backfill() -> list[int]:
    """Open the backfill that the run's form asks for, or go on with the one that it names; then as `plan`."""
    from shardlake.backfilling import opened

    target, params = current_backfill(), get_current_context()["params"]
    with steps_of(target) as steps:
        if params["backfill"]:
            opened(steps.ledger, target.pipeline, target.namespace)
        request = parse_request({key: params[key] for key in params if key not in ("pipeline", "backfill")})
        for stretch in steps.open_backfill(request).stretches:
            log.info("backfill %s of %s: %s", target.namespace, target.pipeline, stretch)
    return plan(target)


def plan(target: Target) -> list[int]:
    """Pin the run's ranges; the numbers of the groups to ingest, none where there is nothing to read."""
    with steps_of(target) as steps:
        batch = steps.plan(current_run())
    for range_ in batch.ranges:
        log.info("planned %s", range_)
    for loss in batch.losses:
        log.error("left out: %s", loss)
    return list(range(len(batch.groups)))


def verify(target: Target) -> dict[str, int]:
    """Find out which ranges hold; how many do, and how many do not."""
    with steps_of(target) as steps:
        verified = steps.verify(current_batch(target))
    failed = [found for found in verified.values() if isinstance(found, ShardlakeError)]
    for error in failed:
        log.error("does not hold: %s", error)
    return {"verified": len(verified) - len(failed), "failed": len(failed)}


def commit(target: Target) -> dict[str, Any]:
    """Commit what was verified; the payload of the Asset event, taken from the ledger."""
    with steps_of(target) as steps:
        committed = steps.commit(current_batch(target))
    log.info("committed %d rows in %d ranges, %d bytes", committed.rows, len(committed.ranges), committed.bytes)
    return asdict(committed)


def is_behind(target: Target) -> bool:
    """Whether the run's batch left records behind, so that the next run should start at once."""
    with steps_of(target) as steps:
        return steps.pinned(current_batch(target)).behind
