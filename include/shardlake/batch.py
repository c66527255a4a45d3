"""The four steps of a batch: plan, ingest, verify, commit. The DAG's tasks and the command line call these alike.

Each step takes up what it needs from ledger and dataset, so any of them can be run again at any time, with the same
result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import boto3
from pydantic import TypeAdapter

from shardlake.aws import credentials_of
from shardlake.backfill import Backfill, Request
from shardlake.config import Pipeline
from shardlake.engines import Engine, IngestJob
from shardlake.errors import ConflictError, DataLossError, IngestError, ShardlakeError, error_named, most_severe
from shardlake.kinesis.client import Kinesis
from shardlake.lake.home import open_home
from shardlake.ledger import Contents, Ledger
from shardlake.names import BOUNDS, LIVE, batch_directory, dataset_of
from shardlake.plan import BatchPlan, Run, digest, range_to_json
from shardlake.planning import Planner
from shardlake.ranges import SequenceRange
from shardlake.reports import error_of_report, sums_of_report
from shardlake.sinks import Sink
from shardlake.sinks.parquet import ParquetSink


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch has in the ledger once its commit is done: also the payload of the Asset event.

    Attributes:
        batch_id: the key of the event, which may be emitted more than once.
        ranges: one object a committed range: shard_id, start, through, rows, bytes.
        rows: of all ranges.
        bytes: of all files.
    """

    batch_id: str
    pipeline: str
    ranges: list[dict[str, Any]]
    rows: int
    bytes: int


class Steps:
    """The steps of the batches of one namespace of a pipeline.

    Args:
        pipeline: the configuration.
        ledger: the pipeline's ledger.
        session: a boto3 session with other credentials than the default chain's.
        namespace: `LIVE`, or a backfill's.
    """

    def __init__(
        self, pipeline: Pipeline, ledger: Ledger, session: boto3.Session | None = None, namespace: str = LIVE
    ) -> None:
        self.pipeline, self.ledger, self.namespace, self._session = pipeline, ledger, namespace, session
        self.home = open_home(dataset_of(pipeline.dataset, namespace), pipeline.place, session)
        self._sink: Sink = ParquetSink(self.home)

    def kinesis(self) -> Kinesis:
        """A client of the pipeline's stream."""
        pipeline = self.pipeline
        return Kinesis(
            pipeline.stream, pipeline.region, pipeline.endpoint_url, session=self._session, role=pipeline.role
        )

    def planner(self) -> Planner:
        """The planner of the namespace's batches."""
        return Planner(self.pipeline, self.ledger, self.kinesis(), self.home, self.namespace)

    def open_backfill(self, request: Request) -> Backfill:
        """Pin the bounds of the namespace's backfill, or find those that it has. See `planning.Planner`."""
        live = open_home(self.pipeline.dataset, self.pipeline.place, self._session)
        backfill = self.planner().open_backfill(request, live)
        self.home.create(BOUNDS, backfill.to_text())  # a copy, for whoever has to rebuild the ledger
        return backfill

    def plan(self, run: Run) -> BatchPlan:
        """Pin the ranges of a run, or find those that it has. See `planning.Planner.plan`."""
        return self.planner().plan(run)

    def ingest(self, batch_id: str, group: int, engine: Engine, log: Callable[[str], None]) -> None:
        """Publish the files of one group of ranges; what is committed already is left out.

        Raises:
            ShardlakeError: the most severe error of the group's ranges; those without one are published.
        """
        text, plan = self._pinned(batch_id)
        open_ranges, committed = self._standing(plan)
        first = sum(map(len, plan.groups[:group]))
        ranges = [first + row for row, range_ in enumerate(plan.groups[group]) if range_ in open_ranges]
        if not ranges:
            done = "committed already" if committed.keys() >= set(plan.groups[group]) else "committed or given up"
            log(f"every range of group {group} is {done}: nothing to read")
            return
        directory = batch_directory(batch_id)
        report_key = f"{directory}/report-{group:04}.json"
        self.home.replace(f"{directory}/plan.json", text)
        self.home.remove(report_key)
        job = IngestJob(
            name=f"shardlake {self.pipeline.name} {batch_id} group {group}",
            plan_text=text,
            digest=digest(text),
            ranges=ranges,
            report_key=report_key,
            credentials=credentials_of(self._session),
        )
        failure: IngestError | None = None
        try:
            engine.run(job, log)
        except IngestError as exc:
            failure = exc
        report = self.home.read(report_key)
        if report:
            log(sums_of_report(report))
        if failure:
            raise (report and error_of_report(report)) or failure from failure

    def verify(self, batch_id: str) -> Mapping[SequenceRange, Contents | ShardlakeError]:
        """Find out from the store which ranges hold; what was reported does not count. Commit takes it from here.

        A range that is committed holds as the ledger says; its file is not looked at again.
        """
        plan = self.pinned(batch_id)
        open_ranges, committed = self._standing(plan)
        closed = {
            range_: ConflictError(
                f"range {range_} is not open any more",
                todo="Likely cause: it was given up by hand (`shardlake journal` tells), or declared lost."
                " The next run goes on from where the shard stands",
            )
            for range_ in plan.ranges
            if range_ not in open_ranges and range_ not in committed
        }
        verified = committed | closed | self._sink.verify(plan, [each for each in plan.ranges if each in open_ranges])
        self.home.replace(f"{batch_directory(batch_id)}/verified.json", _verified_to_text(verified))
        return verified

    def commit(self, batch_id: str) -> Committed:
        """Commit what was verified; then fail for what was not.

        Raises:
            IngestError: verify has not run.
            ShardlakeError: the most severe error of the ranges that could not be committed; the others are.
        """
        plan = self.pinned(batch_id)
        text = self.home.read(f"{batch_directory(batch_id)}/verified.json")
        if text is None:
            raise IngestError(f"batch {batch_id} is not verified", todo="Run the verify step first")
        verified = _verified_from_text(text, plan)
        open_ranges, _ = self._standing(plan)
        verified |= {  # given up since, maybe, and pinned again by another run, which has not published it yet
            range_: IngestError(
                f"the file of range {range_} is not what verify found", todo="Run the ingest step again"
            )
            for range_, found in verified.items()
            if isinstance(found, Contents) and range_ in open_ranges and not self._sink.still_holds(range_, found)
        }
        good = {range_: found for range_, found in verified.items() if isinstance(found, Contents)}
        conflicts = self._sink.commit(self.ledger, plan, good, open_ranges)
        committed = self.ledger.committed(plan)
        failed: list[ShardlakeError] = [ConflictError(message) for message in conflicts]
        failed += [DataLossError(message) for message in plan.losses]
        failed += [
            IngestError(f"range {range_} is not verified", todo="Run the verify step again")
            for range_ in plan.ranges
            if range_ not in verified and range_ not in committed
        ]
        failed += [
            found for range_, found in verified.items() if isinstance(found, ShardlakeError) and range_ not in committed
        ]
        if failed:
            worst = most_severe(failed)
            raise type(worst)(
                f"{len(committed)} of {len(list(plan.ranges))} ranges of batch {batch_id} are committed;"
                f" {len(failed)} failed, first: {worst}"
            )
        return _event(plan, committed)

    def run(self, run: Run, engine: Engine, log: Callable[[str], None]) -> tuple[BatchPlan, Committed | None]:
        """One batch from plan to commit, without Airflow; None where there was nothing to read.

        Raises:
            ShardlakeError: as the steps. What could be committed is.
        """
        plan = self.plan(run)
        failed: list[ShardlakeError] = []
        for group in range(len(plan.groups)):
            try:
                self.ingest(plan.batch_id, group, engine, log)
            except ShardlakeError as exc:
                failed.append(exc)
        if not plan.groups:
            return plan, None
        self.verify(plan.batch_id)
        try:
            return plan, self.commit(plan.batch_id)
        except ShardlakeError as exc:
            raise most_severe([*failed, exc]) from exc

    def _standing(self, plan: BatchPlan) -> tuple[dict[SequenceRange, str], dict[SequenceRange, Contents]]:
        """The ranges of a plan that are open, each with the batch that planned it, and those that are committed.

        The others nobody may publish any more.

        Asked in this order: a range that another run commits meanwhile was open, or it is committed.
        """
        rows = self.ledger.ranges(plan.pipeline, plan.namespace, state="planned")
        open_ranges = {row.range: row.batch_id for row in rows}
        committed = self.ledger.committed(plan)
        return {it: open_ranges[it] for it in plan.ranges if it in open_ranges and it not in committed}, committed

    def pinned(self, batch_id: str) -> BatchPlan:
        """The plan of a batch, from the ledger.

        Raises:
            ConflictError: the ledger has no such batch.
        """
        return self._pinned(batch_id)[1]

    def _pinned(self, batch_id: str) -> tuple[str, BatchPlan]:
        text = self.ledger.batch(batch_id)
        if text is None:
            raise ConflictError(f"the ledger has no batch {batch_id}", todo="Run the plan step of this run again")
        return text, BatchPlan.from_text(text)


