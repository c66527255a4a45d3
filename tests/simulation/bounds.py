"""What a backfill has to read: the records between its bounds, worked out from the producers' log alone."""

from __future__ import annotations

from shardlake.backfill import Backfill, Bound
from shardlake.kinesis.start import HORIZON_MARGIN_MS as MARGIN_MS
from shardlake.ranges import SequenceNumber
from simulation.losses import end_of
from simulation.producer import Put
from simulation.tasks import Task
from simulation.world import World


def check_bounds(world: World, task: Task, backfill: Backfill) -> None:
    """The stretches of the backfill that a process has just opened are as long as was asked for."""
    now_ms = world.clock.now_ms()
    spans = {each.shard_id: range(int(each.start.key) + 1, end_of(each.through) + 1) for each in backfill.stretches}
    begin, end = backfill.request.begin, backfill.request.end
    for put in world.producer.log:
        inside = put.number in spans.get(put.shard_id, ())
        asked = put.shard_id in (backfill.request.shards or (put.shard_id,))
        within = asked and not _is_before(put, begin) and not _is_behind(put, end)
        lasting = put.number not in world.producer.gone_at_ms and (
            put.arrival_ms > now_ms - world.producer.retention_ms + MARGIN_MS
        )
        assert within or not inside, f"{put} is read, and is not between the bounds {backfill.request}"
        sure = within and lasting and put.arrival_ms < task.began_ms
        assert inside or not sure, f"{put} is not read, and is between the bounds {backfill.request}"


def _is_before(put: Put, begin: Bound) -> bool:
    if isinstance(begin, SequenceNumber):
        return bool(put.number < int(begin))
    return begin is not None and bool(put.arrival_ms < begin)


def _is_behind(put: Put, end: Bound) -> bool:
    if isinstance(end, SequenceNumber):
        return bool(put.number > int(end))
    return end is not None and bool(put.arrival_ms >= end)
