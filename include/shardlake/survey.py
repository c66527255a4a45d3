"""What planning sees: every shard, where its chain stands or would begin, and the range that could come next.

Nothing is written here, so whatever is wrong with stream, access or configuration shows before anything is recorded.
"""

from __future__ import annotations

from shardlake.config import Pipeline
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import ShardGoneError
from shardlake.kinesis.start import Opening, StartPolicy, if_unseen, opening_unseen, resolve
from shardlake.lake.home import Home
from shardlake.ledger import Chain, Ledger
from shardlake.ledger.chain import merge_listing
from shardlake.look import Looker, Survey, side_by_side
from shardlake.plan import BatchPlan
from shardlake.ranges import SHARD_END
from shardlake.shards import Shard, readable
from shardlake.starts import first_policies


class Surveyor(Looker):
    """Surveys the whole stream for the live pipeline."""

    def __init__(self, pipeline: Pipeline, ledger: Ledger, kinesis: Kinesis, home: Home, draft: BatchPlan) -> None:
        super().__init__(pipeline, kinesis, home, draft)
        self._pipeline, self._ledger = pipeline, ledger

    def survey(self) -> Survey:
        """List the shards, find where new ones begin, and look at those that may be read.

        Raises:
            ConfigError: the configured starts are not of this stream, or the stream does not let itself be read.
        """
        known = self._ledger.shards(self._draft.pipeline)
        chains = self._ledger.chains(self._draft.pipeline, self._draft.namespace)
        listed = self._kinesis.list_shards()
        new = [shard for shard in listed if shard.shard_id not in chains]
        first = not known
        if first:
            openings = self._open(new, first_policies(self._pipeline, listed, self._draft.planned_at_ms))
        else:
            openings = self._open_under_way(new)
        listed = [shard for shard in listed if shard.shard_id in chains or shard.shard_id in openings]
        chains |= {
            shard_id: Chain(shard_id, opening.position, None, opening.caught_up)
            for shard_id, opening in openings.items()
        }
        shards = known | merge_listing(known, listed)
        looks = side_by_side(lambda it: self.look(*it), _unfinished(shards, chains))
        return Survey(listed, first, openings, looks)

    def _open_under_way(self, new: list[Shard]) -> dict[str, Opening]:
        """Shards that are first seen when the pipeline is under way are read from their beginning.

        Of one that was open at the horizon already, the beginning may be gone: nobody has listed the stream since. One
        that is listed there together with its parent was not (kinesis-local lists every shard). The horizon is asked
        for last: a beginning that was gone when it was looked for is behind it then.
        """
        openings = self._open(new, {shard.shard_id: "beginning" for shard in new})
        born = {shard.shard_id: shard for shard in new if shard.parents}
        then = {shard.shard_id: shard.parents for shard in self._kinesis.shards_at_horizon()} if born else {}
        unseen = {shard_id for shard_id, parents in then.items() if parents and not then.keys() & set(parents)}
        return openings | {id_: if_unseen(born[id_], openings[id_]) for id_ in unseen & born.keys()}

    def _open(self, shards: list[Shard], policies: dict[str, StartPolicy]) -> dict[str, Opening]:
        """Where the chains of new shards begin.

        A shard that has left the stream since it was listed has none, unless its beginning was to be read.
        """
        now_ms, retention_ms = self._draft.planned_at_ms, self._draft.stream.retention_ms

        def opening(shard: Shard) -> Opening | None:
            policy = policies[shard.shard_id]
            try:
                return resolve(self._kinesis, shard, policy, now_ms, retention_ms)
            except ShardGoneError:
                return opening_unseen(shard) if policy == "beginning" else None

        found = zip(shards, side_by_side(opening, shards), strict=True)
        return {shard.shard_id: opening for shard, opening in found if opening}


def _unfinished(shards: dict[str, Shard], chains: dict[str, Chain]) -> list[tuple[Shard, Chain]]:
    """The shards to look at, with their chains: those not at their end, parents before children."""
    finished = {shard_id for shard_id, chain in chains.items() if chain.position is SHARD_END}
    return [(shard, chains[shard.shard_id]) for shard in readable(shards, finished) if shard.shard_id in chains]
