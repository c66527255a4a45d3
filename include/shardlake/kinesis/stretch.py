"""The stretch of a shard between two bounds, resolved to the first and the last record in it, both seen."""

from __future__ import annotations

from shardlake.backfill import Bound
from shardlake.errors import DataLossError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.newest import newest_record
from shardlake.kinesis.start import check_record, first_arrival, oldest_lasting
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start, Through
from shardlake.shards import Shard


def find_stretch(
    kinesis: Kinesis, shard: Shard, begin: Bound, end: Bound, now_ms: int, retention_ms: int
) -> SequenceRange | None:
    """A shard's records between two bounds; None where there are none.

    Args:
        begin: this record, or the first that arrived at this time or later, or the oldest that lasts long enough to
            be read.
        end: through this record, or through the last before the first that arrived at this time or later, or through
            the newest, of a closed shard through its end.
        now_ms: the service's time, milliseconds since the epoch.

    Raises:
        ConfigError: a sequence number is none of the shard's records.
        DataLossError: the record that a sequence number names is no longer retained, or will not be when it is read.
    """
    first = _first(kinesis, shard, begin, retention_ms)
    if first is None:
        return None
    through = _through(kinesis, shard, end, now_ms, retention_ms)
    if through is None or through.key < first.key:
        return None
    return SequenceRange(shard.shard_id, Start("AT", first), through, anchor=first)


def _first(kinesis: Kinesis, shard: Shard, begin: Bound, retention_ms: int) -> SequenceNumber | None:
    match begin:
        case None:
            return oldest_lasting(kinesis, shard.shard_id, retention_ms)
        case SequenceNumber():
            check_record(kinesis, shard.shard_id, begin)
            lasting = oldest_lasting(kinesis, shard.shard_id, retention_ms)
            if lasting and begin < lasting:
                raise DataLossError(
                    f"record {begin} of {shard.shard_id} will no longer be retained when it is read",
                    todo=f"Begin with {lasting} or later, or ask for what is left (retained only)",
                )
            return begin
        case at_ms:
            return first_arrival(kinesis, shard.shard_id, at_ms)


def _through(kinesis: Kinesis, shard: Shard, end: Bound, now_ms: int, retention_ms: int) -> Through | None:
    if isinstance(end, SequenceNumber):
        check_record(kinesis, shard.shard_id, end)
        return end
    horizon_ms = now_ms - retention_ms
    behind = None if end is None else first_arrival(kinesis, shard.shard_id, end)
    newest = None if behind else _newest(kinesis, shard, now_ms, horizon_ms)
    if end is not None and behind is None:
        behind = first_arrival(kinesis, shard.shard_id, end)  # again: one may have come between the looks
    if end is None or behind is None:
        return newest
    return newest_record(kinesis, shard.shard_id, end, horizon_ms, behind)


def _newest(kinesis: Kinesis, shard: Shard, now_ms: int, horizon_ms: int) -> Through | None:
    return SHARD_END if shard.closed else newest_record(kinesis, shard.shard_id, now_ms, horizon_ms)
