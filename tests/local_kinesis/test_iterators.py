"""GetShardIterator: where each type begins, and when an iterator is no longer good."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from local_kinesis.process import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.local_kinesis.conftest import StreamUnderTest, Wire


def test_trim_horizon_begins_at_the_oldest_record(stream: StreamUnderTest) -> None:
    stream.put(b"0", b"1")
    assert stream.read("TRIM_HORIZON") == [b"0", b"1"]


def test_latest_begins_behind_the_newest_record(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    iterator = stream.iterator("LATEST")
    stream.put(b"1")
    assert [record["Data"] for record in stream.page(iterator)["Records"]] == [b"1"]


def test_at_and_after_a_record(stream: StreamUnderTest) -> None:
    numbers = stream.numbers(b"0", b"1", b"2")
    assert stream.read("AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [b"1", b"2"]
    assert stream.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [b"2"]
    assert stream.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[2]) == []


def test_a_number_in_a_gap_means_the_next_record(stream: StreamUnderTest) -> None:
    data = [str(i).encode() for i in range(100)]
    numbers = [int(number) for number in stream.numbers(*data)]
    index = next(i for i in range(1, 100) if numbers[i] - numbers[i - 1] > 2)
    for number in (numbers[index] - 1, numbers[index - 1] + 1):
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
            assert stream.read(kind, StartingSequenceNumber=str(number)) == data[index:]


def test_the_shard_s_starting_number_means_its_first_record(stream: StreamUnderTest) -> None:
    start = stream.shards()[0]["SequenceNumberRange"]["StartingSequenceNumber"]
    stream.put(b"0")
    assert stream.read("AT_SEQUENCE_NUMBER", StartingSequenceNumber=start) == [b"0"]
    assert stream.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=start) == [b"0"]


def test_after_a_number_yet_to_come_waits_for_greater_ones(stream: StreamUnderTest) -> None:
    (number,) = stream.numbers(b"0")
    iterator = stream.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=str(int(number) + 10**15))
    stream.put(b"1")
    assert stream.page(iterator)["Records"] == []


def test_at_timestamp_includes_what_arrived_at_it(stream: StreamUnderTest, wire: Wire) -> None:
    arrivals = []
    for data in (b"0", b"1", b"2"):
        stream.server.control({"advance_clock_s": 0.002})
        stream.put(data)
        arrivals.append(_page(wire, stream, Type="TRIM_HORIZON")[-1]["ApproximateArrivalTimestamp"])
    assert sorted(set(arrivals)) == arrivals
    assert _times(_page(wire, stream, Type="AT_TIMESTAMP", Timestamp=arrivals[1])) == arrivals[1:]
    assert _times(_page(wire, stream, Type="AT_TIMESTAMP", Timestamp=arrivals[1] - 0.0005)) == arrivals[1:]
    assert _times(_page(wire, stream, Type="AT_TIMESTAMP", Timestamp=arrivals[1] + 0.0005)) == arrivals[2:]


def test_at_timestamp_between_the_newest_record_and_now_waits(stream: StreamUnderTest, wire: Wire) -> None:
    stream.put(b"0")
    (record,) = _page(wire, stream, Type="TRIM_HORIZON")
    stream.server.control({"advance_clock_s": 1})
    wanted = {"Type": "AT_TIMESTAMP", "Timestamp": record["ApproximateArrivalTimestamp"] + 0.5}
    iterator = _iterator(wire, stream, **wanted)
    assert wire.call("GetRecords", {"ShardIterator": iterator})[2]["Records"] == []
    stream.put(b"1")
    assert len(wire.call("GetRecords", {"ShardIterator": iterator})[2]["Records"]) == 1


def test_at_timestamp_before_the_horizon_means_the_horizon(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    assert stream.read("AT_TIMESTAMP", Timestamp=datetime(2014, 1, 1, tzinfo=UTC)) == [b"0"]


def test_at_timestamp_in_the_service_s_future_is_refused(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    date = stream.client.list_streams()["ResponseMetadata"]["HTTPHeaders"]["date"]
    service_now = datetime.strptime(date, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="cannot be greater than the current"):
        stream.iterator("AT_TIMESTAMP", Timestamp=service_now + timedelta(seconds=5))
    stream.server.control({"advance_clock_s": 10})
    assert stream.read("AT_TIMESTAMP", Timestamp=service_now + timedelta(seconds=5)) == []


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"ShardIteratorType": "AT_TIMESTAMP"}, "InvalidArgumentException"),
        ({"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": "now"}, "SerializationException"),
        ({"ShardIteratorType": "AT_SEQUENCE_NUMBER"}, "InvalidArgumentException"),
        ({"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "x"}, "ValidationException"),
        ({"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "0" * 56}, "ValidationException"),
        ({"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "5"}, "InvalidArgumentException"),
        (
            {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": "9" * 56},
            "InvalidArgumentException",
        ),
        ({"ShardIteratorType": "SOMEWHERE"}, "ValidationException"),
        ({}, "ValidationException"),
        ({"ShardIteratorType": "LATEST", "ShardId": "shardId-000000000001"}, "ResourceNotFoundException"),
        ({"ShardIteratorType": "LATEST", "ShardId": "shardId-0"}, "ResourceNotFoundException"),
        ({"ShardIteratorType": "LATEST", "ShardId": "000000000000"}, "ResourceNotFoundException"),
    ],
)
def test_a_position_that_makes_no_sense_is_refused(
    stream: StreamUnderTest, wire: Wire, arguments: dict[str, Any], kind: str
) -> None:
    call = {"StreamName": stream.name, "ShardId": "shardId-000000000000"} | arguments
    status, _, reply = wire.call("GetShardIterator", call)
    assert (status, reply["__type"]) == (400, kind)


def test_another_shard_s_number_is_refused(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    (number,) = stream.numbers(b"0", hash_key=0)
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="did not come from this shard"):
        stream.iterator("AT_SEQUENCE_NUMBER", shard=1, StartingSequenceNumber=number)


def test_a_number_beyond_a_closed_shard_s_end_is_refused(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    stream.split(0, 5)
    end = stream.shards()[0]["SequenceNumberRange"]["EndingSequenceNumber"]
    assert stream.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=end) == []
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="greater than the closed shard's"):
        stream.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=str(int(end) + 1))


def test_an_iterator_is_good_for_five_minutes(stream: StreamUnderTest) -> None:
    iterator = stream.iterator()
    stream.put(b"0")
    stream.server.control({"advance_clock_s": 290})
    following = stream.page(iterator)["NextShardIterator"]
    stream.server.control({"advance_clock_s": 20})
    with pytest.raises(stream.client.exceptions.ExpiredIteratorException, match="tolerated delay of 300000 millis"):
        stream.page(iterator)
    assert stream.page(following)["Records"] == []


def test_the_life_of_an_iterator_can_be_set() -> None:
    with running("--iterator-life-s", "2", "--stream", "s:1") as server:
        client = server.client()
        arguments = {"StreamName": "s", "ShardId": "shardId-000000000000", "ShardIteratorType": "LATEST"}
        iterator = client.get_shard_iterator(**arguments)["ShardIterator"]
        server.control({"advance_clock_s": 3})
        with pytest.raises(client.exceptions.ExpiredIteratorException, match="tolerated delay of 2000 milliseconds"):
            client.get_records(ShardIterator=iterator)


def test_an_iterator_can_be_read_again_with_the_same_reply(stream: StreamUnderTest) -> None:
    stream.put(b"0", b"1")
    iterator = stream.iterator()
    first, second = stream.page(iterator, Limit=1), stream.page(iterator, Limit=1)
    assert first["Records"] == second["Records"]


@pytest.mark.parametrize("token", ["x", "AAAA", "é", "W10=", ""])
def test_a_made_up_iterator_is_refused(wire: Wire, token: str) -> None:
    status, _, reply = wire.call("GetRecords", {"ShardIterator": token})
    assert (status, reply) == (400, {"__type": "InvalidArgumentException", "message": "Invalid ShardIterator."})


def test_a_changed_iterator_is_refused(stream: StreamUnderTest) -> None:
    iterator = stream.iterator()
    changed = iterator[:20] + ("A" if iterator[20] != "A" else "B") + iterator[21:]
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="Invalid ShardIterator"):
        stream.page(changed)


def test_a_listing_s_token_is_no_iterator(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    token = stream.client.list_shards(StreamName=stream.name, MaxResults=1)["NextToken"]
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="Invalid ShardIterator"):
        stream.page(token)


def _iterator(wire: Wire, stream: StreamUnderTest, **arguments: Any) -> str:
    kind = arguments.pop("Type")
    call = {"StreamName": stream.name, "ShardId": "shardId-000000000000", "ShardIteratorType": kind, **arguments}
    return str(wire.call("GetShardIterator", call)[2]["ShardIterator"])


def _page(wire: Wire, stream: StreamUnderTest, **arguments: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = wire.call("GetRecords", {"ShardIterator": _iterator(wire, stream, **arguments)})[2][
        "Records"
    ]
    return records


def _times(records: list[dict[str, Any]]) -> list[float]:
    return [record["ApproximateArrivalTimestamp"] for record in records]
