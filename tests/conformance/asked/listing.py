"""ListShards and DescribeStream: which shards, in which pages."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.conformance.behaviour import behaviour, refused, verdict
from tests.conformance.stream import Stream, number_of, shard_id

HASH_KEYS = 2**128


@behaviour(
    "The shards of a new stream divide the hash keys, 0 to 2^128-1, among them without gap or overlap; an open shard "
    "has no EndingSequenceNumber.",
    answer={"first": 0, "last": HASH_KEYS - 1, "gaps": [0, 0], "ended": [False] * 3},
    shards=3,
)
def new_shards_cover_all_hash_keys(stream: Stream) -> Any:
    shards = stream.shards()
    keys = [{name: int(key) for name, key in shard["HashKeyRange"].items()} for shard in shards]
    return {
        "first": keys[0]["StartingHashKey"],
        "last": keys[-1]["EndingHashKey"],
        "gaps": [after["StartingHashKey"] - before["EndingHashKey"] - 1 for before, after in pairwise(keys)],
        "ended": ["EndingSequenceNumber" in shard["SequenceNumberRange"] for shard in shards],
    }


@behaviour(
    "ListShards gives at most MaxResults shards and a NextToken while there are more; that token, sent alone, gives "
    "the next page, and MaxResults may be sent beside it.",
    answer=[[0, 1], [2, 3, 4], "no token"],
    shards=5,
)
def a_listing_comes_in_pages(stream: Stream) -> Any:
    page = stream.client.list_shards(StreamName=stream.name, MaxResults=2)
    found: list[Any] = [[number_of(shard["ShardId"]) for shard in page["Shards"]]]
    if "NextToken" in page:
        page = stream.client.list_shards(NextToken=page["NextToken"], MaxResults=3)
        found.append([number_of(shard["ShardId"]) for shard in page["Shards"]])
    return [*found, "a token" if "NextToken" in page else "no token"]


@behaviour("Tokens sent alone lead through all shards, each once.", answer=[0, 1, 2, 3, 4], shards=5)
def tokens_alone_lead_through_all_shards(stream: Stream) -> Any:
    page = stream.client.list_shards(StreamName=stream.name, MaxResults=2)
    found = page["Shards"]
    while "NextToken" in page:
        page = stream.client.list_shards(NextToken=page["NextToken"])
        found += page["Shards"]
    return [number_of(shard["ShardId"]) for shard in found]


@behaviour(
    "Neither StreamName nor ExclusiveStartShardId nor StreamCreationTimestamp is sent beside a NextToken: "
    "InvalidArgumentException.",
    answer=dict.fromkeys(
        ("StreamName", "ExclusiveStartShardId", "StreamCreationTimestamp"), "InvalidArgumentException"
    ),
    shards=2,
)
def a_token_is_sent_alone(stream: Stream) -> Any:
    token = stream.client.list_shards(StreamName=stream.name, MaxResults=1).get("NextToken", "")
    beside = {
        "StreamName": stream.name,
        "ExclusiveStartShardId": shard_id(0),
        "StreamCreationTimestamp": stream.summary()["StreamCreationTimestamp"],
    }
    return {
        name: verdict(lambda name=name, value=value: stream.client.list_shards(NextToken=token, **{name: value}))  # type: ignore[misc]
        for name, value in beside.items()
    }


@behaviour("A NextToken that ListShards never gave is refused.", answer=True)
def a_made_up_token_is_refused(stream: Stream) -> Any:
    return refused(lambda: stream.client.list_shards(NextToken="bm9uZQ=="))


@behaviour(
    "A NextToken lives 300 seconds; after that it is answered with ExpiredNextTokenException.",
    answer="ExpiredNextTokenException",
    shards=2,
)
def a_token_expires(stream: Stream) -> Any:
    token = stream.client.list_shards(StreamName=stream.name, MaxResults=1).get("NextToken", "")
    stream.server.advance(302)
    return verdict(lambda: stream.client.list_shards(NextToken=token))


@behaviour(
    "MaxResults is 1 to 10,000; above 1,000 it counts as 1,000; others are a ValidationException.",
    answer={0: "ValidationException", 10_000: "accepted", 10_001: "ValidationException"},
)
def max_results_has_bounds(stream: Stream) -> Any:
    list_shards = stream.client.list_shards
    return {n: verdict(lambda n=n: list_shards(StreamName=stream.name, MaxResults=n)) for n in (0, 10_000, 10_001)}  # type: ignore[misc]


@behaviour("A listing begins behind ExclusiveStartShardId.", answer=[1, 2], shards=3)
def a_listing_begins_behind_a_shard(stream: Stream) -> Any:
    return stream.ids(ExclusiveStartShardId=shard_id(0))


@behaviour(
    "DescribeStream gives at most Limit shards, says in HasMoreShards whether there are more, and begins behind "
    "ExclusiveStartShardId.",
    answer=[([0, 1], True), ([2], False)],
    shards=3,
)
def a_description_comes_in_pages(stream: Stream) -> Any:
    def page(**more: Any) -> tuple[list[int], bool]:
        found = stream.client.describe_stream(StreamName=stream.name, Limit=2, **more)["StreamDescription"]
        return [number_of(shard["ShardId"]) for shard in found["Shards"]], found["HasMoreShards"]

    return [page(), page(ExclusiveStartShardId=shard_id(1))]


@behaviour(
    "A filter keeps: AFTER_SHARD_ID the shards behind one, AT_TRIM_HORIZON those open at the trim horizon, "
    "FROM_TRIM_HORIZON all within the retention, AT_LATEST those open now.",
    answer={
        "AFTER_SHARD_ID": [1, 2, 3],
        "AT_TRIM_HORIZON": [0, 1],
        "FROM_TRIM_HORIZON": [0, 1, 2, 3],
        "AT_LATEST": [1, 2, 3],
    },
    shards=2,
    opens=2,
)
def filters_by_kind(stream: Stream) -> Any:
    stream.split()
    return {
        "AFTER_SHARD_ID": stream.ids(ShardFilter={"Type": "AFTER_SHARD_ID", "ShardId": shard_id(0)}),
        **{
            kind: stream.ids(ShardFilter={"Type": kind})
            for kind in ("AT_TRIM_HORIZON", "FROM_TRIM_HORIZON", "AT_LATEST")
        },
    }


@behaviour(
    "A filter by time keeps: AT_TIMESTAMP the shards that were open then, FROM_TIMESTAMP those that were open then or "
    "later.",
    answer={
        "AT before": [0],
        "AT after": [1, 2],
        "FROM before": [0, 1, 2],
        "FROM after": [1, 2],
        "FROM ever": [0, 1, 2],
    },
    opens=2,
)
def filters_by_time(stream: Stream) -> Any:
    def listed(kind: str, when: datetime) -> list[int]:
        return stream.ids(ShardFilter={"Type": f"{kind}_TIMESTAMP", "Timestamp": when})

    # boto3 sends whole seconds.
    time.sleep(2.1)
    before = datetime.now(UTC) - timedelta(seconds=1)
    stream.split()
    time.sleep(2.1)
    after = datetime.now(UTC)
    return {
        "AT before": listed("AT", before),
        "AT after": listed("AT", after),
        "FROM before": listed("FROM", before),
        "FROM after": listed("FROM", after),
        "FROM ever": listed("FROM", before - timedelta(hours=2)),
    }


@behaviour(
    "A filter's Type must be there and be one of six; AFTER_SHARD_ID needs a ShardId, AT_TIMESTAMP and FROM_TIMESTAMP "
    "a Timestamp.",
    answer=[True] * 5,
)
def an_incomplete_filter_is_refused(stream: Stream) -> Any:
    filters: list[dict[str, Any]] = [{}, {"Type": "ALL"}]
    filters += [{"Type": kind} for kind in ("AFTER_SHARD_ID", "AT_TIMESTAMP", "FROM_TIMESTAMP")]
    return [refused(lambda each=each: stream.shards(ShardFilter=each)) for each in filters]  # type: ignore[misc]
