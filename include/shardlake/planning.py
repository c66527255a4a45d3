"""Step 1, plan: pin the next range of every shard that may be read, before anything is read.

Everything is looked at first (`survey`), then written in this order: owner of ledger and dataset, listing and new
chains, notes of idle shards, lost ranges, the batch. Asked again for a run that has a batch, the step returns that
batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import asdict, replace
from math import ceil

from shardlake.config import Pipeline
from shardlake.errors import ConflictError, ShardlakeError, most_severe
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import ShardGoneError
from shardlake.kinesis.start import oldest_lasting
from shardlake.kinesis.through import Trimmed
from shardlake.lake.home import Home
from shardlake.lake.owner import check_owner, claim_dataset, refuse_other
from shardlake.ledger import Identity, Ledger
from shardlake.leftovers import clear_away
from shardlake.losses import loss_of, lost_range, rest_of, write_markers
from shardlake.names import LIVE, batch_directory, batch_id
from shardlake.plan import BatchPlan, Run
from shardlake.ranges import SequenceRange
from shardlake.shards import Shard
from shardlake.survey import Look, Survey, Surveyor

MAX_GROUPS = 1024
"""Most mapped tasks of one Airflow task (`[core] max_map_length`, its default)."""


class Planner:
    """Plans the batches of one pipeline.

    Args:
        pipeline: the configuration.
        ledger: the pipeline's ledger.
        kinesis: the pipeline's stream.
        home: the pipeline's dataset.
    """

    def __init__(self, pipeline: Pipeline, ledger: Ledger, kinesis: Kinesis, home: Home) -> None:
        self._pipeline, self._ledger, self._kinesis, self._home = pipeline, ledger, kinesis, home
        self._scope = (pipeline.name, LIVE)

    def plan(self, run: Run) -> BatchPlan:
        """The batch of a run: the one that it has, else a new one. A batch without ranges is not pinned.

        Raises:
            ConfigError: stream, access, dataset or ledger are not usable as configured; nothing was written.
            ConflictError: dataset or ledger belong to another stream, pipeline or ledger; nothing was written.
            DataLossError: records are lost, `on_data_loss` is `fail`, and there is nothing else to do.
            UnavailableError: a service does not answer, and there is nothing else to do.
        """
        pinned = self._ledger.batch(batch_id(*self._scope, run.dag_id, run.run_id))
        if pinned is None:
            draft = self.draft(run)
            check_owner(self._home, draft)
            surveyor = self._surveyor(draft)
            survey = surveyor.survey()
            self._own(draft)
            self._record(draft, survey)
            clear_away(self._home, self._ledger)
            looks = self._past_losses(draft, surveyor, survey.looks)
            plan, ranges = _proposal(draft, looks)
            if not ranges:
                return plan
            group_size = max(self._pipeline.max_group_ranges, ceil(len(ranges) / MAX_GROUPS))
            pinned = self._ledger.pin(plan, ranges, group_size)
        plan = BatchPlan.from_text(pinned)
        self._home.replace(f"{batch_directory(plan.batch_id)}/plan.json", pinned)
        return plan

    def propose(self, draft: BatchPlan) -> tuple[BatchPlan, list[SequenceRange]]:
        """What `plan` would make of a draft, its ranges apart, without writing anything.

        Raises:
            ConfigError, ConflictError, DataLossError, UnavailableError: as `plan`.
        """
        check_owner(self._home, draft)
        return _proposal(draft, self._surveyor(draft).survey().looks)

    def draft(self, run: Run) -> BatchPlan:
        """The batch of a run without ranges: all else that decides names and content."""
        stream, now_ms = self._kinesis.describe()
        return BatchPlan(
            batch_id=batch_id(*self._scope, run.dag_id, run.run_id),
            pipeline=self._pipeline.name,
            namespace=LIVE,
            run=run,
            stream=stream,
            dataset=self._pipeline.dataset,
            ledger_id=self._ledger.ledger_id,
            planned_at_ms=now_ms,
            behind=False,
            groups=(),
        )

    def _surveyor(self, draft: BatchPlan) -> Surveyor:
        return Surveyor(self._pipeline, self._ledger, self._kinesis, self._home, draft)

    def _own(self, draft: BatchPlan) -> None:
        """Claim ledger and dataset for this pipeline, or find that they are another's."""
        self._home.check_writable()
        identity = Identity(draft.pipeline, draft.stream.arn, draft.stream.created_at_ms, draft.dataset)
        stored = self._ledger.claim(identity)
        refuse_other(asdict(stored), asdict(identity), f"the ledger knows pipeline {draft.pipeline} otherwise")
        claim_dataset(self._home, draft)

    def _record(self, draft: BatchPlan, survey: Survey) -> None:
        """Store the listing with the beginnings of new chains, and where nothing was found."""
        starts = {shard_id: opening.position for shard_id, opening in survey.openings.items()}
        self._ledger.record_listing(*self._scope, survey.listed, starts)
        caught_up = {
            shard_id: (opening.position, draft.planned_at_ms)
            for shard_id, opening in survey.openings.items()
            if opening.caught_up
        }
        caught_up |= {
            look.shard.shard_id: (look.chain.position, look.idle_at_ms)
            for look in survey.looks
            if look.idle_at_ms is not None
        }
        self._ledger.mark_caught_up(*self._scope, caught_up)

    def _past_losses(self, draft: BatchPlan, surveyor: Surveyor, looks: Iterable[Look]) -> list[Look]:
        """Under `on_data_loss: skip`, the looks behind what is lost, which is recorded; else the looks as they are."""
        if self._pipeline.on_data_loss == "skip":
            looks = [self._past_loss(draft, surveyor, look) for look in looks]
        write_markers(self._ledger, self._home, draft)
        return list(looks)

    def _past_loss(self, draft: BatchPlan, surveyor: Surveyor, look: Look) -> Look:
        """Close what is lost of a shard, and look at what is left of it.

        An open range keeps its end: what is left of it is open again, from the first record that lasts.
        """
        shard = look.shard
        while look.trimmed:
            lost = lost_range(look.chain, self._up_to_what_lasts(draft, shard, look.trimmed))
            if lost is None:
                return replace(look, trimmed=None)
            try:
                self._ledger.declare_lost(*self._scope, draft.batch_id, lost, rest_of(look.chain, lost))
            except ConflictError:  # another run was quicker, and knows where the loss ends
                return replace(look, trimmed=None, behind=True)
            look = surveyor.look(shard, self._ledger.chains(*self._scope)[shard.shard_id])
        return look

    def _up_to_what_lasts(self, draft: BatchPlan, shard: Shard, trimmed: Trimmed) -> Trimmed:
        """The loss up to a record that will not be gone before it is read, or no shard could be caught up with."""
        if trimmed.oldest is None:
            return trimmed
        with contextlib.suppress(ShardGoneError):
            lasting = oldest_lasting(self._kinesis, shard.shard_id, draft.stream.retention_ms)
            return replace(trimmed, oldest=max(trimmed.oldest, lasting or trimmed.oldest))
        return trimmed


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
    return replace(draft, behind=behind, losses=tuple(map(str, losses))), ranges
