"""Step 1, plan: pin the next range of every shard that may be read, before anything is read.

Everything is looked at first (`survey`), then written in this order: owner of ledger and dataset, listing and new
chains, notes of idle shards, lost ranges, the batch. Asked again for a run that has a batch, the step returns that
batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from math import ceil

from shardlake.backfill import Backfill, Request
from shardlake.backfilling import BackfillLooker, resolve
from shardlake.config import Pipeline
from shardlake.errors import ConflictError, ShardlakeError, UnavailableError, most_severe
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.consumers import active_consumer
from shardlake.lake.home import Home
from shardlake.lake.owner import check_owner, claim_dataset, refuse_other, require_owner
from shardlake.ledger import Identity, Ledger
from shardlake.leftovers import clear_away
from shardlake.look import Look, Looker, Survey
from shardlake.losses import loss_of, rest_of, write_markers
from shardlake.names import LIVE, batch_directory, batch_id, dataset_of
from shardlake.plan import BatchPlan, HashRange, Run
from shardlake.ranges import SequenceRange
from shardlake.shards import Shard
from shardlake.survey import Surveyor
from shardlake.unaccounted import is_published, refuse_files_of_new_shards

MAX_GROUPS = 1024
"""Most mapped tasks of one Airflow task (`[core] max_map_length`, its default)."""


class Planner:
    """Plans the batches of one namespace of a pipeline.

    Args:
        pipeline: the configuration.
        ledger: the pipeline's ledger.
        kinesis: the pipeline's stream.
        home: where the namespace's files are.
        namespace: `LIVE`, or that of an open backfill.
    """

    def __init__(self, pipeline: Pipeline, ledger: Ledger, kinesis: Kinesis, home: Home, namespace: str = LIVE) -> None:
        self._pipeline, self._ledger, self._kinesis, self._home = pipeline, ledger, kinesis, home
        self._scope = (pipeline.name, namespace)

    def plan(self, run: Run) -> BatchPlan:
        """The batch of a run: the one that it has, else a new one. A batch without ranges is not pinned.

        Raises:
            ConfigError: stream, access, dataset or ledger are not usable as configured; nothing was written.
            ConflictError: dataset or ledger belong to another stream, pipeline or ledger, or the dataset is gone;
                nothing was written.
            DataLossError: records are lost, `on_data_loss` is `fail`, and there is nothing else to do.
            UnavailableError: a service does not answer, and there is nothing else to do.
        """
        pinned = self._ledger.batch(batch_id(*self._scope, run.dag_id, run.run_id))
        if pinned is None:
            draft = self.draft(run)
            self._recognise(self._home, draft)  # before positions of another stream are looked for in this one
            draft, looker, survey = self._surveyed(draft)
            self._own(draft)
            if not self._record(draft, survey):  # another run was quicker with the first listing: now this is a second
                draft, looker, survey = self._surveyed(draft)
                self._record(draft, survey)
            looks = self._past_losses(draft, looker, survey.looks)
            clear_away(self._home, self._ledger)
            plan, ranges = _proposal(draft, looks)
            if not ranges:
                return plan
            group_size = max(self._pipeline.max_group_ranges, ceil(len(ranges) / MAX_GROUPS))
            pinned = self._ledger.pin(replace(plan, consumer_arn=self._consumer(plan)), ranges, group_size)
        plan = BatchPlan.from_text(pinned)
        self._home.replace(f"{batch_directory(plan.batch_id)}/plan.json", pinned)
        return plan

    def resolve_backfill(self, request: Request) -> tuple[BatchPlan, Backfill]:
        """The bounds of the backfill that would be opened now, and a draft of its batches; nothing is written.

        Raises:
            ConfigError, DataLossError: as `backfilling.resolve`.
        """
        draft = self.draft(Run("backfill", self._scope[1]))
        known = self._ledger.shards(draft.pipeline)
        return draft, resolve(request, self._kinesis, draft.stream, draft.planned_at_ms, known)

    def left_of_backfill(self, request: Request) -> tuple[BatchPlan, Backfill]:
        """What the namespace's backfill has still to read, or would have if it were opened now; nothing is written.

        Raises:
            ConfigError, ConflictError, DataLossError: as `open_backfill`.
        """
        text = self._ledger.backfill(*self._scope)
        if text is None:
            return self.resolve_backfill(request)
        backfill = self._asked_for(request, text)
        positions = {shard_id: chain.position for shard_id, chain in self._ledger.chains(*self._scope).items()}
        return self.draft(Run("backfill", self._scope[1])), backfill.left(positions)

    def open_backfill(self, request: Request, live: Home) -> Backfill:
        """Pin the bounds of this namespace's backfill, or find those that it has.

        Args:
            request: what to read; one that asks for nothing in particular goes on with a backfill that is open.
            live: the dataset itself, which must not be another's.

        Raises:
            ConfigError, DataLossError: as `backfilling.resolve`; nothing was written.
            ConflictError: the backfill was opened for another request; or dataset or ledger are another's, or the
                dataset is gone.
        """
        text = self._ledger.backfill(*self._scope)
        if text is None:
            draft, backfill = self.resolve_backfill(request)
            self._recognise(live, replace(draft, namespace=LIVE, dataset=self._pipeline.dataset))
            self._own(draft)
            starts = {stretch.shard_id: stretch.start for stretch in backfill.stretches}
            text = self._ledger.open_backfill(*self._scope, backfill.to_text(), starts)
        return self._asked_for(request, text)

    def _asked_for(self, request: Request, text: str) -> Backfill:
        backfill = Backfill.from_text(text)
        if request not in (backfill.request, Request()):
            raise ConflictError(
                f"backfill {self._scope[1]} was opened for another request",
                expected=backfill.request,
                found=request,
                todo="Go on with it by its name alone, or open another one",
            )
        return backfill

    def propose(self, draft: BatchPlan) -> tuple[BatchPlan, list[SequenceRange]]:
        """What `plan` would make of a draft, its ranges apart, without writing anything.

        Raises:
            ConfigError, ConflictError, DataLossError, UnavailableError: as `plan`.
        """
        self._recognise(self._home, draft)
        draft, _, survey = self._surveyed(draft)
        return _proposal(draft, survey.looks)

    def draft(self, run: Run) -> BatchPlan:
        """The batch of a run without ranges: all else that decides names and content."""
        stream, now_ms = self._kinesis.describe()
        pipeline, namespace = self._scope
        return BatchPlan(
            batch_id=batch_id(*self._scope, run.dag_id, run.run_id),
            pipeline=pipeline,
            namespace=namespace,
            run=run,
            stream=stream,
            dataset=dataset_of(self._pipeline.dataset, namespace),
            storage=self._pipeline.place,
            ledger_id=self._ledger.ledger_id,
            planned_at_ms=now_ms,
            behind=False,
            groups=(),
            read_fraction=self._read_fraction(),
            retry_budget_s=self._pipeline.retry_budget.total_seconds(),
            aggregates=self._pipeline.aggregates,
        )

    def _consumer(self, plan: BatchPlan) -> str | None:
        """The consumer by which the live pipeline's ranges are read, registered if it is missing."""
        name = self._pipeline.consumer.enhanced_fan_out
        if name is None or plan.namespace != LIVE:
            return None
        return active_consumer(self._kinesis, plan.stream.arn, name, plan.pipeline)

    def _read_fraction(self) -> float | None:
        pipeline, namespace = self._scope
        if namespace == LIVE:
            return self._pipeline.read_fraction
        text = self._ledger.backfill(pipeline, namespace)
        return Backfill.from_text(text).request.read_fraction if text else None

    def _looker(self, draft: BatchPlan) -> Looker:
        if draft.namespace == LIVE:
            return Surveyor(self._pipeline, self._ledger, self._kinesis, self._home, draft)
        return BackfillLooker(self._pipeline, self._ledger, self._kinesis, self._home, draft)

    def _surveyed(self, draft: BatchPlan) -> tuple[BatchPlan, Looker, Survey]:
        """What is seen of the shards, and the draft with the retention by which their notes were judged.

        A retention that is lowered between its description and a look would have an old note hide what it took.

        Raises:
            UnavailableError: it was lowered while the shards were looked at, and again.
        """
        for _ in range(2):
            looker = self._looker(draft)
            survey = looker.survey()
            notes = (look.chain.caught_up for look in survey.looks if look.chain.caught_up)
            if all(note.is_recent(draft.planned_at_ms) for note in notes):
                return draft, looker, survey
            now = self.draft(draft.run)
            if now.stream.retention_ms >= draft.stream.retention_ms:
                return draft, looker, survey
            draft = now
        raise UnavailableError(
            f"the retention of stream {draft.stream.name} was lowered twice while it was planned",
            todo="Run the plan step again",
        )

    def _recognise(self, home: Home, draft: BatchPlan) -> None:
        """Find that ledger and dataset are not another's, and that the dataset is there if the ledger knows of it.

        Chains are opened in a dataset that was claimed: one without an owner is not mounted, or was emptied.
        """
        check_owner(home, draft)
        if self._ledger.chains(draft.pipeline, draft.namespace):
            self._claim(draft)
            require_owner(home, draft)

    def _own(self, draft: BatchPlan) -> None:
        """Claim ledger and dataset for this pipeline, or find that they are another's, or gone."""
        self._recognise(self._home, draft)
        self._home.check_writable()
        self._claim(draft)
        claim_dataset(self._home, draft)

    def _claim(self, draft: BatchPlan) -> None:
        """Claim the ledger for this pipeline, or find that it knows another of this name."""
        identity = Identity(draft.pipeline, draft.stream.arn, draft.stream.created_at_ms, self._pipeline.dataset)
        stored = self._ledger.claim(identity)
        refuse_other(asdict(stored), asdict(identity), f"the ledger knows pipeline {draft.pipeline} otherwise")

    def _record(self, draft: BatchPlan, survey: Survey) -> bool:
        """Store the listing with the beginnings of new chains, and where nothing was found.

        Returns:
            Whether it is stored: not where it was to be the first listing, and is not.
        """
        if survey.listed is None:
            return True
        starts = {shard_id: opening.position for shard_id, opening in survey.openings.items()}
        refuse_files_of_new_shards(self._home, self._ledger, self._scope, starts)
        caught_up = {id_: opening.caught_up for id_, opening in survey.openings.items() if opening.caught_up}
        caught_up |= {look.shard.shard_id: look.caught_up for look in survey.looks if look.caught_up}
        return self._ledger.record_listing(*self._scope, survey.listed, starts, caught_up, first=survey.first)

    def _past_losses(self, draft: BatchPlan, looker: Looker, looks: Iterable[Look]) -> list[Look]:
        """Under `on_data_loss: skip`, the looks behind what is lost, which is recorded; else the looks as they are."""
        if self._pipeline.on_data_loss == "skip":
            looks = [self._past_loss(draft, looker, look) for look in looks]
        write_markers(self._ledger, self._home, draft)
        return list(looks)

    def _past_loss(self, draft: BatchPlan, looker: Looker, look: Look) -> Look:
        """Close what is lost of a shard, and look at what is left of it.

        An open range keeps its end: what is left of it is open again, from the first record that lasts.
        """
        shard = look.shard
        while look.trimmed:
            lost = looker.lost(look, look.trimmed)
            if lost is None:
                return replace(look, trimmed=None)
            if is_published(self._home, self._ledger, self._scope, look.chain):
                return replace(look, trimmed=None, behind=True)
            try:
                self._ledger.declare_lost(*self._scope, draft.batch_id, lost, rest_of(look.chain, lost))
            except ConflictError:  # another run was quicker, and knows where the loss ends
                return replace(look, trimmed=None, behind=True)
            look = looker.look(shard, self._ledger.chains(*self._scope)[shard.shard_id])
        return look


def _proposal(draft: BatchPlan, looks: list[Look]) -> tuple[BatchPlan, list[SequenceRange]]:
    """The draft completed but for its ranges, and the ranges.

    Raises:
        ShardlakeError: there are none, and some shards could not be read.
    """
    ranges = [look.range for look in looks if look.range]
    losses = [loss_of(look.chain, look.trimmed) for look in looks if look.trimmed]
    errors: list[ShardlakeError] = [*losses, *(look.error for look in looks if look.error)]
    if errors and not ranges:
        raise most_severe(errors)
    behind = any(look.behind or look.error for look in looks)
    shards = [look.shard for look in looks if look.range]
    return replace(draft, behind=behind, losses=tuple(map(str, losses)), hash_ranges=hash_ranges(shards)), ranges


def hash_ranges(shards: Iterable[Shard]) -> tuple[HashRange, ...]:
    """The hash keys of shards, as plans have them."""
    return tuple(HashRange(each.shard_id, each.starting_hash_key, each.ending_hash_key) for each in shards)
