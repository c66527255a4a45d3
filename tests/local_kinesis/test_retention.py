"""Retention and trims: what is gone, and both ways of answering a read at a trimmed position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local_kinesis.process import LocalKinesisError, running

if TYPE_CHECKING:
    from tests.local_kinesis.conftest import StreamUnderTest

DAY_S = 86_400
NEAR_RETENTION_MS = DAY_S * 1000 - 1


def test_records_are_gone_when_their_retention_has_passed(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    stream.server.control({"advance_clock_s": DAY_S - 10})
    stream.put(b"1")
    assert stream.read() == [b"0", b"1"]
    stream.server.control({"advance_clock_s": 20})
    assert stream.read() == [b"1"]


def test_records_expire_under_a_reader_s_iterator(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    stream.server.control({"advance_clock_s": DAY_S - 10})
    stream.put(b"1")
    iterator = stream.iterator()
    stream.server.control({"advance_clock_s": 20})
    assert [record["Data"] for record in stream.page(iterator)["Records"]] == [b"1"]


def test_a_longer_retention_keeps_records_longer_but_brings_none_back(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    stream.server.control({"advance_clock_s": DAY_S + 1})
    stream.put(b"1")
    stream.client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=48)
    assert stream.read() == [b"1"]
    stream.server.control({"advance_clock_s": DAY_S + 1})
    assert stream.read() == [b"1"]
    stream.client.decrease_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=24)
    assert stream.read() == []


def test_a_trim_drops_the_records_before_a_number(stream: StreamUnderTest) -> None:
    numbers = stream.numbers(b"0", b"1", b"2")
    stream.trim(before=numbers[1])
    assert stream.read() == [b"1", b"2"]
    stream.trim(before=str(int(numbers[1]) + 1))
    assert stream.read() == [b"2"]


def test_a_trim_of_all_drops_every_record(stream: StreamUnderTest) -> None:
    stream.put(b"0", b"1")
    stream.trim(all=True)
    iterator = stream.iterator()
    assert stream.page(iterator)["MillisBehindLatest"] == 0
    stream.put(b"2")
    assert [record["Data"] for record in stream.page(iterator)["Records"]] == [b"2"]


def test_a_trim_of_all_takes_a_closed_shard_off_the_listing(stream: StreamUnderTest) -> None:
    (number,) = stream.numbers(b"0")
    iterator = stream.iterator()
    stream.split(0, 100)
    stream.trim(before=str(int(number) + 1))
    assert stream.ids() == [0, 1, 2]
    stream.trim(all=True)
    assert stream.ids() == [1, 2]
    page = stream.page(iterator)
    assert (page["Records"], [child["ShardId"][-1] for child in page["ChildShards"]]) == ([], ["1", "2"])


@pytest.mark.parametrize(
    "trim",
    [
        {"shard": "shardId-000000000001", "all": True},
        {"shard": "shardId-000000000000"},
        {"shard": "shardId-000000000000", "all": False},
        {"shard": "shardId-000000000000", "all": True, "before": "1"},
        {"shard": "shardId-000000000000", "before": 1},
        {"shard": "shardId-000000000000", "before": "1"},
        {"shard": "shardId-000000000000", "all": True, "region": "eu-west-1"},
    ],
)
def test_a_trim_that_makes_no_sense_is_refused(stream: StreamUnderTest, trim: dict[str, object]) -> None:
    stream.put(b"0")
    with pytest.raises(LocalKinesisError, match=r"does not exist|a trim is either|did not come from|must be in one"):
        stream.server.control({"trim": {"stream": stream.name, **trim}})
    assert stream.read() == [b"0"]


def test_a_trim_names_the_region_where_two_have_the_stream(stream: StreamUnderTest) -> None:
    elsewhere = stream.server.client("eu-west-1")
    elsewhere.create_stream(StreamName=stream.name, ShardCount=1)
    stream.put(b"0")
    with pytest.raises(LocalKinesisError, match=r"must be in one region .*: found eu-west-1, us-east-1"):
        stream.trim(all=True)
    stream.trim(all=True, region="us-east-1")
    elsewhere.delete_stream(StreamName=stream.name)
    assert stream.read() == []


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_resume_reads_on_silently_at_the_oldest_record_left(stream: StreamUnderTest, kind: str) -> None:
    numbers = stream.numbers(b"0", b"1", b"2", b"3")
    stream.trim(before=numbers[2])
    for number in numbers[:2]:
        page = stream.page(stream.iterator(kind, StartingSequenceNumber=number))
        assert [record["Data"] for record in page["Records"]] == [b"2", b"3"]


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_empty_pages_come_before_the_oldest_record_left(kind: str) -> None:
    with running("--retention-behaviour", "empty-pages", "--trimmed-pages", "3", "--stream", "s:1") as server:
        client = server.client()
        records = [{"PartitionKey": "k", "Data": b"x"}] * 4
        places = client.put_records(StreamName="s", Records=records)["Records"]
        numbers = [place["SequenceNumber"] for place in places]
        shard_id = "shardId-000000000000"
        server.control({"trim": {"stream": "s", "shard": shard_id, "before": numbers[2]}})
        for number in numbers[:2]:
            iterator = client.get_shard_iterator(
                StreamName="s", ShardId=shard_id, ShardIteratorType=kind, StartingSequenceNumber=number
            )["ShardIterator"]
            seen = []
            for _ in range(5):
                page = client.get_records(ShardIterator=iterator)
                iterator = page["NextShardIterator"]
                seen.append((len(page["Records"]), page["MillisBehindLatest"]))
            assert seen == [(0, NEAR_RETENTION_MS)] * 3 + [(2, 0), (0, 0)]


def test_empty_pages_come_where_nothing_is_left_too(stream: StreamUnderTest) -> None:
    (number,) = stream.numbers(b"0")
    stream.trim(all=True)
    stream.server.control({"retention_behaviour": "empty-pages"})
    page = stream.page(stream.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number))
    assert (page["Records"], page["MillisBehindLatest"]) == ([], NEAR_RETENTION_MS)


def test_a_chain_whose_position_is_trimmed_meanwhile_gets_empty_pages(stream: StreamUnderTest) -> None:
    numbers = stream.numbers(b"0", b"1", b"2")
    page = stream.page(stream.iterator(), Limit=1)
    stream.server.control({"retention_behaviour": "empty-pages"})
    stream.trim(before=numbers[2])
    page = stream.page(page["NextShardIterator"])
    assert (page["Records"], page["MillisBehindLatest"]) == ([], NEAR_RETENTION_MS)
    stream.server.control({"retention_behaviour": "resume"})
    page = stream.page(page["NextShardIterator"])
    assert [record["Data"] for record in page["Records"]] == [b"2"]


def test_other_positions_get_no_empty_pages(stream: StreamUnderTest) -> None:
    numbers = stream.numbers(b"0", b"1", b"2")
    stream.trim(before=numbers[1])
    stream.server.control({"retention_behaviour": "empty-pages"})
    assert stream.read("TRIM_HORIZON") == [b"1", b"2"]
    assert stream.read("AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [b"1", b"2"]
    assert stream.read("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [b"2"]
