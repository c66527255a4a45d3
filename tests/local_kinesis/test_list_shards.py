"""ListShards: pages, tokens, filters, and when a shard leaves the listing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from local_kinesis.listing import Listing
from local_kinesis.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.local_kinesis.conftest import StreamUnderTest, Wire

DAY_S = 86_400


def test_more_than_a_thousand_shards_come_in_pages(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2500)
    reply = stream.client.list_shards(StreamName=stream.name, MaxResults=10_000)
    pages = [reply["Shards"]]
    while token := reply.get("NextToken"):
        reply = stream.client.list_shards(NextToken=token)
        pages.append(reply["Shards"])
    assert [len(page) for page in pages] == [1000, 1000, 500]
    assert [shard["ShardId"] for page in pages for shard in page] == [f"shardId-{i:012d}" for i in range(2500)]


def test_a_page_holds_the_shards_asked_for(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(5)
    first = stream.client.list_shards(StreamName=stream.name, MaxResults=2)
    second = stream.client.list_shards(NextToken=first["NextToken"])
    third = stream.client.list_shards(NextToken=first["NextToken"], MaxResults=3)
    assert [len(reply["Shards"]) for reply in (first, second, third)] == [2, 2, 3]
    assert ("NextToken" in second, "NextToken" in third) == (True, False)


def test_a_listing_can_begin_behind_a_shard(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(4)
    assert stream.ids(ExclusiveStartShardId="shardId-000000000001") == [2, 3]
    assert stream.ids(ShardFilter={"Type": "AFTER_SHARD_ID", "ShardId": "shardId-000000000002"}) == [3]


def test_a_token_is_sent_alone(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    token = stream.client.list_shards(StreamName=stream.name, MaxResults=1)["NextToken"]
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="NextToken and StreamName cannot be"):
        stream.client.list_shards(NextToken=token, StreamName=stream.name)


def test_a_token_lives_300_seconds(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    token = stream.client.list_shards(StreamName=stream.name, MaxResults=1)["NextToken"]
    stream.server.control({"advance_clock_s": 290})
    assert len(stream.client.list_shards(NextToken=token)["Shards"]) == 1
    stream.server.control({"advance_clock_s": 11})
    with pytest.raises(stream.client.exceptions.ExpiredNextTokenException, match="more than 300000 ms before"):
        stream.client.list_shards(NextToken=token)


def test_each_page_s_token_has_a_life_of_its_own(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(3)
    reply = stream.client.list_shards(StreamName=stream.name, MaxResults=1)
    for _ in range(2):
        stream.server.control({"advance_clock_s": 200})
        reply = stream.client.list_shards(NextToken=reply["NextToken"])
    assert [shard["ShardId"] for shard in reply["Shards"]] == ["shardId-000000000002"]


def test_a_token_that_is_none_is_refused(stream: StreamUnderTest) -> None:
    for token in ("x", stream.iterator()):
        with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="Invalid NextToken"):
            stream.client.list_shards(NextToken=token)


def test_a_token_of_a_stream_made_again_is_refused(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    token = stream.client.list_shards(StreamName=stream.name, MaxResults=1)["NextToken"]
    stream.client.delete_stream(StreamName=stream.name)
    stream.client.create_stream(StreamName=stream.name, ShardCount=2)
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException, match="has been deleted"):
        stream.client.list_shards(NextToken=token)


def test_a_creation_time_must_be_the_stream_s(stream: StreamUnderTest) -> None:
    summary = stream.client.describe_stream_summary(StreamName=stream.name)["StreamDescriptionSummary"]
    assert stream.ids(StreamCreationTimestamp=summary["StreamCreationTimestamp"]) == [0]
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException, match="with this StreamCreationTimestamp"):
        stream.shards(StreamCreationTimestamp=datetime(2020, 1, 1, tzinfo=UTC))


def test_filters_keep_the_shards_that_were_open_then(stream: StreamUnderTest, wire: Wire) -> None:
    def listed(**shard_filter: Any) -> list[int]:
        reply = wire.call("ListShards", {"StreamName": stream.name, "ShardFilter": shard_filter})[2]
        return [int(shard["ShardId"].removeprefix("shardId-")) for shard in reply["Shards"]]

    created = stream.client.describe_stream_summary(StreamName=stream.name)["StreamDescriptionSummary"]
    start_s = created["StreamCreationTimestamp"].timestamp()
    stream.server.control({"advance_clock_s": 100})
    stream.split(0, 100)
    stream.server.control({"advance_clock_s": 100})
    stream.split(1, 50)
    assert listed(Type="AT_LATEST") == [2, 3, 4]
    assert listed(Type="AT_TRIM_HORIZON") == [0]
    assert listed(Type="FROM_TRIM_HORIZON") == [0, 1, 2, 3, 4]
    assert listed(Type="AT_TIMESTAMP", Timestamp=start_s + 50) == [0]
    assert listed(Type="AT_TIMESTAMP", Timestamp=start_s + 150) == [1, 2]
    assert listed(Type="FROM_TIMESTAMP", Timestamp=start_s + 150) == [1, 2, 3, 4]
    assert listed(Type="AT_TIMESTAMP", Timestamp=start_s - 50) == []


@pytest.mark.parametrize("kind", ["AT_TIMESTAMP", "FROM_TIMESTAMP"])
@pytest.mark.parametrize(("at_ms", "kept"), [(3999, True), (4000, True), (4001, False)])
def test_a_shard_s_last_moment_belongs_to_it(kind: str, at_ms: int, kept: bool) -> None:
    shard = Shard(0, 0, 99, created_ms=1000)
    shard.close(4000)
    assert Listing("s", 1000, 5000, 1000, kind, at_ms, "").keeps(shard) is kept


@pytest.mark.parametrize("shard_filter", [{"Type": "AT_TIMESTAMP"}, {"Type": "AFTER_SHARD_ID"}, {"Type": "X"}, {}])
def test_an_incomplete_filter_is_refused(stream: StreamUnderTest, wire: Wire, shard_filter: dict[str, str]) -> None:
    status, _, reply = wire.call("ListShards", {"StreamName": stream.name, "ShardFilter": shard_filter})
    assert status == 400
    assert reply["__type"] in {"InvalidArgumentException", "ValidationException"}


def test_a_filter_holds_over_all_pages(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(4)
    stream.merge(0, 1)
    first = stream.client.list_shards(StreamName=stream.name, MaxResults=2, ShardFilter={"Type": "AT_LATEST"})
    second = stream.client.list_shards(NextToken=first["NextToken"])
    ids = [shard["ShardId"][-1] for reply in (first, second) for shard in reply["Shards"]]
    assert ids == ["2", "3", "4"]


def test_a_closed_shard_leaves_the_listing_once_its_records_have_expired(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    stream.server.control({"advance_clock_s": DAY_S - 60})
    stream.put(b"1")
    stream.split(0, 100)
    stream.server.control({"advance_clock_s": DAY_S - 60})
    assert (stream.ids(), stream.read()) == ([0, 1, 2], [b"1"])
    stream.server.control({"advance_clock_s": 61})
    assert stream.ids() == [1, 2]
    assert stream.shards()[0]["ParentShardId"] == "shardId-000000000000"
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException, match="Shard shardId-000000000000 in"):
        stream.iterator()
    described = stream.client.describe_stream(StreamName=stream.name)["StreamDescription"]["Shards"]
    assert [shard["ShardId"][-1] for shard in described] == ["1", "2"]