def _event(plan: BatchPlan, committed: Mapping[SequenceRange, Contents]) -> Committed:
    ranges = [
        {
            "shard_id": range_.shard_id,
            "start": str(range_.start),
            "through": str(range_.through),
            "rows": contents.rows,
            "bytes": contents.bytes,
        }
        for range_, contents in committed.items()
    ]
    rows, size = (sum(getattr(contents, name) for contents in committed.values()) for name in ("rows", "bytes"))
    return Committed(plan.batch_id, plan.pipeline, ranges, rows, size)


def _verified_to_text(verified: Mapping[SequenceRange, Contents | ShardlakeError]) -> str:
    rows = [
        {"range": range_to_json(range_), "contents": asdict(found)}
        if isinstance(found, Contents)
        else {"range": range_to_json(range_), "error": type(found).__name__, "message": str(found)}
        for range_, found in verified.items()
    ]
    return json.dumps(rows, indent=1)


@dataclass(frozen=True, slots=True)
class _Verified:
    """A row of `_verified_to_text`."""

    range: dict[str, Any]
    contents: Contents | None = None
    error: str = ""
    message: str = ""


def _verified_from_text(text: str, plan: BatchPlan) -> dict[SequenceRange, Contents | ShardlakeError]:
    try:
        rows = TypeAdapter(list[_Verified]).validate_json(text, strict=True)
    except ValueError as exc:
        what = f"what verify found of batch {plan.batch_id} cannot be understood"
        raise ConflictError(what, todo="Run the verify step again") from exc
    found = {json.dumps(row.range): row.contents or error_named(row.error, row.message) for row in rows}
    keys = {range_: json.dumps(range_to_json(range_)) for range_ in plan.ranges}
    return {range_: found[key] for range_, key in keys.items() if key in found}
