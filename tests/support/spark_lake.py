"""A stream with its producer's log, and a pipeline that reads it with Spark on a cluster."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import boto3
import psutil
import pyarrow.parquet as pq

from demo.processes import Process
from demo.spark_cluster import SparkCluster
from local_kinesis.process import LocalKinesis
from local_kinesis.produce import Acknowledged, Item, put_all
from shardlake.aws import credentials_of
from shardlake.batch import Committed, Steps
from shardlake.config import Pipeline
from shardlake.engines import IngestJob
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import LIVE, OWNER, temporary_directory
from shardlake.plan import BatchPlan, Run, digest
from support.inline_engine import InlineEngine

T = TypeVar("T")

_POLL_S = 0.05


@dataclass
class SparkLake:
    """One pipeline with a memory ledger, on a stream of its own.

    Attributes:
        server: the local Kinesis.
        cluster: where its engine's master is.
        pipeline: the configuration, as a user of the cluster would write it.
        session: the AWS credentials, which nothing but this process has.
        acknowledged: what the producer was told.
        plans: the batches that were committed.
        log: what Spark said, of all jobs.
    """

    server: LocalKinesis
    cluster: SparkCluster
    pipeline: Pipeline
    session: boto3.Session
    acknowledged: list[Acknowledged] = field(default_factory=list)
    plans: list[BatchPlan] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = Steps(self.pipeline, MemoryLedger(), self.session)
        self.dataset = Path(self.pipeline.dataset)

    def listen(self, line: str) -> None:
        """Take a line that Spark said; pytest shows it where a test fails."""
        self.log.append(line)
        print(line)

    def said(self, pattern: str) -> list[re.Match[str]]:
        """The lines that Spark said with a pattern in them."""
        return [found for line in self.log if (found := re.search(pattern, line))]

    def put(self, items: list[Item]) -> None:
        """Put records on the stream, and log what was acknowledged."""
        self.acknowledged += put_all(self.server.client(), self.pipeline.stream, items)

    def plan(self, run: str = "run") -> BatchPlan:
        """The batch of a run, of one group."""
        plan = self.steps.plan(Run("dag", run))
        assert len(plan.groups) == 1
        return plan

    def finish(self, plan: BatchPlan) -> Committed:
        """Verify and commit a batch that was ingested."""
        self.steps.verify(plan.batch_id)
        committed = self.steps.commit(plan.batch_id)
        self.plans.append(plan)
        return committed

    def records_read(self) -> int:
        """How many records the server gave out since its counts were last reset, of this stream."""
        shards: Mapping[str, Any] = self.server.stats()["shards"].get(self.pipeline.stream, {})
        return sum(counts.get("records", 0) for counts in shards.values())

    def files(self) -> dict[str, bytes]:
        """All published files and their bytes, by path."""
        return _files(self.dataset)

    def assert_result_is_the_same_as_without_spark(self) -> None:
        """Compare the dataset with the producer's log, with the ledger, and with what an inline run writes.

        Every record is there once, every range committed in one file, and no temporary file is left.
        """
        columns = ["shard_id", "sequence_number", "partition_key", "data"]
        rows = pq.read_table(self.dataset / "data", columns=columns).to_pylist()
        found = Counter(
            (row["shard_id"], row["sequence_number"], row["partition_key"], hashlib.sha256(row["data"]).hexdigest())
            for row in rows
        )
        assert found == Counter(
            (each.shard_id, each.sequence_number, each.partition_key, each.data_sha256) for each in self.acknowledged
        )
        ledger = list(self.steps.ledger.ranges(self.pipeline.name, LIVE))
        assert {row.range for row in ledger} == {range_ for plan in self.plans for range_ in plan.ranges}
        assert {row.state for row in ledger} == {"committed"}
        assert sum(row.contents.rows for row in ledger if row.contents) == len(self.acknowledged)
        files = self.files()
        assert len(files) == len(ledger)
        assert files == self._inline()
        assert list((self.dataset / "_shardlake" / "tmp").glob("*")) == []

    def _inline(self) -> dict[str, bytes]:
        """The files that an engine in this process makes of the same plans, in a dataset beside this one."""
        dataset = self.dataset.with_name("inline")
        owner = dataset / OWNER
        owner.parent.mkdir(parents=True)
        owner.write_bytes((self.dataset / OWNER).read_bytes())
        for plan in self.plans:
            text = replace(plan, dataset=str(dataset)).to_text()
            ranges = range(len(list(plan.ranges)))
            credentials = credentials_of(self.session)
            job = IngestJob("inline", text, digest(text), ranges, "_shardlake/report.json", credentials)
            InlineEngine().run(job, lambda line: None)
        return _files(dataset)

    def attempts(self, plan: BatchPlan) -> dict[psutil.Process, Process]:
        """The Python processes that have a temporary file of a batch open, and the worker that each belongs to."""
        folder = str(self.dataset / temporary_directory(plan.batch_id))
        return {
            member: worker
            for worker in self.cluster.workers
            for member in worker.members()
            if any(path.startswith(folder) for path in _open_files(member))
        }


def wait_for(condition: Callable[[], T], during: Future[None], within_s: float = 180) -> T:
    """Wait until a condition holds, while a job runs; what it says."""
    until = time.monotonic() + within_s
    while not (found := condition()):
        if during.done():
            during.result()
            raise AssertionError("the job ended before")
        assert time.monotonic() < until, f"not within {within_s} s"
        time.sleep(_POLL_S)
    return found


def task_events(event_log: Path, kind: str) -> Iterator[dict[str, Any]]:
    """The events of a kind about tasks, like `SparkListenerTaskStart`, from a folder of Spark's event logs."""
    for file in event_log.iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["Event"] == kind:
                yield event


def listening_on(processes: list[psutil.Process]) -> set[str]:
    """The addresses that these processes listen on."""
    found: set[str] = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            connections = process.net_connections(kind="inet")
            found |= {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}
    return found


def _open_files(process: psutil.Process) -> list[str]:
    try:
        return [each.path for each in process.open_files()]
    except psutil.Error:
        return []


def _files(dataset: Path) -> dict[str, bytes]:
    data = dataset / "data"
    return {str(file.relative_to(data)): file.read_bytes() for file in sorted(data.glob("*/*"))}
