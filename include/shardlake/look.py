"""Looking at one shard: where its chain stands, and the range that could come next, or what is lost of it."""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from shardlake.caught_up import CaughtUp
from shardlake.config import Pipeline
from shardlake.errors import IngestError
from shardlake.kinesis.client import CONNECTIONS, Kinesis
from shardlake.kinesis.failures import ShardGoneError
from shardlake.kinesis.start import Opening, oldest_lasting
from shardlake.kinesis.through import Found, Limits, Trimmed, find_range, still_there
from shardlake.lake.home import Home
from shardlake.ledger import Chain
from shardlake.losses import lost_range
from shardlake.names import FileKey
from shardlake.plan import BatchPlan
from shardlake.ranges import SHARD_END, SequenceRange, ShardEnd, Start
from shardlake.shards import Shard

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Look:
    """What looking at one shard found.

    Attributes:
        range: the range to pin.
        behind: another plan should follow soon.
        caught_up: the note that nothing was found after the position.
        trimmed: the range cannot be read: its beginning is gone.
        error: the service did not let us find out; the other shards go on.
    """

    shard: Shard
    chain: Chain
    range: SequenceRange | None = None
    behind: bool = False
    caught_up: CaughtUp | None = None
    trimmed: Trimmed | None = None
    error: IngestError | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What one look over all shards found.

    Attributes:
        listed: the complete listing, if it is to be recorded.
        first: the listing is the first one, as far as the ledger told.
        openings: where the chains of shards begin that have none yet, by shard id.
        looks: one per shard that may be read, parents before children.
    """

    listed: list[Shard] | None
    first: bool
    openings: dict[str, Opening]
    looks: list[Look]


class Looker(ABC):
    """Looks at the shards of a pipeline's stream. Nothing is written here.

    Args:
        draft: the batch to be, with the stream and the service's time.
    """

    def __init__(self, pipeline: Pipeline, kinesis: Kinesis, home: Home, draft: BatchPlan) -> None:
        self._kinesis, self._home, self._draft = kinesis, home, draft
        self._limits = Limits(int(pipeline.max_window.total_seconds() * 1000), int(pipeline.max_range_bytes))

    @abstractmethod
    def survey(self) -> Survey:
        """Look at every shard that may be read, side by side."""

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
            found = self._find(shard, position, chain)
        except ShardGoneError:
            if not shard.expired:
                return Look(shard, chain)  # the next listings will tell
            found = Trimmed(oldest=None, at_end=True)
        except IngestError as exc:
            log.warning("%s is left out of this batch: %s", shard.shard_id, exc)
            return Look(shard, chain, error=exc)
        match found:
            case Found(range_, behind):
                return Look(shard, chain, range_, behind or range_.through is SHARD_END)
            case CaughtUp():
                return Look(shard, chain, caught_up=found)
            case Trimmed():
                return Look(shard, chain, trimmed=found)

    def _find(self, shard: Shard, start: Start, chain: Chain) -> Found | CaughtUp | Trimmed:
        if chain.open_range:
            return still_there(self._kinesis, chain.open_range) or Found(chain.open_range, behind=True)
        retention_ms, limits = self._draft.stream.retention_ms, self._limits_of(shard.shard_id)
        return find_range(self._kinesis, shard, start, chain.caught_up, retention_ms, limits)

    def _limits_of(self, shard_id: str) -> Limits:
        """How far the next range of a shard may reach."""
        return self._limits

    def lost(self, look: Look, trimmed: Trimmed) -> SequenceRange | None:
        """The stretch to record as lost, up to a record that will not be gone before it is read.

        Without that margin no shard could ever be caught up with.

        Returns:
            None where nothing is left and the shard is open: its next record will show where the loss ends.
        """
        if trimmed.oldest is not None:
            with contextlib.suppress(ShardGoneError):
                retention_ms = self._draft.stream.retention_ms
                lasting = oldest_lasting(self._kinesis, look.shard.shard_id, retention_ms)
                trimmed = replace(trimmed, oldest=max(trimmed.oldest, lasting or trimmed.oldest))
        return lost_range(look.chain, trimmed)


def side_by_side(look: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What a call gives for each item, in their order; as many calls at once as the service's client makes."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return list(pool.map(look, items))
