"""GetShardIterator: where each of the five kinds of iterators stands."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.conformance.behaviour import behaviour, refused, verdict
from tests.conformance.stream import Stream, number_of, shard_id


@behaviour("TRIM_HORIZON is the oldest record of the shard.", answer=[b"0", b"1", b"2"])
def trim_horizon_is_the_oldest_record(stream: Stream) -> Any:
    stream.put(b"0", b"1", b"2")
    return stream.read("TRIM_HORIZON", records=3)


@behaviour("AT_SEQUENCE_NUMBER reads from the record of a sequence number on.", answer=[b"1", b"2"])
def at_a_number_begins_with_its_record(stream: Stream) -> Any:
    numbers = stream.put(b"0", b"1", b"2")
    return stream.read("AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1], records=2)


@behaviour("AFTER_SEQUENCE_NUMBER reads right after the record of a sequence number.", answer=[b"2"])
def after_a_number_begins_behind_its_record(stream: Stream) -> Any:
    numbers = stream.put(b"0", b"1", b"2")
    return stream.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1], records=1)


@behaviour("AFTER_SEQUENCE_NUMBER of the newest record waits for the next.", answer=[b"1"])
def after_the_newest_number_comes_what_is_put_later(stream: Stream) -> Any:
    (number,) = stream.put(b"0")
    stream.read(records=1)
    iterator = stream.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number)
    stream.put(b"1")
    return stream.read_on(iterator, 1)


@behaviour(
    "LATEST is just after the newest record: it reads what is put later, in the first reply and after it.",
    answer=[b"1", b"2"],
)
def latest_is_behind_the_newest_record(stream: Stream) -> Any:
    stream.put(b"0")
    stream.read(records=1)
    iterator = stream.iterator("LATEST")
    stream.put(b"1")
    page = stream.page(iterator)
    stream.put(b"2")
    found = [record["Data"] for record in page["Records"]]
    return found + stream.read_on(page["NextShardIterator"], 2 - len(found))


@behaviour(
    "The sequence numbers that DescribeStream and ListShards give are positions too: at a shard's "
    "StartingSequenceNumber reading begins with the shard's first record.",
    answer={"AT": [b"0", b"1"], "empty shard": [b"2"]},
    shards=2,
)
def at_the_shard_s_start_is_its_first_record(stream: Stream) -> Any:
    def start(shard: int) -> dict[str, Any]:
        number = stream.shard(shard)["SequenceNumberRange"]["StartingSequenceNumber"]
        return {"kind": "AT_SEQUENCE_NUMBER", "shard": shard, "StartingSequenceNumber": number}

    stream.put(b"0", b"1")
    empty = stream.iterator(**start(1))
    stream.put(b"2", hash_key=2**127)
    return {"AT": stream.read(**start(0), records=2), "empty shard": stream.read_on(empty, 1)}


@behaviour(
    "Not documented, and relied on by nobody here: a sequence number between two records' is taken for a position, and "
    "reading goes on with the later one. (What the local Kinesis does.)",
    answer={"AT": [b"1"], "AFTER": [b"1"]},
)
def between_two_numbers_is_a_position(stream: Stream) -> Any:
    number = str(int(stream.put(b"0", b"1")[0]) + 1)

    def read(kind: str) -> Any:
        found = []
        verdict_of_read = verdict(lambda: found.extend(stream.read(kind, StartingSequenceNumber=number, records=1)))
        return found if verdict_of_read == "accepted" else verdict_of_read

    return {"AT": read("AT_SEQUENCE_NUMBER"), "AFTER": read("AFTER_SEQUENCE_NUMBER")}


@behaviour("AT_TIMESTAMP is the first record that arrived then or later.", answer=[b"1", b"2"])
def at_a_time_begins_with_the_next_record(stream: Stream) -> Any:
    stream.put(b"0")
    # boto3 sends whole seconds: the next one that begins after the first record's arrival.
    next_second = stream.arrival().replace(microsecond=0) + timedelta(seconds=1)
    time.sleep(1.1)
    stream.put(b"1", b"2")
    return stream.read("AT_TIMESTAMP", Timestamp=next_second, records=2)


@behaviour("AT_TIMESTAMP before the trim horizon is the oldest record.", answer=[b"0", b"1"])
def at_a_time_before_the_horizon_is_the_oldest_record(stream: Stream) -> Any:
    stream.put(b"0", b"1")
    return stream.read("AT_TIMESTAMP", Timestamp=datetime.now(UTC) - timedelta(days=2), records=2)


@behaviour(
    "AT_TIMESTAMP behind the newest record, and not in the future, reads what is put later.",
    answer=[b"1"],
)
def at_a_time_behind_the_newest_record_comes_what_is_put_later(stream: Stream) -> Any:
    stream.put(b"0")
    next_second = stream.arrival().replace(microsecond=0) + timedelta(seconds=1)
    time.sleep(1.1)
    iterator = stream.iterator("AT_TIMESTAMP", Timestamp=next_second)
    stream.put(b"1")
    return stream.read_on(iterator, 1)


@behaviour("AT_TIMESTAMP on a shard without records reads what is put later.", answer=[b"0"])
def at_a_time_on_an_empty_shard_comes_what_is_put_later(stream: Stream) -> Any:
    iterator = stream.iterator("AT_TIMESTAMP", Timestamp=datetime.now(UTC) - timedelta(hours=1))
    stream.put(b"0")
    return stream.read_on(iterator, 1)


@behaviour("AT_TIMESTAMP in the future is an InvalidArgumentException.", answer="InvalidArgumentException")
def at_a_time_in_the_future_is_refused(stream: Stream) -> Any:
    return verdict(lambda: stream.iterator("AT_TIMESTAMP", Timestamp=datetime.now(UTC) + timedelta(hours=1)))


@behaviour(
    "A number is needed by AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER, a time by AT_TIMESTAMP: "
    "InvalidArgumentException.",
    answer=dict.fromkeys(("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "AT_TIMESTAMP"), "InvalidArgumentException"),
)
def a_position_s_argument_is_needed(stream: Stream) -> Any:
    kinds = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "AT_TIMESTAMP")
    return {kind: verdict(lambda kind=kind: stream.iterator(kind)) for kind in kinds}  # type: ignore[misc]


@behaviour(
    "StartingSequenceNumber belongs to AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER; beside TRIM_HORIZON or LATEST it "
    "is an InvalidArgumentException (by the service's error message, not its reference).",
    answer=dict.fromkeys(("TRIM_HORIZON", "LATEST"), "InvalidArgumentException"),
)
def a_number_beside_another_kind_is_refused(stream: Stream) -> Any:
    (number,) = stream.put(b"0")
    kinds = ("TRIM_HORIZON", "LATEST")
    return {kind: verdict(lambda kind=kind: stream.iterator(kind, StartingSequenceNumber=number)) for kind in kinds}  # type: ignore[misc]


@behaviour(
    "A sequence number is decimal without sign or leading zeros, of at most 129 digits: ValidationException.",
    answer=["ValidationException"] * 4,
)
def a_number_has_a_form(stream: Stream) -> Any:
    numbers = ("none", "-1", "01", "1" * 130)
    return [
        verdict(lambda each=each: stream.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=each))  # type: ignore[misc]
        for each in numbers
    ]


@behaviour(
    "A sequence number of another shard is an InvalidArgumentException.", answer="InvalidArgumentException", shards=2
)
def another_shard_s_number_is_refused(stream: Stream) -> Any:
    (number,) = stream.put(b"0")
    return verdict(lambda: stream.iterator("AFTER_SEQUENCE_NUMBER", 1, StartingSequenceNumber=number))


@behaviour(
    "A kind that there is not is a ValidationException, as is a shard id of other characters; a shard that does not "
    "exist is a ResourceNotFoundException.",
    answer={
        "kind": "ValidationException",
        "shard id": "ValidationException",
        "missing shard": "ResourceNotFoundException",
        "no shard's name": "ResourceNotFoundException",
    },
)
def a_position_is_of_a_shard_and_a_kind(stream: Stream) -> Any:
    def get(shard: str, kind: str) -> str:
        place = {"StreamName": stream.name, "ShardId": shard, "ShardIteratorType": kind}
        return verdict(lambda: stream.client.get_shard_iterator(**place))

    return {
        "kind": get(shard_id(0), "OLDEST"),
        "shard id": get("shard 0", "LATEST"),
        "missing shard": get(shard_id(7), "LATEST"),
        "no shard's name": get("first", "LATEST"),
    }


@behaviour(
    "On a closed shard TRIM_HORIZON and AFTER_SEQUENCE_NUMBER read what is left to its end; LATEST ends at once, with "
    "the children.",
    answer={"TRIM_HORIZON": [b"0", b"1"], "AFTER": [b"1"], "LATEST": ([], [1, 2])},
    opens=2,
)
def a_closed_shard_has_positions_too(stream: Stream) -> Any:
    numbers = stream.put(b"0", b"1")
    stream.split()
    stream.put(b"2")

    def end() -> tuple[list[bytes], list[int]]:
        *_, last = pages = list(stream.pages(stream.iterator("LATEST"), 1))
        data = [record["Data"] for page in pages for record in page["Records"]]
        return data, sorted(number_of(child["ShardId"]) for child in last.get("ChildShards", []))

    return {
        "TRIM_HORIZON": stream.read(records=3),
        "AFTER": stream.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[0], records=2),
        "LATEST": end(),
    }


@behaviour("An iterator that GetShardIterator never gave is refused.", answer=[True, True])
def a_made_up_iterator_is_refused(stream: Stream) -> Any:
    return [refused(lambda each=each: stream.page(each)) for each in ("bm9uZQ==", "x" * 513)]  # type: ignore[misc]


@behaviour(
    "An iterator lives 5 minutes; after that it is answered with ExpiredIteratorException.",
    answer={"after 4 min": "accepted", "after 6 min": "ExpiredIteratorException"},
)
def an_iterator_expires(stream: Stream) -> Any:
    iterator = stream.iterator()
    stream.server.advance(240)
    early = verdict(lambda: stream.page(iterator))
    stream.server.advance(120)
    return {"after 4 min": early, "after 6 min": verdict(lambda: stream.page(iterator))}
