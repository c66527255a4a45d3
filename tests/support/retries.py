"""Retries as Airflow's UI makes them, and what is seen of a pipeline before and after each."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import ANY
from urllib.error import HTTPError

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from tests.e2e.conftest import Deployment

    from demo.airflow_api import AirflowApi

T = TypeVar("T")

BEFORE, AFTER, AFTER_NEXT = MOMENTS = ("before commit", "after commit", "after the next run's commit")

RANGES = "shardlake_ranges"
"""The ledger's table that a commit writes to, and no other."""

Instance = tuple[str, int]
"""A task and its map index, -1 where it is not mapped."""

_TASKS = ("plan", "ingest", "verify", "commit", "follow_up")
_WITHIN_S = 300.0
_ONE_PRODUCER = threading.Lock()  # making a boto3 client is not safe in two threads at once


@dataclass(frozen=True, slots=True)
class Retry:
    """What a person clears.

    Attributes:
        clears: a task, or one index of it, each with what comes after; None for the whole run, by its own endpoint.
        trimmed: whether the stream has lost the run's records by then.
        ranges_a_job: how many of a run's two ranges one index of `ingest` takes.
    """

    name: str
    clears: str | Instance | None
    trimmed: bool = False
    ranges_a_job: int = 2

    @property
    def pipeline(self) -> str:
        """The name of the pipeline that it is tried on."""
        return self.name.replace(" ", "-")

    def runs_again(self, instances: Iterable[Instance]) -> set[Instance]:
        """Which of a run's instances are to run once more."""
        task, index = self.clears if isinstance(self.clears, tuple) else (self.clears or _TASKS[0], None)
        after = _TASKS[_TASKS.index(task) + 1 :]
        return {each for each in instances if each[0] in after or (each[0] == task and index in (None, each[1]))}


