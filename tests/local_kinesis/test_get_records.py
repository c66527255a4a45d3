"""GetRecords: page limits, lag, the end of a closed shard, short and empty pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.local_kinesis.conftest import StreamUnderTest, Wire

MIB = 2**20


def test_a_page_holds_the_records_asked_for(stream: StreamUnderTest) -> None:
    stream.put(*[str(i).encode() for i in range(5)])
    first = stream.page(stream.iterator(), Limit=2)
    second = stream.page(first["NextShardIterator"], Limit=2)
    third = stream.page(second["NextShardIterator"], Limit=2)
    pages = [[record["Data"] for record in page["Records"]] for page in (first, second, third)]
    assert pages == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


def test_a_page_holds_at_most_10_000_records(stream: StreamUnderTest) -> None:
    for _ in range(21):
        stream.put(*[b""] * 500)
    first = stream.page(stream.iterator())
    second = stream.page(first["NextShardIterator"])
    assert (len(first["Records"]), len(second["Records"])) == (10_000, 500)


@pytest.mark.parametrize("limit", [0, 10_001])
def test_a_limit_out_of_bounds_is_refused(stream: StreamUnderTest, wire: Wire, limit: int) -> None:
    status, _, reply = wire.call("GetRecords", {"ShardIterator": stream.iterator(), "Limit": limit})
    assert (status, reply["__type"]) == (400, "ValidationException")


def test_a_page_holds_at_most_10_mebibytes(stream: StreamUnderTest) -> None:
    # Ten records of 1 MiB, keys included, fill a page to the byte; the one-byte key of the next does not fit.
    for _ in range(2):
        stream.put(*[bytes(MIB - 1)] * 5)
    stream.put(b"")
    first = stream.page(stream.iterator())
    second = stream.page(first["NextShardIterator"])
    assert (len(first["Records"]), len(second["Records"])) == (10, 1)
    assert (first["MillisBehindLatest"] > 0, second["MillisBehindLatest"]) == (True, 0)


def test_the_page_limit_counts_from_the_position_also_after_a_trim(stream: StreamUnderTest) -> None:
    numbers = []
    for _ in range(3):
        numbers += stream.numbers(*[bytes(MIB - 1)] * 5)
    stream.trim(before=numbers[2])
    assert len(stream.page(stream.iterator())["Records"]) == 10
    from_sixth = stream.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[5])
    assert len(stream.page(from_sixth)["Records"]) == 10


def test_a_record_of_the_page_limit_s_size_comes_alone(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(1, MaxRecordSizeInKiB=10240)
    stream.put(b"before")
    stream.put(bytes(10 * MIB - 1))
    stream.put(b"after")
    iterator, sizes = stream.iterator(), []
    for _ in range(3):
        page = stream.page(iterator)
        iterator = page["NextShardIterator"]
        sizes.append([len(record["Data"]) for record in page["Records"]])
    assert sizes == [[6], [10 * MIB - 1], [5]]


def test_the_lag_is_the_age_of_the_next_record(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    stream.server.control({"advance_clock_s": 100})
    stream.put(b"1")
    stream.server.control({"advance_clock_s": 50})
    first = stream.page(stream.iterator(), Limit=1)
    second = stream.page(first["NextShardIterator"], Limit=1)
    assert 50_000 <= first["MillisBehindLatest"] < 60_000
    assert second["MillisBehindLatest"] == 0


def test_the_lag_is_never_zero_while_data_is_ahead(stream: StreamUnderTest) -> None:
    stream.put(b"0", b"1")
    assert stream.page(stream.iterator(), Limit=1)["MillisBehindLatest"] > 0


def test_an_open_shard_s_chain_goes_on_when_caught_up(stream: StreamUnderTest) -> None:
    page = stream.page(stream.iterator())
    for data in (b"0", b"1"):
        stream.put(data)
        page = stream.page(page["NextShardIterator"])
        assert [record["Data"] for record in page["Records"]] == [data]
    assert "ChildShards" not in page


def test_a_closed_shard_ends_with_its_last_records_and_names_its_children(stream: StreamUnderTest, wire: Wire) -> None:
    stream.put(b"0", b"1")
    stream.split(0, 1000)
    first = wire.call("GetRecords", {"ShardIterator": stream.iterator(), "Limit": 1})[2]
    last = wire.call("GetRecords", {"ShardIterator": first["NextShardIterator"], "Limit": 1})[2]
    assert "ChildShards" not in first
    assert [record["Data"] for record in last["Records"]] == ["MQ=="]
    assert (last["NextShardIterator"], last["MillisBehindLatest"]) == (None, 0)
    assert last["ChildShards"] == [
        {
            "ShardId": "shardId-000000000001",
            "ParentShards": ["shardId-000000000000"],
            "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "999"},
        },
        {
            "ShardId": "shardId-000000000002",
            "ParentShards": ["shardId-000000000000"],
            "HashKeyRange": {"StartingHashKey": "1000", "EndingHashKey": str(2**128 - 1)},
        },
    ]


def test_boto3_leaves_out_the_iterator_behind_a_closed_shard(stream: StreamUnderTest) -> None:
    stream.split(0, 1000)
    assert "NextShardIterator" not in stream.page(stream.iterator("LATEST"))


def test_a_shard_that_closes_while_it_is_read_is_read_to_its_end(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    page = stream.page(stream.iterator())
    stream.put(b"1")
    stream.split(0, 1000)
    page = stream.page(page["NextShardIterator"])
    assert [record["Data"] for record in page["Records"]] == [b"1"]
    assert "NextShardIterator" not in page


def test_a_merged_shard_names_both_parents(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    stream.merge(1, 0)
    (child,) = stream.page(stream.iterator(shard=1))["ChildShards"]
    assert child["ParentShards"] == ["shardId-000000000001", "shardId-000000000000"]


def test_a_page_limit_shortens_every_page(stream: StreamUnderTest) -> None:
    stream.put(*[b"x"] * 10)
    stream.server.control({"page_limit": 3})
    first = stream.page(stream.iterator(), Limit=5)
    assert len(first["Records"]) == 3
    assert len(stream.page(first["NextShardIterator"], Limit=2)["Records"]) == 2
    stream.server.control({"page_limit": None})
    assert len(stream.page(first["NextShardIterator"])["Records"]) == 7


def test_ordered_empty_pages_come_once_a_chain_while_data_is_ahead(stream: StreamUnderTest) -> None:
    old = stream.iterator()
    stream.put(b"0", b"1")
    stream.server.control({"empty_pages": 2})
    for iterator in (old, stream.iterator()):
        assert _sizes(stream, iterator, 5) == [0, 0, 2, 0, 0]
    stream.server.control({"empty_pages": 1})
    assert _sizes(stream, stream.iterator(), 3) == [0, 2, 0]
    page = stream.page(stream.page(stream.iterator())["NextShardIterator"], Limit=1)
    stream.server.control({"empty_pages": 1})
    assert _sizes(stream, page["NextShardIterator"], 3) == [0, 1, 0]
    assert stream.page(stream.iterator())["MillisBehindLatest"] > 0


def test_empty_pages_are_not_used_up_by_a_shard_without_data(stream: StreamUnderTest) -> None:
    stream.server.control({"empty_pages": 1})
    page = stream.page(stream.iterator())
    assert page["MillisBehindLatest"] == 0
    stream.put(b"0")
    assert _sizes(stream, page["NextShardIterator"], 2) == [0, 1]


def test_an_empty_page_does_not_end_a_closed_shard(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    stream.split(0, 1000)
    stream.server.control({"empty_pages": 1})
    first = stream.page(stream.iterator())
    assert (first["Records"], "ChildShards" in first) == ([], False)
    second = stream.page(first["NextShardIterator"])
    assert (len(second["Records"]), len(second["ChildShards"])) == (1, 2)


def _sizes(stream: StreamUnderTest, iterator: str, pages: int) -> list[int]:
    sizes = []
    for _ in range(pages):
        page = stream.page(iterator)
        iterator = page["NextShardIterator"]
        sizes.append(len(page["Records"]))
    return sizes
