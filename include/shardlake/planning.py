"""Step 1, plan: pin the next range of every shard that may be read, before anything is read.

All shards are looked at side by side. Asked again for a run that has a batch, the step returns that batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import TypeVar

from shardlake.config import AtTimestamp, Pipeline
from shardlake.errors import ShardlakeError, most_severe
from shardlake.kinesis.client import CONNECTIONS, Kinesis
from shardlake.kinesis.start import Opening, StartPolicy, resolve
from shardlake.kinesis.through import Found, Idle, Limits, Trimmed, find_range, still_there
from shardlake.lake.home import LocalHome
from shardlake.lake.owner import check_owner, claim_dataset, refuse_other
from shardlake.ledger import Chain, Identity, Ledger
from shardlake.losses import close_lost, loss_of
from shardlake.names import LIVE, FileKey, batch_directory, batch_id
from shardlake.plan import BatchPlan, Run
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start
from shardlake.shards import Shard, readable

MAX_GROUPS = 1024
"""Most mapped tasks of one Airflow task (`[core] max_map_length`, its default)."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Look:
    """What looking at one shard found.

    Attributes:
        range: the range to pin.
        behind: records are left behind it.
        idle_at_ms: the service's time at which nothing was found after the position.
        loss: why `on_data_loss: fail` leaves the shard out.
    """

    range: SequenceRange | None = None
    behind: bool = False
    idle_at_ms: int | None = None
    loss: ShardlakeError | None = None


