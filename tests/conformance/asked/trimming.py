"""The retention: what is gone, and what a reader sees of it."""

from __future__ import annotations

from typing import Any

from tests.conformance.behaviour import behaviour, reply
from tests.conformance.stream import Stream

HOUR_S = 3600


@behaviour("Records are accessible for the retention, and then are gone.", answer=[b"1"], a_day=True)
def records_expire(stream: Stream) -> Any:
    stream.put(b"0")
    stream.server.advance(25 * HOUR_S)
    stream.put(b"1")
    return stream.read(records=1)


@behaviour("A longer retention keeps what has not yet expired.", answer=[b"0", b"1"], a_day=True)
def a_longer_retention_keeps_records(stream: Stream) -> Any:
    stream.client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=48)
    stream.wait_until_active()
    stream.put(b"0")
    stream.server.advance(25 * HOUR_S)
    stream.put(b"1")
    return stream.read(records=2)


@behaviour(
    "Not documented: a read at or after a number that is gone is answered without an error and goes on with the oldest "
    "record left.",
    answer={"AT_SEQUENCE_NUMBER": [b"1"], "AFTER_SEQUENCE_NUMBER": [b"1"]},
    a_day=True,
)
def reading_goes_on_behind_what_is_gone(stream: Stream) -> Any:
    (number,) = stream.put(b"0")
    stream.server.advance(25 * HOUR_S)
    stream.put(b"1")
    return {
        kind: reply(lambda kind=kind: stream.read(kind, StartingSequenceNumber=number, records=1))  # type: ignore[misc]
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
    }


@behaviour(
    "ListShards leaves out expired shards: closed ones whose records are all past the retention.",
    answer=[1, 2],
    opens=2,
    a_day=True,
)
def a_closed_shard_leaves_the_listing(stream: Stream) -> Any:
    stream.put(b"0")
    stream.split()
    stream.server.advance(25 * HOUR_S)
    return stream.ids()
