"""Streams: made, described, listed, recreated, deleted; by name and by ARN; each in its region."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.local_kinesis.conftest import StreamUnderTest, Wire

    from local_kinesis.process import LocalKinesis


def test_a_summary_describes_the_stream(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(3)
    summary = stream.client.describe_stream_summary(StreamName=stream.name)["StreamDescriptionSummary"]
    created = summary.pop("StreamCreationTimestamp")
    assert created.timestamp() > 1_700_000_000
    assert summary == {
        "StreamName": stream.name,
        "StreamARN": f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream.name}",
        "StreamStatus": "ACTIVE",
        "StreamModeDetails": {"StreamMode": "PROVISIONED"},
        "RetentionPeriodHours": 24,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "NONE",
        "OpenShardCount": 3,
        "ConsumerCount": 0,
        "MaxRecordSizeInKiB": 1024,
    }


def test_a_description_pages_through_the_shards(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(5)
    first = stream.client.describe_stream(StreamName=stream.name, Limit=3)["StreamDescription"]
    rest = stream.client.describe_stream(StreamName=stream.name, ExclusiveStartShardId=first["Shards"][-1]["ShardId"])
    assert first["HasMoreShards"] is True
    assert rest["StreamDescription"]["HasMoreShards"] is False
    assert first["Shards"] + rest["StreamDescription"]["Shards"] == stream.shards()


def test_boto3_pages_through_a_description(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(250)
    pages = stream.client.get_paginator("describe_stream").paginate(StreamName=stream.name)
    assert [len(page["StreamDescription"]["Shards"]) for page in pages] == [100, 100, 50]


def test_a_page_has_at_most_100_shards_or_streams_whatever_is_asked_for(
    make_stream: Callable[..., StreamUnderTest],
) -> None:
    stream = make_stream(101)
    description = stream.client.describe_stream(StreamName=stream.name, Limit=10_000)["StreamDescription"]
    assert (len(description["Shards"]), description["HasMoreShards"]) == (100, True)
    for _ in range(100):
        make_stream()
    listing = stream.client.list_streams(Limit=10_000)
    assert (len(listing["StreamNames"]), listing["HasMoreStreams"]) == (100, True)


def test_equal_shards_cover_the_hash_keys(make_stream: Callable[..., StreamUnderTest]) -> None:
    ranges = [shard["HashKeyRange"] for shard in make_stream(3).shards()]
    assert ranges == [
        {"StartingHashKey": "0", "EndingHashKey": "113427455640312821154458202477256070484"},
        {
            "StartingHashKey": "113427455640312821154458202477256070485",
            "EndingHashKey": "226854911280625642308916404954512140969",
        },
        {
            "StartingHashKey": "226854911280625642308916404954512140970",
            "EndingHashKey": "340282366920938463463374607431768211455",
        },
    ]


def test_an_on_demand_stream_begins_with_four_shards(client: Any) -> None:
    client.create_stream(StreamName="on-demand", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    summary = client.describe_stream_summary(StreamName="on-demand")["StreamDescriptionSummary"]
    limits = client.describe_limits()
    client.delete_stream(StreamName="on-demand")
    assert (summary["OpenShardCount"], summary["StreamModeDetails"]) == (4, {"StreamMode": "ON_DEMAND"})
    assert (limits["OpenShardCount"], limits["OnDemandStreamCount"]) == (4, 1)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"StreamName": "s"}, "InvalidArgumentException", "ShardCount must be given"),
        ({"StreamName": "s", "ShardCount": 0}, "ValidationException", "greater than or equal to 1"),
        ({"StreamName": "s", "ShardCount": 200_000}, "LimitExceededException", "100000 shards"),
        ({"ShardCount": 1}, "ValidationException", "Value null at 'streamName'"),
        ({"StreamName": "", "ShardCount": 1}, "ValidationException", "regular expression"),
        (
            {"StreamName": "s", "ShardCount": 1, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}},
            "InvalidArgumentException",
            "must not be given",
        ),
        ({"StreamName": "s", "StreamModeDetails": {"StreamMode": "X"}}, "ValidationException", "enum value set"),
        ({"StreamName": "s", "ShardCount": 1, "MaxRecordSizeInKiB": 1}, "ValidationException", "1024"),
    ],
)
def test_a_stream_with_bad_settings_is_not_made(wire: Wire, arguments: dict[str, Any], kind: str, message: str) -> None:
    status, _, reply = wire.call("CreateStream", arguments)
    assert (status, reply["__type"]) == (400, kind)
    assert message in reply["message"]


def test_a_name_is_taken_once(stream: StreamUnderTest) -> None:
    with pytest.raises(stream.client.exceptions.ResourceInUseException, match=f"{stream.name} .*already exists"):
        stream.client.create_stream(StreamName=stream.name, ShardCount=1)


def test_a_stream_made_again_has_another_creation_time_and_no_records(stream: StreamUnderTest) -> None:
    (number,) = stream.numbers(b"old")
    iterator = stream.iterator()
    created = [_created(stream)]
    for _ in range(3):
        stream.client.delete_stream(StreamName=stream.name)
        stream.client.create_stream(StreamName=stream.name, ShardCount=1)
        created.append(_created(stream))
    assert created == sorted(set(created))
    assert stream.read() == []
    assert int(stream.numbers(b"new")[0]) > int(number)
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException, match="has been deleted"):
        stream.page(iterator)


def test_a_deleted_stream_is_not_found(stream: StreamUnderTest) -> None:
    stream.client.delete_stream(StreamName=stream.name)
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException, match=stream.name):
        stream.shards()


def test_streams_are_listed_by_name_in_pages(make_stream: Callable[..., StreamUnderTest]) -> None:
    names = sorted(make_stream().name for _ in range(5))
    client = make_stream().client
    first = client.list_streams(Limit=2, ExclusiveStartStreamName=names[0])
    second = client.list_streams(Limit=2, NextToken=first["NextToken"])
    assert first["StreamNames"] + second["StreamNames"] == names[1:5]
    assert (first["HasMoreStreams"], first["StreamSummaries"][0]["StreamStatus"]) == (True, "ACTIVE")


def test_a_stream_belongs_to_the_region_it_was_made_in(server: LocalKinesis, stream: StreamUnderTest) -> None:
    stream.put(b"here")
    elsewhere = server.client("eu-west-1")
    missing = elsewhere.exceptions.ResourceNotFoundException
    assert stream.name not in elsewhere.list_streams()["StreamNames"]
    with pytest.raises(missing, match="not found"):
        elsewhere.describe_stream_summary(StreamName=stream.name)
    with pytest.raises(missing, match="not found"):
        elsewhere.get_records(ShardIterator=stream.iterator())
    with pytest.raises(missing, match="not found in region eu-west-1"):
        elsewhere.describe_stream_summary(StreamARN=_arn(stream))
    elsewhere.create_stream(StreamName=stream.name, ShardCount=2)
    assert elsewhere.describe_stream(StreamName=stream.name)["StreamDescription"]["StreamARN"] == _arn(stream).replace(
        "us-east-1", "eu-west-1"
    )
    with pytest.raises(missing, match="has been deleted"):
        elsewhere.get_records(ShardIterator=stream.iterator())
    elsewhere.delete_stream(StreamName=stream.name)
    assert stream.read() == [b"here"]


def test_every_operation_takes_the_arn(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    client, by_arn = stream.client, {"StreamARN": _arn(stream)}
    client.put_record(**by_arn, PartitionKey="k", ExplicitHashKey="0", Data=b"one")
    client.put_records(**by_arn, Records=[{"PartitionKey": "k", "ExplicitHashKey": "0", "Data": b"two"}])
    shard_id = client.list_shards(**by_arn)["Shards"][0]["ShardId"]
    iterator = client.get_shard_iterator(**by_arn, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    records = client.get_records(**by_arn, ShardIterator=iterator)["Records"]
    client.increase_stream_retention_period(**by_arn, RetentionPeriodHours=48)
    client.decrease_stream_retention_period(**by_arn, RetentionPeriodHours=24)
    client.merge_shards(**by_arn, ShardToMerge=shard_id, AdjacentShardToMerge="shardId-000000000001")
    client.split_shard(**by_arn, ShardToSplit="shardId-000000000002", NewStartingHashKey="7")
    client.update_shard_count(**by_arn, TargetShardCount=1, ScalingType="UNIFORM_SCALING")
    assert [record["Data"] for record in records] == [b"one", b"two"]
    assert client.describe_stream(**by_arn)["StreamDescription"]["StreamName"] == stream.name
    assert client.describe_stream_summary(**by_arn)["StreamDescriptionSummary"]["OpenShardCount"] == 1
    client.delete_stream(**by_arn)
    assert stream.name not in client.list_streams()["StreamNames"]


def test_a_name_and_an_arn_must_agree(stream: StreamUnderTest, wire: Wire) -> None:
    bad = {
        "other name": {"StreamName": "other", "StreamARN": _arn(stream)},
        "no ARN": {"StreamARN": "arn:aws:s3:::bucket"},
    }
    replies = {why: wire.call("DescribeStreamSummary", arguments)[2]["__type"] for why, arguments in bad.items()}
    assert replies == {"other name": "InvalidArgumentException", "no ARN": "InvalidArgumentException"}
    foreign = {"StreamARN": _arn(stream).replace("000000000000", "111111111111")}
    assert wire.call("DescribeStreamSummary", foreign)[2]["__type"] == "ResourceNotFoundException"


def test_the_retention_can_be_changed_within_its_bounds(stream: StreamUnderTest) -> None:
    client, invalid = stream.client, stream.client.exceptions.InvalidArgumentException
    client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=8760)
    with pytest.raises(invalid, match="between 24 and 8760 hours, not 8761"):
        client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=8761)
    with pytest.raises(invalid, match=r"shorter than existing retention period \(8760 hours\)"):
        client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=100)
    client.decrease_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=30)
    with pytest.raises(invalid, match=r"longer than existing retention period \(30 hours\)"):
        client.decrease_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=31)
    with pytest.raises(invalid, match="between 24 and 8760 hours, not 23"):
        client.decrease_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=23)
    assert client.describe_stream(StreamName=stream.name)["StreamDescription"]["RetentionPeriodHours"] == 30


def _arn(stream: StreamUnderTest) -> str:
    return f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream.name}"


def _created(stream: StreamUnderTest) -> float:
    summary = stream.client.describe_stream_summary(StreamName=stream.name)["StreamDescriptionSummary"]
    return float(summary["StreamCreationTimestamp"].timestamp())