class Planner:
    """Plans the batches of one pipeline.

    Args:
        pipeline: the configuration.
        ledger: the pipeline's ledger.
        kinesis: the pipeline's stream.
        home: the pipeline's dataset.
    """

    def __init__(self, pipeline: Pipeline, ledger: Ledger, kinesis: Kinesis, home: LocalHome) -> None:
        self._pipeline, self._ledger, self._kinesis, self._home = pipeline, ledger, kinesis, home
        self._scope = (pipeline.name, LIVE)
        self._limits = Limits(int(pipeline.max_window.total_seconds() * 1000), int(pipeline.max_range_bytes))

    def plan(self, run: Run) -> BatchPlan:
        """The batch of a run: the one that it has, else a new one. A batch without ranges is not pinned.

        Raises:
            ConfigError: stream, access, dataset or ledger are not usable as configured; nothing was written.
            ConflictError: dataset or ledger belong to another stream, pipeline or ledger; nothing was written.
            DataLossError: records are lost, `on_data_loss` is `fail`, and there is nothing else to do.
        """
        pinned = self._ledger.batch(batch_id(*self._scope, run.dag_id, run.run_id))
        if pinned is None:
            draft = self.draft(run)
            self._own(draft)
            draft, ranges = self.propose(draft)
            if not ranges:
                return draft
            group_size = max(self._pipeline.max_group_ranges, ceil(len(ranges) / MAX_GROUPS))
            pinned = self._ledger.pin(draft, ranges, group_size)
        plan = BatchPlan.from_text(pinned)
        self._home.replace(f"{batch_directory(plan.batch_id)}/plan.json", pinned)
        return plan

    def propose(self, draft: BatchPlan) -> tuple[BatchPlan, list[SequenceRange]]:
        """List and look at the shards: the draft completed but for its ranges, and the ranges to pin."""
        shards, chains = self._open_chains(draft)
        unfinished = _unfinished(shards, chains)
        looks = self._side_by_side(lambda it: self._look(draft, *it), unfinished)
        self._ledger.mark_caught_up(
            *self._scope,
            {
                chain.shard_id: (chain.position, look.idle_at_ms)
                for (_, chain), look in zip(unfinished, looks, strict=True)
                if look.idle_at_ms is not None
            },
        )
        ranges = _ranges(looks)
        losses = [look.loss for look in looks if look.loss]
        if losses and not ranges:
            raise most_severe(losses)
        return _with_looks(draft, looks), ranges

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

    def _own(self, draft: BatchPlan) -> None:
        """Claim ledger and dataset for this pipeline, or find that they are another's."""
        check_owner(self._home, draft)
        self._home.prepare()
        identity = Identity(draft.pipeline, draft.stream.arn, draft.stream.created_at_ms, draft.dataset)
        stored = self._ledger.claim(identity)
        refuse_other(asdict(stored), asdict(identity), f"the ledger knows pipeline {draft.pipeline} otherwise")
        claim_dataset(self._home, draft)

    def _open_chains(self, draft: BatchPlan) -> tuple[dict[str, Shard], dict[str, Chain]]:
        """Record the listing and open the chains of shards that may be read for the first time.

        `start:` holds for all shards of the first listing. A shard first seen later is read from its beginning, once
        its parents are finished; so is every shard under `trim_horizon`.
        """
        listed = self._kinesis.list_shards()
        policy = self._policy()
        first = policy != "trim_horizon" and not self._ledger.shards(draft.pipeline)
        openings = self._resolve(draft, listed, policy) if first else {}
        starts = {shard_id: opening.position for shard_id, opening in openings.items()}
        self._ledger.record_listing(*self._scope, listed, starts)
        shards, chains = self._ledger.shards(draft.pipeline), self._ledger.chains(*self._scope)
        new = [shard for shard in readable(shards, _finished(chains)) if shard.shard_id not in chains]
        openings |= self._resolve(draft, [shard for shard in new if not shard.missing], "trim_horizon")
        starts = {shard_id: opening.position for shard_id, opening in openings.items()}
        for shard in shards.values():
            if shard.expired and shard.shard_id not in chains:
                starts[shard.shard_id] = Start("AT", SequenceNumber(shard.starting_sequence_number))
        self._ledger.open_chains(*self._scope, starts)
        caught_up = {
            shard_id: (opening.position, draft.planned_at_ms)
            for shard_id, opening in openings.items()
            if opening.caught_up
        }
        self._ledger.mark_caught_up(*self._scope, caught_up)
        return shards, self._ledger.chains(*self._scope)

    def _policy(self) -> StartPolicy:
        start = self._pipeline.start
        return start.at_ms if isinstance(start, AtTimestamp) else start

    def _resolve(self, draft: BatchPlan, shards: list[Shard], policy: StartPolicy) -> dict[str, Opening]:
        now_ms, retention_ms = draft.planned_at_ms, draft.stream.retention_ms
        openings = self._side_by_side(lambda it: resolve(self._kinesis, it, policy, now_ms, retention_ms), shards)
        return {shard.shard_id: opening for shard, opening in zip(shards, openings, strict=True)}

    def _look(self, draft: BatchPlan, shard: Shard, chain: Chain) -> Look:
        """The next range of a shard: an open one is taken over as it is, as long as it can still be finished."""
        position, open_range = chain.position, chain.open_range
        assert isinstance(position, Start)  # finished shards are not looked at
        if open_range and self._published(open_range):
            return Look(open_range, behind=True)
        if shard.missing and not shard.expired:
            return Look()
        found: Found | Idle | Trimmed | None
        if shard.expired:
            found = Trimmed(oldest=None, at_end=True)
        elif open_range:
            found = still_there(self._kinesis, open_range) or Found(open_range, behind=True)
        else:
            retention_ms = draft.stream.retention_ms
            found = find_range(self._kinesis, shard, position, chain.caught_up_at_ms, retention_ms, self._limits)
        match found:
            case Found(range_, behind):
                return Look(range_, behind or range_.through is SHARD_END)
            case Idle(at_ms):
                return Look(idle_at_ms=at_ms)
        if self._pipeline.on_data_loss == "fail":
            return Look(loss=loss_of(chain, found))
        rest = close_lost(self._ledger, self._home, draft, chain, found)
        return self._look(draft, shard, rest) if rest else Look(behind=found.at_end)

    def _published(self, range_: SequenceRange) -> bool:
        return self._home.path(FileKey.of(range_).path).exists()

    @staticmethod
    def _side_by_side(look: Callable[[T], R], items: Iterable[T]) -> list[R]:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            return list(pool.map(look, items))


def _finished(chains: dict[str, Chain]) -> set[str]:
    return {shard_id for shard_id, chain in chains.items() if chain.position is SHARD_END}


def _unfinished(shards: dict[str, Shard], chains: dict[str, Chain]) -> list[tuple[Shard, Chain]]:
    """The shards to look at, with their chains: those not at their end, parents before children."""
    finished = _finished(chains)
    may_be_read = {shard.shard_id for shard in readable(shards, finished)}
    return [
        (shard, chains[shard_id])
        for shard_id, shard in sorted(shards.items())
        if shard_id in chains and shard_id not in finished and (shard_id in may_be_read or shard.expired)
    ]


def _ranges(looks: list[Look]) -> list[SequenceRange]:
    return [look.range for look in looks if look.range]


def _with_looks(draft: BatchPlan, looks: list[Look]) -> BatchPlan:
    return replace(
        draft,
        behind=any(look.behind for look in looks),
        losses=tuple(str(look.loss) for look in looks if look.loss),
    )
