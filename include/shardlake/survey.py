"""What planning sees: every shard, where its chain stands or would begin, and the range that could come next.

Nothing is written here, so whatever is wrong with stream, access or configuration shows before anything is recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from shardlake.config import AtTimestamp, Pipeline
from shardlake.errors import ConfigError, IngestError
from shardlake.kinesis.client import CONNECTIONS, Kinesis
from shardlake.kinesis.failures import ShardGoneError
from shardlake.kinesis.start import Opening, StartPolicy, resolve
from shardlake.kinesis.through import Found, Idle, Limits, Trimmed, find_range, still_there
from shardlake.lake.home import Home
from shardlake.ledger import Chain, Ledger
from shardlake.ledger.chain import merge_listing
from shardlake.names import FileKey
from shardlake.plan import BatchPlan
from shardlake.ranges import SHARD_END, SequenceRange, ShardEnd, Start
from shardlake.shards import Shard, readable

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Look:
    """What looking at one shard found.

    Attributes:
        range: the range to pin.
        behind: another plan should follow soon.
        idle_at_ms: the service's time at which nothing was found after the position.
        trimmed: the range cannot be read: its beginning is gone.
        error: the service did not let us find out; the other shards go on.
    """

    shard: Shard
    chain: Chain
    range: SequenceRange | None = None
    behind: bool = False
    idle_at_ms: int | None = None
    trimmed: Trimmed | None = None
    error: IngestError | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What one look over all shards found.

    Attributes:
        listed: the complete listing.
        openings: where the chains of shards begin that have none yet, by shard id.
        looks: one per shard that may be read, parents before children.
    """

    listed: list[Shard]
    openings: dict[str, Opening]
    looks: list[Look]


class Surveyor:
    """Looks at the shards of a pipeline's stream, side by side.

    Args:
        draft: the batch to be, with the stream and the service's time.
    """

    def __init__(self, pipeline: Pipeline, ledger: Ledger, kinesis: Kinesis, home: Home, draft: BatchPlan) -> None:
        self._ledger, self._kinesis, self._home, self._draft = ledger, kinesis, home, draft
        self._start = pipeline.start
        self._limits = Limits(int(pipeline.max_window.total_seconds() * 1000), int(pipeline.max_range_bytes))

    def survey(self) -> Survey:
        """List the shards, find where new ones begin, and look at those that may be read.

        Raises:
            ConfigError: the configured start lies in the future, or the stream does not let itself be read.
        """
        known = self._ledger.shards(self._draft.pipeline)
        chains = self._ledger.chains(self._draft.pipeline, self._draft.namespace)
        listed = self._kinesis.list_shards()
        openings = self._open([shard for shard in listed if shard.shard_id not in chains], self._policy(bool(known)))
        listed = [shard for shard in listed if shard.shard_id in chains or shard.shard_id in openings]
        chains |= {
            shard_id: Chain(shard_id, opening.position, None, self._draft.planned_at_ms if opening.caught_up else None)
            for shard_id, opening in openings.items()
        }
        shards = known | merge_listing(known, listed)
        return Survey(listed, openings, _side_by_side(lambda it: self.look(*it), _unfinished(shards, chains)))

    def look(self, shard: Shard, chain: Chain) -> Look:
        """The next range of a shard: an open one is taken over as it is, as long as it can still be finished."""
        position, open_range = chain.position, chain.open_range
        if isinstance(position, ShardEnd):
            return Look(shard, chain, behind=True)  # finished just now: its children may be read
        if open_range and (open_range.anchor is None or self._home.exists(FileKey.of(open_range).path)):
            return Look(shard, chain, open_range, behind=True)
        if shard.missing and not shard.expired:
            return Look(shard, chain)
        try:
            found = Trimmed(oldest=None, at_end=True) if shard.expired else self._find(shard, position, chain)
        except ShardGoneError:
            return Look(shard, chain)  # it has left the listing meanwhile: the next ones will tell
        except IngestError as exc:
            log.warning("%s is left out of this batch: %s", shard.shard_id, exc)
            return Look(shard, chain, error=exc)
        match found:
            case Found(range_, behind):
                return Look(shard, chain, range_, behind or range_.through is SHARD_END)
            case Idle(at_ms):
                return Look(shard, chain, idle_at_ms=at_ms)
            case Trimmed():
                return Look(shard, chain, trimmed=found)

    def _find(self, shard: Shard, start: Start, chain: Chain) -> Found | Idle | Trimmed:
        if chain.open_range:
            return still_there(self._kinesis, chain.open_range) or Found(chain.open_range, behind=True)
        retention_ms = self._draft.stream.retention_ms
        return find_range(self._kinesis, shard, start, chain.caught_up_at_ms, retention_ms, self._limits)

    def _policy(self, under_way: bool) -> StartPolicy:
        """`start:` of the configuration for the first listing; shards seen later are read from their beginning."""
        if under_way:
            return "beginning"
        if not isinstance(self._start, AtTimestamp):
            return self._start
        if self._start.at_ms // 1000 > self._draft.planned_at_ms // 1000:  # the service's clock shows whole seconds
            raise ConfigError(
                f"pipeline {self._draft.pipeline}: start.at_timestamp lies in the future",
                expected=f"not after {_utc(self._draft.planned_at_ms)}, the service's time",
                found=_utc(self._start.at_ms),
                todo="Set a time that has come, or start: latest",
            )
        return self._start.at_ms

    def _open(self, shards: list[Shard], policy: StartPolicy) -> dict[str, Opening]:
        """Where the chains of new shards begin; a shard that has left the stream meanwhile is none."""
        now_ms, retention_ms = self._draft.planned_at_ms, self._draft.stream.retention_ms

        def opening(shard: Shard) -> Opening | None:
            try:
                return resolve(self._kinesis, shard, policy, now_ms, retention_ms)
            except ShardGoneError:
                return None

        found = zip(shards, _side_by_side(opening, shards), strict=True)
        return {shard.shard_id: opening for shard, opening in found if opening}


def _unfinished(shards: dict[str, Shard], chains: dict[str, Chain]) -> list[tuple[Shard, Chain]]:
    """The shards to look at, with their chains: those not at their end, parents before children."""
    finished = {shard_id for shard_id, chain in chains.items() if chain.position is SHARD_END}
    may_be_read = {shard.shard_id for shard in readable(shards, finished)}
    return [
        (shard, chains[shard_id])
        for shard_id, shard in sorted(shards.items())
        if shard_id in chains and shard_id not in finished and (shard_id in may_be_read or shard.expired)
    ]


def _side_by_side(look: Callable[[T], R], items: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return list(pool.map(look, items))


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="seconds")
