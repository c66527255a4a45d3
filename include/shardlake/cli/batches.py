"""Batches as commands run them: by the very steps that Airflow's tasks call, with Spark's log where it helps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from shardlake.cli.output import count_text, progress, size_text
from shardlake.errors import ShardlakeError

if TYPE_CHECKING:
    from shardlake.batch import Committed, Steps
    from shardlake.engines import Engine
    from shardlake.plan import BatchPlan

DAG_ID = "shardlake-cli"
"""What stands in the place of the DAG's id in a batch that a command made."""

TAIL_LINES = 60
"""Lines of Spark's log that are shown when it failed."""


def run_batch(steps: Steps, engine: Engine, verbose: bool) -> tuple[BatchPlan, Committed | None]:
    """One batch from plan to commit; None where there was nothing to read.

    Raises:
        ShardlakeError: as the steps; the end of Spark's log was shown, unless all of it was.
    """
    from shardlake.plan import Run

    run = Run(DAG_ID, f"cli__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}")
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with progress(f"{steps.pipeline.name}: planning and ingesting a batch") as shown:
        log: Callable[[str], None] = shown.line if verbose else tail.append
        try:
            return steps.run(run, engine, log)
        except ShardlakeError as exc:
            if not exc.terminal:
                for line in tail:
                    shown.line(line)
            raise


def tell_committed(done: Committed) -> None:
    """One line on a batch that is committed."""
    click.echo(f"batch {done.batch_id}: {sums(len(done.ranges), done.rows, done.bytes)} committed")


def sums(ranges: int, rows: int, size_bytes: int) -> str:
    """How much something is."""
    return f"{count_text(ranges, 'range')}, {count_text(rows, 'row')}, {size_text(size_bytes)}"
