"""What planning sees: every shard, where its chain stands or would begin, and the range that could come next.

Nothing is written here, so whatever is wrong with stream, access or configuration shows before anything is recorded.
"""

from __future__ import annotations

from datetime import UTC, datetime

from shardlake.config import AtTimestamp, Pipeline
from shardlake.errors import ConfigError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import ShardGoneError
from shardlake.kinesis.start import Opening, StartPolicy, resolve
from shardlake.lake.home import Home
from shardlake.ledger import Chain, Ledger
from shardlake.ledger.chain import merge_listing
from shardlake.look import Looker, Survey, side_by_side
from shardlake.plan import BatchPlan
from shardlake.ranges import SHARD_END
from shardlake.shards import Shard, readable


class Surveyor(Looker):
    """Surveys the whole stream for the live pipeline."""

    def __init__(self, pipeline: Pipeline, ledger: Ledger, kinesis: Kinesis, home: Home, draft: BatchPlan) -> None:
        super().__init__(pipeline, kinesis, home, draft)
        self._ledger, self._start = ledger, pipeline.start

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
        return Survey(listed, openings, side_by_side(lambda it: self.look(*it), _unfinished(shards, chains)))

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

        found = zip(shards, side_by_side(opening, shards), strict=True)
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


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="seconds")
