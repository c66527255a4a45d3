"""`shardlake run`: batches without Airflow, by the very steps that its tasks call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from shardlake.cli.batches import run_batch, tell_committed
from shardlake.cli.output import count_text, print_json_array, size_text
from shardlake.cli.setup import Setup, json_option, pass_setup, pipeline_argument

if TYPE_CHECKING:
    from shardlake.batch import Committed, Steps
    from shardlake.engines import Engine
    from shardlake.plan import BatchPlan


@click.command("run", short_help="Ingest one batch, or all there is, without Airflow.")
@pipeline_argument
@click.option("--until-caught-up", is_flag=True, help="Go on until all that was there is committed.")
@click.option("-v", "--verbose", is_flag=True, help="Show Spark's log, on stderr.")
@json_option
@pass_setup
def run_command(setup: Setup, name: str, until_caught_up: bool, verbose: bool, as_json: bool) -> None:
    """Ingest one batch of PIPELINE: plan, ingest with Spark, verify, commit.

    A range that another run has left open is finished first. Safe beside the DAG and beside itself: each record is
    committed once, whoever is quicker.

    With --json: an array with one object a batch: batch_id, pipeline, ranges, rows, bytes, behind.
    """
    from shardlake.preview import check

    steps = setup.working(name, check)
    batches = _batches(steps, setup.engine(steps.pipeline), until_caught_up, verbose)
    if as_json:
        print_json_array({**asdict(done), "behind": plan.behind} for plan, done in batches if done)
        return
    committed, behind = [], False
    for plan, done in batches:
        behind = plan.behind
        if done:
            committed.append((done.rows, done.bytes))
            tell_committed(done)
    if behind:
        click.echo("more records are there: run again, or with --until-caught-up")
    elif not committed:
        click.echo(f"nothing to read: pipeline {name} has caught up with its stream")
    elif len(committed) > 1:
        rows, size = (sum(column) for column in zip(*committed, strict=True))
        click.echo(f"caught up: {count_text(rows, 'row')}, {size_text(size)} in {len(committed)} batches")


def _batches(
    steps: Steps, engine: Engine, until_caught_up: bool, verbose: bool
) -> Iterator[tuple[BatchPlan, Committed | None]]:
    """One batch after the other; only the first unless all are asked for.

    A plan that is not behind may end up to `NEAR_TIP_MS` before the tip, so a busy stream has been caught up with once
    such a plan comes that much later than the first one; a quiet one when nothing is found.
    """
    from shardlake.kinesis.through import NEAR_TIP_MS

    began_ms = None
    while True:
        plan, done = run_batch(steps, engine, verbose)
        yield plan, done
        began_ms = plan.planned_at_ms if began_ms is None else began_ms
        near_tip = done is None or plan.planned_at_ms >= began_ms + NEAR_TIP_MS
        if not until_caught_up or (near_tip and not plan.behind):
            return
