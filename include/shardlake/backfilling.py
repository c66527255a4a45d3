"""Opening a backfill, and looking at its stretches: what planning does otherwise for one than for the live pipeline."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from shardlake.backfill import Backfill, Bound, Request
from shardlake.config import Pipeline
from shardlake.errors import ConfigError, DataLossError, IngestError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import ShardGoneError
from shardlake.kinesis.start import HORIZON_MARGIN_MS
from shardlake.kinesis.stretch import find_stretch
from shardlake.kinesis.through import Limits, Trimmed
from shardlake.lake.home import Home
from shardlake.ledger import Chain, Ledger
from shardlake.look import Look, Looker, Survey, side_by_side
from shardlake.plan import BatchPlan, Stream
from shardlake.ranges import SequenceRange, ShardEnd, Through
from shardlake.shards import Shard


def resolve(request: Request, kinesis: Kinesis, stream: Stream, now_ms: int, known: dict[str, Shard]) -> Backfill:
    """The records that a request means, as they are now. Nothing is written.

    Args:
        now_ms: the service's time, milliseconds since the epoch.
        known: the shards that the pipeline has ever seen.

    Raises:
        ConfigError: a bound lies in the future, or names no record; a shard is not known; nothing lies between.
        DataLossError: the beginning is no longer retained, and the request does not do with what is left.
    """
    begin = _retained(request, stream, now_ms)
    _refuse_future("to", request.to, request.end, now_ms)
    shards = _shards(request, kinesis, known)

    def find(shard: Shard) -> SequenceRange | None:
        try:
            return find_stretch(kinesis, shard, begin, request.end, now_ms, stream.retention_ms)
        except ShardGoneError:  # since it was listed
            if not request.retained_only and begin is not None:
                raise
            return None
        except DataLossError:
            if not request.retained_only:
                raise
            return find_stretch(kinesis, shard, None, request.end, now_ms, stream.retention_ms)

    stretches = tuple(stretch for stretch in side_by_side(find, shards) if stretch)
    if not stretches:
        raise ConfigError(
            f"stream {stream.name} has no records between the bounds of the backfill",
            found=request,
            todo="Widen them",
        )
    return Backfill(request, stretches)


def _retained(request: Request, stream: Stream, now_ms: int) -> Bound:
    """Where to begin, so that the first record is still there when it is read."""
    begin = request.begin
    _refuse_future("from", request.from_, begin, now_ms)
    if not isinstance(begin, int):
        return begin
    lasting_from_ms = now_ms - stream.retention_ms + HORIZON_MARGIN_MS
    if max(begin, stream.created_at_ms) >= lasting_from_ms:
        return begin
    if request.retained_only:
        return None
    raise DataLossError(
        f"records of stream {stream.name} from the backfill's beginning are no longer retained, or will be gone"
        " before they are read",
        expected=f"a beginning not before {_utc(lasting_from_ms)}",
        found=request.from_,
        todo="Begin later, or ask for what is left (retained only)",
    )


def _refuse_future(name: str, text: str | None, bound: Bound, now_ms: int) -> None:
    if isinstance(bound, int) and bound // 1000 > now_ms // 1000:  # the service's clock shows whole seconds
        raise ConfigError(
            f"the backfill's {name} lies in the future",
            expected=f"not after {_utc(now_ms)}, the service's time",
            found=text,
        )


def _shards(request: Request, kinesis: Kinesis, known: dict[str, Shard]) -> list[Shard]:
    listed = {shard.shard_id: shard for shard in kinesis.list_shards()}
    for shard_id in request.shards:
        if shard_id not in listed and shard_id in known:
            raise DataLossError(f"{shard_id} has left the stream: its records are no longer retained")
        if shard_id not in listed:
            raise ConfigError(f"the stream has no shard {shard_id}", found=", ".join(sorted(listed))[:500])
    return [listed[shard_id] for shard_id in request.shards or sorted(listed)]


class BackfillLooker(Looker):
    """Looks at the stretches of an open backfill; what lies behind them does not count.

    Args:
        draft: the batch to be; its namespace is the backfill's.

    Raises:
        ConfigError: the ledger has no such backfill.
    """

    def __init__(self, pipeline: Pipeline, ledger: Ledger, kinesis: Kinesis, home: Home, draft: BatchPlan) -> None:
        super().__init__(pipeline, kinesis, home, draft)
        self._chains = ledger.chains(draft.pipeline, draft.namespace)
        self._stretches = {each.shard_id: each for each in opened(ledger, draft.pipeline, draft.namespace).stretches}

    def survey(self) -> Survey:
        """Look at the stretches that are not read to their end; parents do not hold back children."""
        listed = {shard.shard_id: shard for shard in self._kinesis.list_shards()}
        shards = [(listed.get(id_) or _unlisted(id_), self._chains[id_]) for id_ in sorted(self._stretches)]
        return Survey(None, False, {}, side_by_side(lambda it: self.look(*it), shards))

    def look(self, shard: Shard, chain: Chain) -> Look:
        """The next range of a stretch, cut at the stretch's end."""
        stretch = self._stretches[shard.shard_id]
        if chain.position.key >= stretch.through.key:
            return Look(shard, chain)
        look = super().look(shard, chain)
        if look == Look(shard, chain):  # the service has no such shard any more
            return replace(look, trimmed=Trimmed(oldest=None, at_end=True))
        if look.trimmed or look.error:
            return look
        if look.range and look.range.through.key < stretch.through.key:
            return replace(look, behind=True)
        if look.range is None or (look.range.anchor or look.range.through).key > stretch.through.key:
            return Look(shard, chain, error=_not_there(stretch))
        return replace(look, range=replace(look.range, through=stretch.through), behind=False)

    def _limits_of(self, shard_id: str) -> Limits:
        return replace(self._limits, end=self._stretches[shard_id].through)

    def lost(self, look: Look, trimmed: Trimmed) -> SequenceRange | None:
        """The stretch to record as lost, at most up to the backfill's end."""
        end: Through = self._stretches[look.shard.shard_id].through
        lost = super().lost(look, trimmed)
        if lost is None and not isinstance(look.chain.position, ShardEnd):
            return SequenceRange(look.shard.shard_id, look.chain.position, end, anchor=look.chain.position.number)
        return replace(lost, through=min(lost.through, end, key=lambda through: through.key)) if lost else None


def opened(ledger: Ledger, pipeline: str, namespace: str) -> Backfill:
    """An open backfill.

    Raises:
        ConfigError: the ledger has no such backfill.
    """
    text = ledger.backfill(pipeline, namespace)
    if text is None:
        raise ConfigError(
            f"pipeline {pipeline} has no backfill {namespace[:140]}",
            found=", ".join([*ledger.backfills(pipeline)][-8:]) or "none at all",
        )
    return Backfill.from_text(text)


def _unlisted(shard_id: str) -> Shard:
    """A shard that the listing leaves out: reading from it will tell whether it is gone."""
    return Shard(shard_id, (), "0", "0", starting_sequence_number="0", ending_sequence_number="0")


def _not_there(stretch: SequenceRange) -> IngestError:
    return IngestError(
        f"the stream does not give the records of {stretch} out that were seen when the backfill was opened",
        todo="Run the step again; if this comes back, open another backfill",
    )


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="seconds")
