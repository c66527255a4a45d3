"""Where the chain of a shard begins: `start:` of the configuration resolved to a number, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shardlake.kinesis.client import MAX_PAGE_RECORDS, Kinesis, Page
from shardlake.kinesis.pages import first_page, pages
from shardlake.ranges import SHARD_END, Position, SequenceNumber, Start
from shardlake.shards import Shard

FIRST_LOOK_BACK_MS = 2_000

StartPolicy = Literal["trim_horizon", "latest"] | int
"""`start:` of the configuration; an integer is an arrival time in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The start of a chain; `caught_up`: nothing was there behind it when it was looked for."""

    position: Position
    caught_up: bool


def resolve(kinesis: Kinesis, shard: Shard, policy: StartPolicy, now_ms: int, retention_ms: int) -> Opening:
    """The chain start of a shard under a policy.

    `trim_horizon`: AT the oldest record retained. A time: AT the first record that arrived then or later. `latest`,
    and a time after which nothing arrived: AFTER the newest record, the end of a closed shard. A shard without any
    record: AT its StartingSequenceNumber.

    Args:
        now_ms: the service's time, milliseconds since the epoch.

    Raises:
        InvalidPositionError: the policy's time lies in the service's future.
    """
    empty = Opening(Start("AT", SequenceNumber(shard.starting_sequence_number)), caught_up=True)
    if policy == "trim_horizon":
        page = first_page(kinesis, kinesis.iterator_at_horizon(shard.shard_id), limit=1)
        return Opening(Start("AT", page.number(0)), caught_up=False) if len(page) else empty
    if policy != "latest":
        first = _first_arrival(kinesis, shard.shard_id, policy)
        if first:
            return Opening(Start("AT", first), caught_up=False)
    if shard.closed:
        return Opening(SHARD_END, caught_up=False)
    newest = newest_page(kinesis, shard.shard_id, now_ms, not_before_ms=now_ms - retention_ms, to_the_tip=True)
    return Opening(Start("AFTER", newest.number(-1)), caught_up=True) if newest else empty


def _first_arrival(kinesis: Kinesis, shard_id: str, at_ms: int) -> SequenceNumber | None:
    """The first record that arrived at `at_ms` or later. botocore sends whole seconds, so earlier ones may come too."""
    for page in pages(kinesis, kinesis.iterator_from_time(shard_id, at_ms), MAX_PAGE_RECORDS):
        for row, arrival_ms in enumerate(page.arrivals_ms):
            if arrival_ms >= at_ms:
                return page.number(row)
    return None


def newest_page(
    kinesis: Kinesis, shard_id: str, now_ms: int, not_before_ms: int, *, to_the_tip: bool = False
) -> Page | None:
    """A page with records near the tip of an open shard, looked for back from now in growing steps.

    Args:
        now_ms: the service's time, milliseconds since the epoch.
        not_before_ms: records that arrived earlier are not looked for.
        to_the_tip: follow the pages until nothing is behind the last record; else one page will do.

    Returns:
        The last page that has records; None where nothing arrived since `not_before_ms`.
    """
    look_back_ms = FIRST_LOOK_BACK_MS
    while True:
        from_ms = max(now_ms - look_back_ms, not_before_ms)
        newest = None
        for page in pages(kinesis, kinesis.iterator_from_time(shard_id, from_ms), MAX_PAGE_RECORDS):
            newest = page if len(page) else newest
            if newest and not to_the_tip:
                break
        if newest or from_ms == not_before_ms:
            return newest
        look_back_ms *= 4
