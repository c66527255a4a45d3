"""One step of a batch in a process of its own, as Airflow's LocalExecutor has it; an engine that needs no Spark."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Some are named for the fork server alone, which has them then before it forks.
import boto3
import botocore.loaders
import botocore.session
import psycopg  # noqa: F401
import pyarrow.parquet  # noqa: F401
import sqlalchemy.dialects.postgresql.psycopg
import sqlalchemy.dialects.sqlite.pysqlite  # noqa: F401

import shardlake
import shardlake.cli.run
import shardlake.lake.parquet
import shardlake.lake.s3_upload
import shardlake.ledger.database
import shardlake.ledger.sql
from shardlake.batch import Steps
from shardlake.config import Pipeline
from shardlake.errors import ShardlakeError
from shardlake.ledger import open_ledger
from shardlake.names import LIVE, batch_id
from shardlake.plan import Run
from support.command_line import write_config
from support.faults.tap import sitecustomize as tap
from support.inline_engine import InlineEngine

DAG = "dag"
REFUSED = 10
"""Added to the exit code of a `ShardlakeError`: whatever else goes wrong in a process ends with 1."""


def _parse_models_once() -> None:
    """Let all processes that are forked from this one have the service's model, which takes 0.1 s to parse."""
    loader = botocore.loaders.create_loader()
    botocore.session.create_loader = lambda *_: loader
    session = boto3.Session("test", "test", region_name="us-east-1")
    for service in ("kinesis", "s3"):
        session.client(service)


_parse_models_once()
gc.freeze()  # or collections in forked processes would write to all these objects, and so copy them


@dataclass(frozen=True, slots=True)
class Task:
    """A step of a run; or `shardlake run`, which belongs to no run of ours.

    Attributes:
        step: `plan`, `ingest`, `verify`, `commit`, or `command`.
        group: of `ingest`.
    """

    step: str
    run: str = ""
    group: int = 0

    def __str__(self) -> str:
        return " ".join(filter(None, (self.step, self.run, str(self.group) if self.step == "ingest" else "")))


@dataclass(frozen=True, slots=True)
class Work:
    """What a process needs to know.

    Attributes:
        entry: the pipeline's entry in the configuration.
        root: the folder of its site.
        told_to: the tap's folder; None: nothing is told.
        lock_timeout_s: how long it waits for another one's transaction.
        other_code: whether it is of another code version, whose files have other bytes with the same rows in them.
    """

    task: Task
    name: str
    entry: dict[str, Any]
    root: Path
    told_to: Path | None
    lock_timeout_s: float
    other_code: bool


def work(given: Work) -> None:
    """The whole life of the process, but for its end."""
    with (given.root / "tasks.log").open("a", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    shardlake.ledger.database.LOCK_TIMEOUT_S = given.lock_timeout_s  # type: ignore[assignment]
    if given.other_code:
        shardlake.__version__ = "other"
        shardlake.lake.parquet.ROW_GROUP_ROWS = 7
    if given.task.group:  # of two groups, one goes to a bucket in parts
        shardlake.lake.s3_upload.MULTIPART_BYTES = 0
    tempfile.tempdir = str(given.root / "tmp")
    if given.told_to:
        place = Path(given.entry["dataset"].removeprefix("s3:/")).parent  # of a bucket: as requests have it
        tap.install(str(given.told_to), str(place), given.task.step)
    try:
        _do(given)
    except ShardlakeError as exc:
        print(f"{given.task}: {type(exc).__name__}: {exc}", flush=True)
        sys.exit(REFUSED + exc.exit_code)
    if given.told_to:
        tap.tell("end")


def _do(given: Work) -> None:
    task = given.task
    if task.step == "command":
        os.environ["SHARDLAKE_LEDGER"] = given.entry["ledger"]  # the file refuses a password
        config = given.root / "command.yaml"
        entry = {**given.entry, "ledger": "${SHARDLAKE_LEDGER}"}
        result = write_config(config, **{given.name: entry})("run", given.name)
        print(result.output, flush=True)
        if result.exit_code:
            sys.exit(REFUSED + result.exit_code)
        return
    steps = Steps(Pipeline(name=given.name, **given.entry), open_ledger(given.entry["ledger"]))
    batch = batch_id(given.name, LIVE, DAG, task.run)
    if task.step == "plan":
        steps.plan(Run(DAG, task.run))
    elif task.step == "ingest":
        steps.ingest(batch, task.group, InlineEngine(), lambda line: print(line, flush=True))
    elif task.step == "verify":
        steps.verify(batch)
    else:
        steps.commit(batch)
