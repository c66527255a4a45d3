"""PutRecord and PutRecords: routing, limits, sequence numbers."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.local_kinesis.conftest import StreamUnderTest, Wire

MIB = 2**20
HALF = 2**127


def test_a_record_is_read_as_it_was_put(stream: StreamUnderTest) -> None:
    data = bytes(range(256))
    place = stream.client.put_record(StreamName=stream.name, PartitionKey='né"\\\n🙂', Data=data)
    (record,) = stream.page(stream.iterator())["Records"]
    arrived = record.pop("ApproximateArrivalTimestamp")
    assert arrived.microsecond % 1000 == 0
    assert place["ShardId"] == "shardId-000000000000"
    assert record == {"SequenceNumber": place["SequenceNumber"], "Data": data, "PartitionKey": 'né"\\\n🙂'}


def test_a_record_may_be_empty(stream: StreamUnderTest) -> None:
    stream.put(b"")
    assert stream.read() == [b""]


@pytest.mark.parametrize(
    ("key", "shard"),
    # md5("a") = 0cc1…, md5("b") = 92eb…, md5("c") = 4a8a…, md5("e") = e167…
    [("a", 0), ("b", 2), ("c", 1), ("e", 3)],
)
def test_the_md5_of_the_partition_key_is_the_hash_key(
    make_stream: Callable[..., StreamUnderTest], key: str, shard: int
) -> None:
    stream = make_stream(4)
    place = stream.client.put_record(StreamName=stream.name, PartitionKey=key, Data=b"x")
    assert place["ShardId"] == f"shardId-{shard:012d}"


@pytest.mark.parametrize(("hash_key", "shard"), [(0, 0), (HALF - 1, 0), (HALF, 1), (2**128 - 1, 1)])
def test_an_explicit_hash_key_counts_before_the_partition_key(
    make_stream: Callable[..., StreamUnderTest], hash_key: int, shard: int
) -> None:
    assert make_stream(2).put(b"x", hash_key=hash_key)[0]["ShardId"] == f"shardId-{shard:012d}"


def test_sequence_numbers_have_56_digits_and_grow_by_uneven_steps(stream: StreamUnderTest) -> None:
    numbers = stream.numbers(*[b"x"] * 500)
    integers = [int(number) for number in numbers]
    steps = {after - before for before, after in itertools.pairwise(integers)}
    assert {len(number) for number in numbers} == {56}
    assert min(steps) >= 1
    assert max(steps) > 1_000_000 * min(steps)
    assert int(stream.shards()[0]["SequenceNumberRange"]["StartingSequenceNumber"]) < integers[0]


def test_sequence_numbers_are_unique_in_a_stream(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    places = stream.numbers(*[b"x"] * 500) + stream.numbers(*[b"x"] * 500, hash_key=HALF)
    assert len(set(places)) == 1000


def test_no_acknowledged_record_is_lost_when_many_put_at_once(stream: StreamUnderTest) -> None:
    def put(producer: int) -> list[str]:
        return [number for i in range(20) for number in stream.numbers(*[f"{producer}-{i}".encode()] * 50)]

    with ThreadPoolExecutor(4) as producers:
        acknowledged = [number for numbers in producers.map(put, range(4)) for number in numbers]
    stored = [record["SequenceNumber"] for record in stream.page(stream.iterator())["Records"]]
    assert stored == sorted(acknowledged, key=int)
    assert len(set(stored)) == 4000


def test_a_call_holds_500_records(stream: StreamUnderTest) -> None:
    assert len(stream.put(*[b"x"] * 500)) == 500
    with pytest.raises(stream.client.exceptions.ClientError, match="length less than or equal to 500"):
        stream.put(*[b"x"] * 501)
    assert len(stream.read()) == 500


def test_a_call_without_records_is_refused(stream: StreamUnderTest, wire: Wire) -> None:
    status, _, reply = wire.call("PutRecords", {"StreamName": stream.name, "Records": []})
    assert (status, reply["__type"]) == (400, "ValidationException")
    assert "length greater than or equal to 1" in reply["message"]


def test_a_record_and_its_key_hold_one_mebibyte(stream: StreamUnderTest) -> None:
    stream.put(bytes(MIB - 1))
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="A record of 1048577 bytes"):
        stream.put(bytes(MIB))
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="A record of 1048577 bytes"):
        stream.client.put_record(StreamName=stream.name, PartitionKey="k", Data=bytes(MIB))
    assert [len(data) for data in stream.read()] == [MIB - 1]


def test_a_call_holds_ten_mebibytes(stream: StreamUnderTest) -> None:
    stream.put(*[bytes(MIB - 1)] * 10)
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="Records size exceeds 10 MB limit"):
        stream.put(*[bytes(MIB - 1)] * 10, b"")
    assert len(stream.read()) == 10


def test_a_raised_maximum_allows_records_of_ten_mebibytes(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(1, MaxRecordSizeInKiB=10240)
    stream.put(bytes(10 * MIB - 1))
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="larger than the stream's 10485760"):
        stream.put(bytes(10 * MIB))
    arn = f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream.name}"
    stream.client.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=1024)
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="larger than the stream's 1048576"):
        stream.put(bytes(MIB))
    assert [len(data) for data in stream.read()] == [10 * MIB - 1]


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ({"PartitionKey": "k", "Data": "eA"}, "SerializationException"),
        ({"PartitionKey": "k", "Data": 'e"=='}, "SerializationException"),
        ({"PartitionKey": "k", "Data": "eA==\n"}, "SerializationException"),
        ({"PartitionKey": "k", "Data": "é"}, "SerializationException"),
        ({"PartitionKey": "\ud800", "Data": "eA=="}, "SerializationException"),
        ({"PartitionKey": "k"}, "ValidationException"),
        ({"Data": "eA=="}, "ValidationException"),
        ({"PartitionKey": "k", "Data": 1}, "SerializationException"),
        ({"PartitionKey": "", "Data": "eA=="}, "ValidationException"),
        ({"PartitionKey": "k" * 257, "Data": "eA=="}, "ValidationException"),
        ({"PartitionKey": "k", "Data": "eA==", "ExplicitHashKey": "01"}, "ValidationException"),
        ({"PartitionKey": "k", "Data": "eA==", "ExplicitHashKey": "-1"}, "ValidationException"),
        ({"PartitionKey": "k", "Data": "eA==", "ExplicitHashKey": 1}, "SerializationException"),
        ({"PartitionKey": "k", "Data": "eA==", "ExplicitHashKey": str(2**128)}, "InvalidArgumentException"),
    ],
)
def test_one_bad_record_refuses_the_whole_call(
    stream: StreamUnderTest, wire: Wire, record: dict[str, Any], kind: str
) -> None:
    good = {"PartitionKey": "k", "Data": base64.b64encode(b"x").decode()}
    replies = [
        wire.call("PutRecords", {"StreamName": stream.name, "Records": [good, record]}),
        wire.call("PutRecord", {"StreamName": stream.name, **record}),
    ]
    assert [(status, reply["__type"]) for status, _, reply in replies] == [(400, kind)] * 2
    assert stream.read() == []


def test_a_partition_key_holds_256_characters(stream: StreamUnderTest) -> None:
    stream.client.put_record(StreamName=stream.name, PartitionKey="é" * 256, Data=b"x")
    assert stream.page(stream.iterator())["Records"][0]["PartitionKey"] == "é" * 256


def test_refused_records_are_marked_and_the_others_put(stream: StreamUnderTest) -> None:
    stream.server.control({"fail_put_records": 2})
    reply = stream.client.put_records(
        StreamName=stream.name, Records=[{"PartitionKey": "k", "Data": str(i).encode()} for i in range(6)]
    )
    codes = [result.get("ErrorCode") for result in reply["Records"]]
    messages = {result["ErrorMessage"] for result in reply["Records"] if "ErrorMessage" in result}
    assert messages == {
        f"Rate exceeded for shard shardId-000000000000 in stream {stream.name} under account 000000000000."
    }
    throttled = "ProvisionedThroughputExceededException"
    assert (reply["FailedRecordCount"], codes) == (2, [throttled, None, throttled, None, None, None])
    assert stream.read() == [b"1", b"3", b"4", b"5"]
