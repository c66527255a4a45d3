"""Streams: made, described, listed, named by ARN, deleted."""

from __future__ import annotations

from typing import Any

from tests.conformance.behaviour import behaviour, refused, verdict
from tests.conformance.stream import Stream, shard_id


@behaviour(
    "CreateStream makes a provisioned stream of the shards asked for; it keeps records for 24 hours by default, "
    "and DescribeStreamSummary tells its status and how many shards are open.",
    answer={
        "StreamStatus": "ACTIVE",
        "RetentionPeriodHours": 24,
        "OpenShardCount": 3,
        "EncryptionType": "NONE",
        "StreamModeDetails": {"StreamMode": "PROVISIONED"},
        "ConsumerCount": 0,
    },
    shards=3,
)
def a_new_stream_is_described(stream: Stream) -> Any:
    members = (
        "StreamStatus",
        "RetentionPeriodHours",
        "OpenShardCount",
        "EncryptionType",
        "StreamModeDetails",
        "ConsumerCount",
    )
    summary = stream.summary()
    return {member: summary.get(member) for member in members}


@behaviour("A name is used once in an account and region: ResourceInUseException.", answer="ResourceInUseException")
def a_name_is_taken_once(stream: Stream) -> Any:
    return verdict(lambda: stream.client.create_stream(StreamName=stream.name, ShardCount=1))


@behaviour(
    "A stream's name is of letters, digits, '_', '.' and '-', and it has at least one shard; what breaks a "
    "constraint of the model is a ValidationException.",
    answer={"name": "ValidationException", "shards": "ValidationException"},
)
def a_stream_with_bad_settings_is_not_made(stream: Stream) -> Any:
    create = stream.client.create_stream
    return {
        "name": verdict(lambda: create(StreamName=f"{stream.name} !", ShardCount=1)),
        "shards": verdict(lambda: create(StreamName=f"{stream.name}-0", ShardCount=0)),
    }


@behaviour(
    "Whatever is asked of a stream that does not exist is answered with ResourceNotFoundException.",
    answer=dict.fromkeys(
        (
            "DescribeStreamSummary",
            "DescribeStream",
            "ListShards",
            "PutRecord",
            "PutRecords",
            "GetShardIterator",
            "SplitShard",
            "MergeShards",
            "DeleteStream",
            "IncreaseStreamRetentionPeriod",
        ),
        "ResourceNotFoundException",
    ),
)
def a_missing_stream_is_not_found(stream: Stream) -> Any:
    client, name = stream.client, {"StreamName": f"{stream.name}-missing"}
    record: dict[str, Any] = {"Data": b"", "PartitionKey": "k"}
    first = shard_id(0)
    calls = {
        "DescribeStreamSummary": lambda: client.describe_stream_summary(**name),
        "DescribeStream": lambda: client.describe_stream(**name),
        "ListShards": lambda: client.list_shards(**name),
        "PutRecord": lambda: client.put_record(**name, **record),
        "PutRecords": lambda: client.put_records(**name, Records=[record]),
        "GetShardIterator": lambda: client.get_shard_iterator(**name, ShardId=first, ShardIteratorType="TRIM_HORIZON"),
        "SplitShard": lambda: client.split_shard(**name, ShardToSplit=first, NewStartingHashKey=str(2**127)),
        "MergeShards": lambda: client.merge_shards(**name, ShardToMerge=first, AdjacentShardToMerge=shard_id(1)),
        "DeleteStream": lambda: client.delete_stream(**name),
        "IncreaseStreamRetentionPeriod": lambda: client.increase_stream_retention_period(
            **name, RetentionPeriodHours=48
        ),
    }
    return {operation: verdict(call) for operation, call in calls.items()}


@behaviour(
    "The operations on a stream take its ARN in place of its name; GetRecords takes it beside the iterator.",
    answer=dict.fromkeys(
        ("DescribeStreamSummary", "ListShards", "PutRecord", "PutRecords", "GetShardIterator", "GetRecords"),
        "accepted",
    ),
)
def a_stream_is_named_by_its_arn(stream: Stream) -> Any:
    client, arn = stream.client, {"StreamARN": stream.summary()["StreamARN"]}
    record: dict[str, Any] = {"Data": b"", "PartitionKey": "k"}
    iterator = stream.iterator()
    calls = {
        "DescribeStreamSummary": lambda: client.describe_stream_summary(**arn),
        "ListShards": lambda: client.list_shards(**arn),
        "PutRecord": lambda: client.put_record(**arn, **record),
        "PutRecords": lambda: client.put_records(**arn, Records=[record]),
        "GetShardIterator": lambda: client.get_shard_iterator(
            **arn, ShardId=shard_id(0), ShardIteratorType="TRIM_HORIZON"
        ),
        "GetRecords": lambda: client.get_records(**arn, ShardIterator=iterator),
    }
    return {operation: verdict(call) for operation, call in calls.items()}


@behaviour("A stream is named by its name, its ARN, or both; a call with neither is refused.", answer=True)
def a_stream_must_be_named(stream: Stream) -> Any:
    return refused(lambda: stream.client.describe_stream_summary())


@behaviour(
    "After DeleteStream the stream, its shards and its data are gone: ResourceNotFoundException, also for an iterator "
    "from before.",
    answer={"stream": "ResourceNotFoundException", "iterator": "ResourceNotFoundException"},
    opens=1,
)
def a_deleted_stream_is_gone(stream: Stream) -> Any:
    doomed = stream.another()
    iterator = doomed.iterator()
    doomed.delete()
    return {"stream": verdict(doomed.summary), "iterator": verdict(lambda: doomed.page(iterator))}


@behaviour(
    "ListStreams begins behind ExclusiveStartStreamName, gives as many names as Limit allows, in their order, and "
    "says in HasMoreStreams whether there are more.",
    answer=(["first"], True, ["second"]),
    opens=1,
)
def streams_are_listed_in_pages(stream: Stream) -> Any:
    second = stream.another()
    named = {stream.name: "first", second.name: "second"}

    def names(after: str) -> tuple[list[str | None], bool]:
        reply = stream.client.list_streams(ExclusiveStartStreamName=after, Limit=1)
        return [named.get(name) for name in reply["StreamNames"]], reply["HasMoreStreams"]

    right_before = stream.name[:-1] + chr(ord(stream.name[-1]) - 1)  # a stream of an earlier question may be left
    page, more = names(right_before)
    return page, more, names(stream.name)[0]


@behaviour(
    "The retention is 24 to 8,760 hours; it is raised by IncreaseStreamRetentionPeriod to more than it is and lowered "
    "by DecreaseStreamRetentionPeriod to less; anything else is an InvalidArgumentException.",
    answer={
        "increased": 48,
        "increased to less": "InvalidArgumentException",
        "increased too far": "InvalidArgumentException",
        "decreased": 24,
        "decreased to more": "InvalidArgumentException",
        "decreased too far": "InvalidArgumentException",
    },
)
def the_retention_is_changed(stream: Stream) -> Any:
    def change(word: str, hours: int) -> Any:
        call = getattr(stream.client, f"{word}_stream_retention_period")
        found = verdict(lambda: call(StreamName=stream.name, RetentionPeriodHours=hours))
        stream.wait_until_active()
        return stream.summary()["RetentionPeriodHours"] if found == "accepted" else found

    return {
        "increased": change("increase", 48),
        "increased to less": change("increase", 25),
        "increased too far": change("increase", 8761),
        "decreased": change("decrease", 24),
        "decreased to more": change("decrease", 25),
        "decreased too far": change("decrease", 23),
    }
