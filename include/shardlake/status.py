"""Where every shard stands: how far it is read, how far behind that is, and how long until records are lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from shardlake.caught_up import CaughtUp
from shardlake.errors import DataLossError
from shardlake.kinesis.client import CONNECTIONS, Kinesis
from shardlake.kinesis.page import Page
from shardlake.kinesis.pages import first_page, page_at
from shardlake.kinesis.through import is_trimmed
from shardlake.ledger import Chain, Ledger
from shardlake.names import LIVE
from shardlake.ranges import SHARD_END, Position, SequenceRange, ShardEnd, Start

State = Literal["finished", "idle", "behind", "trimmed", "new", "unknown"]
"""`finished`: committed to its end. `idle`: nothing unread. `behind`: something is. `trimmed`: the next record to read
may be gone. `new`: never planned, also because its parents come first. `unknown`: the stream was not asked."""


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """Where one shard stands.

    Attributes:
        position: up to where records are committed; None before the first plan.
        open_range: what is planned and not committed yet.
        lag_ms: how long ago the first unread record arrived, by the service's time; 0 where there is none.
        headroom_ms: how long until that record is trimmed; None where there is none.
    """

    shard_id: str
    state: State
    position: Position | None
    open_range: SequenceRange | None
    lag_ms: int | None = None
    headroom_ms: int | None = None


def recorded_status(ledger: Ledger, pipeline: str) -> list[ShardStatus]:
    """What the ledger alone knows, by shard id."""
    chains = ledger.chains(pipeline, LIVE)
    known = {shard_id: _recorded(chains.get(shard_id), shard_id) for shard_id in ledger.shards(pipeline)}
    return sorted(known.values(), key=lambda status: status.shard_id)


def current_status(ledger: Ledger, pipeline: str, kinesis: Kinesis) -> list[ShardStatus]:
    """What ledger and stream know, by shard id. At most two cheap calls a shard that is not finished, side by side.

    Raises:
        ConfigError, UnavailableError: from the service.
    """
    stream, _ = kinesis.describe()
    listed = {shard.shard_id for shard in kinesis.list_shards()}
    chains = ledger.chains(pipeline, LIVE)
    recorded = {status.shard_id: status for status in recorded_status(ledger, pipeline)}
    for shard_id in listed - recorded.keys():
        recorded[shard_id] = _recorded(None, shard_id)

    def look(status: ShardStatus) -> ShardStatus:
        chain = chains.get(status.shard_id)
        if chain is None or isinstance(chain.position, ShardEnd):
            return status
        if status.shard_id not in listed:
            return replace(status, state="trimmed", headroom_ms=0)
        return _looked_at(kinesis, status, chain.position, chain.caught_up, stream.retention_ms)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return list(pool.map(look, (recorded[shard_id] for shard_id in sorted(recorded))))


def _recorded(chain: Chain | None, shard_id: str) -> ShardStatus:
    if chain is None:
        return ShardStatus(shard_id, "new", None, None)
    state: State = "finished" if chain.position is SHARD_END else "unknown"
    return ShardStatus(shard_id, state, chain.position, chain.open_range)


def _looked_at(
    kinesis: Kinesis, status: ShardStatus, position: Start, caught_up: CaughtUp | None, retention_ms: int
) -> ShardStatus:
    trimmed = replace(status, state="trimmed", headroom_ms=0)
    try:
        page = page_at(kinesis, status.shard_id, position.number, limit=2)
    except DataLossError:
        return trimmed
    if is_trimmed(page, position, caught_up, retention_ms):
        return trimmed
    unread = _unread(kinesis, page, position)
    if not len(unread):
        return replace(status, state="behind" if unread.at_end else "idle", lag_ms=0)
    lag_ms = max(unread.service_time_ms - unread.arrivals_ms[0], 0)
    return replace(status, state="behind", lag_ms=lag_ms, headroom_ms=max(retention_ms - lag_ms, 0))


def _unread(kinesis: Kinesis, page: Page, position: Start) -> Page:
    """The page without the record that the position is behind, followed on if nothing else is in it."""
    if page.first is None or position != Start("AFTER", page.first):
        return page
    if len(page) == 1 and page.next_iterator and not page.at_tip:
        return first_page(kinesis, page.next_iterator, limit=1)
    return page.rows(1)
