"""Where the chain of a shard begins: resolved to a number once, when the shard is first seen."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Literal

from shardlake.caught_up import CaughtUp
from shardlake.errors import ConfigError, DataLossError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import InvalidPositionError
from shardlake.kinesis.newest import LOOK_RECORDS, newest_record
from shardlake.kinesis.pages import first_page, page_at, pages
from shardlake.ranges import SHARD_END, Position, SequenceNumber, Start
from shardlake.shards import Shard

HORIZON_MARGIN_MS = 600_000
"""Records this close to the end of their retention are gone before Spark reads them."""

StartPolicy = Literal["beginning", "trim_horizon", "latest"] | int | Start
"""A start of the configuration, an integer being an arrival time in milliseconds since the epoch. Or, for shards that
are first seen when the pipeline is under way, `beginning`."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The start of a chain.

    Attributes:
        caught_up: the note that nothing was there behind it when it was looked for.
    """

    position: Position
    caught_up: CaughtUp | None = None


def resolve(kinesis: Kinesis, shard: Shard, policy: StartPolicy, now_ms: int, retention_ms: int) -> Opening:
    """The chain start of a shard under a policy.

    `beginning`: AT the oldest record. `trim_horizon`: AT the oldest record that lasts long enough to be read. A time:
    AT the first record that arrived then or after. `latest`, and a time after which nothing arrived: AFTER the newest
    record; the end of a closed shard. A shard without any record: AT its StartingSequenceNumber. A position: that
    position.

    Args:
        now_ms: the service's time, milliseconds since the epoch.

    Raises:
        ConfigError: the number of a position is none of the shard's records.
    """
    match policy:
        case "beginning":
            first = _oldest(kinesis, shard.shard_id)
        case Start():
            with contextlib.suppress(DataLossError):  # told by planning, like every loss behind a position
                check_record(kinesis, shard.shard_id, policy.number)
            return Opening(policy)
        case "trim_horizon":
            first = oldest_lasting(kinesis, shard.shard_id, retention_ms)
        case "latest":
            return _behind_newest(kinesis, shard, now_ms, retention_ms)
        case at_ms:
            first = first_arrival(kinesis, shard.shard_id, at_ms)
            if first is None:
                opening = _behind_newest(kinesis, shard, now_ms, retention_ms)
                first = first_arrival(kinesis, shard.shard_id, at_ms)  # again: one may have come between the looks
                if first is None:
                    return opening
    return Opening(Start("AT", first)) if first else _at_empty(shard, now_ms, retention_ms)


def opening_unseen(shard: Shard) -> Opening:
    """The start of a shard the beginning of which is gone: AFTER its first number, where planning finds a loss."""
    return Opening(Start("AFTER", SequenceNumber(shard.starting_sequence_number)))


def if_unseen(shard: Shard, opening: Opening) -> Opening:
    """The start of a shard that was there, unseen, for longer than its records are retained.

    Args:
        opening: its `beginning`, which counts only if that is the shard's very first number.
    """
    very_first = Opening(Start("AT", SequenceNumber(shard.starting_sequence_number)))
    return opening if opening == very_first else opening_unseen(shard)


def check_record(kinesis: Kinesis, shard_id: str, number: SequenceNumber) -> None:
    """Check that a number is that of a retained record of the shard.

    Raises:
        ConfigError: it is none of the shard's records.
        DataLossError: it is no longer retained, if it ever was there.
    """
    try:
        found = page_at(kinesis, shard_id, number, limit=1).first
    except InvalidPositionError as exc:
        raise _no_such_record(shard_id, number, exc.what) from exc
    if found == number:
        return
    oldest = _oldest(kinesis, shard_id)
    if oldest is None or oldest > number:
        raise DataLossError(
            f"record {number} of {shard_id} is no longer retained, if it ever was there",
            found=f"{oldest} as the oldest record left" if oldest else "no record left",
            todo="Begin with a record that is retained",
        )
    raise _no_such_record(shard_id, number, f"{found} behind it" if found else "nothing behind it")


def _no_such_record(shard_id: str, number: SequenceNumber, found: str) -> ConfigError:
    return ConfigError(f"{shard_id} has no record {number}", found=found, todo="Name a record, or give a time")


def _oldest(kinesis: Kinesis, shard_id: str) -> SequenceNumber | None:
    return first_page(kinesis, kinesis.iterator_at_horizon(shard_id), limit=1).first


def oldest_lasting(kinesis: Kinesis, shard_id: str, retention_ms: int) -> SequenceNumber | None:
    """The oldest record that will be retained for a while, else the oldest; None where the shard retains none.

    A range that begins at the very horizon of a busy shard could never be read: by then its first record is gone.
    """
    page = first_page(kinesis, kinesis.iterator_at_horizon(shard_id), limit=1)
    if page.first is None:
        return None
    lasting_from_ms = page.service_time_ms - retention_ms + HORIZON_MARGIN_MS
    if page.arrivals_ms[0] >= lasting_from_ms:
        return page.first
    lasting = first_page(kinesis, kinesis.iterator_from_time(shard_id, lasting_from_ms), limit=1).first
    return max(page.first, lasting or page.first)


def first_arrival(kinesis: Kinesis, shard_id: str, at_ms: int) -> SequenceNumber | None:
    """The first record that arrived at `at_ms` or later. An iterator has whole seconds, so earlier ones come too."""
    for page in pages(kinesis, kinesis.iterator_from_time(shard_id, at_ms), LOOK_RECORDS):
        for row, arrival_ms in enumerate(page.arrivals_ms):
            if arrival_ms >= at_ms:
                return page.number(row)
    return None


def _behind_newest(kinesis: Kinesis, shard: Shard, now_ms: int, retention_ms: int) -> Opening:
    if shard.closed:
        return Opening(SHARD_END)
    newest = newest_record(kinesis, shard.shard_id, now_ms, now_ms - retention_ms)
    if newest is None:
        return _at_empty(shard, now_ms, retention_ms)
    return _caught_up(Start("AFTER", newest), now_ms, retention_ms)


def _at_empty(shard: Shard, now_ms: int, retention_ms: int) -> Opening:
    return _caught_up(Start("AT", SequenceNumber(shard.starting_sequence_number)), now_ms, retention_ms)


def _caught_up(start: Start, now_ms: int, retention_ms: int) -> Opening:
    return Opening(start, CaughtUp(start.key, now_ms, retention_ms))
