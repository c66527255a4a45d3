"""Watching the demo's stages: bars for people, and an error as soon as something can no longer come true."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from demo.background import Background
from demo.producer import Producer
from demo.runs import CommittedRun, committed_runs, failed_runs

_POLL_S = 0.5
_STAGE_S = 300
"""A stage that takes longer is stuck: each is made to take about a minute on two cores."""


class DemoError(Exception):
    """The demo has not shown what it is there to show."""


class Watch:
    """Bars and waiting, in a `with` block.

    Args:
        console: where the bars go.
        background: the processes that have to run all the time.
        database: Airflow's SQLite file.
        dag_id: the DAG whose runs are watched.
        producer: what puts the records.
        records: how many records there are in all.
    """

    def __init__(
        self, console: Console, background: Background, database: Path, dag_id: str, producer: Producer, records: int
    ) -> None:
        self._background, self._database, self._dag_id, self._producer = background, database, dag_id, producer
        columns = (TextColumn("{task.description:<32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console)
        self._put = self._progress.add_task("records put on the stream", total=records)
        self._committed = self._progress.add_task("records committed in Parquet", total=records)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def until(self, what: str, reached: Callable[[list[CommittedRun]], bool]) -> None:
        """Waits until the runs that committed a batch are as wanted.

        Args:
            what: what is waited for, to be named in an error.
            reached: whether it has come true.

        Raises:
            DemoError: a run failed, a process or the producer ended, or it took far too long.
        """
        deadline = time.monotonic() + _STAGE_S
        while True:
            runs = committed_runs(self._database, self._dag_id)
            self._progress.update(self._put, completed=self._producer.put)
            self._progress.update(self._committed, completed=sum(run.rows for run in runs))
            if reached(runs):
                return
            self._refuse_what_cannot_end_well()
            if time.monotonic() > deadline:
                raise DemoError(f"after {_STAGE_S} s still waiting for {what}")
            time.sleep(_POLL_S)

    def _refuse_what_cannot_end_well(self) -> None:
        failed = failed_runs(self._database, self._dag_id)
        if failed:
            raise DemoError(f"run {failed[0]} failed; its tasks' logs are below {self._database.parent / 'logs'}")
        if self._producer.error:
            raise DemoError(f"records cannot be put on the stream: {self._producer.error}") from self._producer.error
        for process in self._background.processes:
            if not process.alive():
                raise DemoError(f"{process.name} ended by itself; its log is {process.log}")