RETRIES = (
    Retry("plan", "plan"),
    Retry("ingest", "ingest", ranges_a_job=1),
    Retry("one mapped index", ("ingest", 1), ranges_a_job=1),
    Retry("verify", "verify"),
    Retry("commit", "commit"),
    Retry("the whole run", None, ranges_a_job=1),
    Retry("a run older than retention", None, trimmed=True),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A pipeline and one of its runs, at one moment.

    Attributes:
        files: SHA-256, inode and time of modification of every published file, by path.
        ledger: every row of every table.
        leftovers: what lies below the dataset's `_shardlake/tmp`.
        read_calls: the calls of GetShardIterator and GetRecords that its stream ever got.
        kinesis_calls: all calls that the local Kinesis ever got, of whichever stream, by operation.
        events: the payloads of the run's Asset events, each once.
    """

    files: dict[str, tuple[str, int, int]]
    ledger: dict[str, list[dict[str, Any]]]
    leftovers: list[str]
    read_calls: int
    kinesis_calls: dict[str, int]
    run_state: str
    states: dict[Instance, str]
    tries: dict[Instance, int]
    events: set[str]

    @property
    def planned(self) -> list[dict[str, Any]]:
        """The ledger's open ranges."""
        return [row for row in self.ledger[RANGES] if row["state"] == "planned"]


@dataclass(frozen=True, slots=True)
class Retried:
    """One retry, with what was seen.

    Attributes:
        without: the ledger as a run without the retry would have it: as before, with what is published committed.
        cleared: the instances that Airflow says it has cleared; None where it does not say.
        logs: of each instance of `ingest` that ran again, the log of that attempt, by map index.
    """

    before: Seen
    after: Seen
    without: dict[str, list[dict[str, Any]]]
    cleared: set[Instance] | None
    logs: dict[int, str]
    seconds: float

    @property
    def sparks(self) -> int:
        """How many times Spark was started."""
        return sum("Running Spark version" in log for log in self.logs.values())


@dataclass
class Life:
    """One pipeline's two runs: the first committed, the second kept from its commit once; and retries of both."""

    deployment: Deployment
    api: AirflowApi
    retry: Retry
    retried: dict[str, Retried] = field(default_factory=dict)
    _runs: list[str] = field(default_factory=list)

    @property
    def dag_id(self) -> str:
        """The pipeline's DAG."""
        return f"kinesis_ingest__{self.retry.pipeline}"

    @property
    def dataset(self) -> Path:
        """The folder of the pipeline's dataset."""
        return self.deployment.dataset(self.retry.pipeline)

    def begin(self) -> None:
        """A run that is committed, and one whose files are published, and which fails before its commit."""
        first = self._start()
        state = self._wait_for(first)
        assert state == "success", f"the first run: {state}"
        second = self._start()
        with self._kept_from_commit(second):
            state = self._wait_for(second)
        assert state == "failed", f"the second run: {state}"

    def go_on(self) -> None:
        """The retry at each moment: twice of the second run, which it commits; then of the first."""
        for moment, run in zip(MOMENTS, (1, 1, 0), strict=True):
            self.retried[moment] = self._try_again(self._runs[run])

    def _try_again(self, run_id: str) -> Retried:
        before, began = self._see(run_id), time.monotonic()
        cleared = None
        if self.retry.clears is None:
            insist(lambda: self.api.clear_run(self.dag_id, run_id))
        else:
            clears = [self.retry.clears]
            answer = insist(lambda: self.api.clear(self.dag_id, run_id, clears))
            cleared = {(each["task_id"], each["map_index"]) for each in answer}
        self._wait_for(run_id)
        seconds, after = time.monotonic() - began, self._see(run_id)
        logs = {
            index: self.api.task_log(self.dag_id, run_id, task, after.tries[task, index], index)
            for task, index in self.retry.runs_again(after.tries)
            if task == "ingest"
        }
        return Retried(before, after, self._committed_as_published(before.ledger), cleared, logs, seconds)

    @contextmanager
    def _kept_from_commit(self, run_id: str) -> Iterator[None]:
        """Take the dataset's owner away once all is published, so that verify fails, and put it back in the end.

        To try `commit` alone, verify has to succeed: there commit is marked as failed before it has begun.
        """
        if self.retry.clears == "commit":
            insist(lambda: self.api.mark_failed(self.dag_id, run_id, "commit"))
            yield
            return
        owner = self.dataset / "_shardlake" / "owner.json"
        aside = owner.with_name("owner.json.aside")
        already = len(self._files())
        _wait(lambda: len(self._files()) == already + 2, every_s=0.02)
        owner.rename(aside)
        try:
            yield
        finally:
            aside.rename(owner)

    def _see(self, run_id: str) -> Seen:
        instances = {
            (each["task_id"], each["map_index"]): each for each in self.api.task_instances(self.dag_id, run_id)
        }
        stats = self.deployment.kinesis.stats()
        shards = stats["shards"].get(self.retry.pipeline, {}).values()
        events = self.api.asset_events(source_dag_id=self.dag_id, source_run_id=run_id)
        return Seen(
            files=self._files(),
            ledger=_tables(self.deployment.root / f"{self.retry.pipeline}.db"),
            leftovers=[str(each) for each in (self.dataset / "_shardlake" / "tmp").glob("*")],
            read_calls=sum(shard.get(name, 0) for shard in shards for name in ("GetShardIterator", "GetRecords")),
            kinesis_calls=stats["operations"],
            run_state=self._state(run_id),
            states={key: each["state"] for key, each in instances.items()},
            tries={key: each["try_number"] for key, each in instances.items()},
            events={json.dumps(event["extra"], sort_keys=True) for event in events},
        )

    def _files(self) -> dict[str, tuple[str, int, int]]:
        files = sorted((self.dataset / "data").glob("*/*.parquet"))
        found = ((file, file.stat(), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files)
        return {str(file.relative_to(self.dataset)): (sha256, at.st_ino, at.st_mtime_ns) for file, at, sha256 in found}

    def _committed_as_published(self, ledger: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        return {**ledger, RANGES: [self._committed(row) for row in ledger[RANGES]]}

    def _committed(self, row: dict[str, Any]) -> dict[str, Any]:
        """A range's row once it is committed, with what its file says itself; a committed one as it is."""
        if row["state"] != "planned":
            return row
        folder = self.dataset / "data" / f"shard_id={row['shard_id']}"
        file = folder / f"{row['start_key']}-{row['through_key']}.parquet"
        metadata = pq.read_metadata(file)
        contents = {
            "rows": metadata.num_rows,
            "bytes": file.stat().st_size,
            "checksum": json.loads(metadata.metadata[b"shardlake.checksum"]),
        }
        return {**row, **contents, "state": "committed", "closed_at_ms": ANY}

    def _start(self) -> str:
        """Start a run on 40 more records, of both shards; its id."""
        with _ONE_PRODUCER:
            self.deployment.put(self.retry.pipeline, 40)
        self._runs.append(str(insist(lambda: self.api.trigger(self.dag_id))["dag_run_id"]))
        return self._runs[-1]

    def _wait_for(self, run_id: str) -> str:
        """Wait for a run's end; its state."""
        _wait(lambda: self._state(run_id) in ("success", "failed"), every_s=0.5)
        return self._state(run_id)

    def _state(self, run_id: str) -> str:
        return str(insist(lambda: self.api.dag_run(self.dag_id, run_id))["state"])


def _tables(database: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table of a SQLite file, in the order of their texts."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        names = [row["name"] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: sorted((dict(row) for row in connection.execute(f'SELECT * FROM "{name}"')), key=repr)
            for name in names
        }


def insist(ask: Callable[[], T]) -> T:
    """Ask Airflow again where its SQLite was locked: nothing was done then, a request is one transaction."""
    for _ in range(20):
        try:
            return ask()
        except HTTPError as exc:
            if exc.code != 500:
                raise
            time.sleep(0.5)
    return ask()


def _wait(condition: Callable[[], object], every_s: float) -> None:
    until = time.monotonic() + _WITHIN_S
    while not condition():
        assert time.monotonic() < until, f"not within {_WITHIN_S} s"
        time.sleep(every_s)
