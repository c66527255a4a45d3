"""SplitShard, MergeShards, UpdateShardCount: the shard tree, and where records go."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.local_kinesis.conftest import StreamUnderTest

END = 2**128 - 1


def test_a_split_closes_the_parent_and_opens_two_children(stream: StreamUnderTest) -> None:
    (number,) = stream.numbers(b"0")
    stream.split(0, 100)
    parent, low, high = stream.shards()
    assert int(parent["SequenceNumberRange"]["EndingSequenceNumber"]) > int(number)
    assert [_family(shard) for shard in (low, high)] == [(1, 0, None, 0, 99), (2, 0, None, 100, END)]
    for child in (low, high):
        start = int(child["SequenceNumberRange"]["StartingSequenceNumber"])
        assert start > int(parent["SequenceNumberRange"]["EndingSequenceNumber"])
        assert "EndingSequenceNumber" not in child["SequenceNumberRange"]


def test_after_a_reshard_records_go_to_the_children_and_the_parent_s_stay(stream: StreamUnderTest) -> None:
    before = stream.numbers(b"before")
    stream.split(0, 100)
    after = stream.put(b"low", hash_key=99) + stream.put(b"high", hash_key=100)
    assert [place["ShardId"][-1] for place in after] == ["1", "2"]
    assert min(int(place["SequenceNumber"]) for place in after) > int(before[0])
    assert [stream.read(shard=shard) for shard in range(3)] == [[b"before"], [b"low"], [b"high"]]


def test_a_merge_opens_one_child_of_both(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(3)
    stream.merge(1, 2)
    assert _family(stream.shards()[3]) == (3, 1, 2, 2**128 // 3, END)
    assert stream.put(b"x", hash_key=END)[0]["ShardId"] == "shardId-000000000003"


def test_a_closed_shard_s_end_is_no_record_s_number(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    numbers = stream.numbers(b"0", b"1")
    stream.merge(0, 1)
    first, second, _ = (shard["SequenceNumberRange"] for shard in stream.shards())
    assert int(first["EndingSequenceNumber"]) > int(numbers[1])
    assert int(second["EndingSequenceNumber"]) > int(second["StartingSequenceNumber"])


@pytest.mark.parametrize("hash_key", [0, 2**127])
def test_a_split_must_lie_within_the_shard(make_stream: Callable[..., StreamUnderTest], hash_key: int) -> None:
    stream = make_stream(2)
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match=f"NewStartingHashKey {hash_key} used"):
        stream.split(0, hash_key)


def test_a_split_may_leave_one_hash_key_on_either_side(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    stream.split(0, 1)
    stream.split(1, END)
    assert [_family(shard)[3:] for shard in stream.shards()[2:]] == [
        (0, 0),
        (1, 2**127 - 1),
        (2**127, END - 1),
        (END, END),
    ]


def test_a_closed_shard_is_not_resharded_again(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    stream.split(0, 100)
    invalid = stream.client.exceptions.InvalidArgumentException
    with pytest.raises(invalid, match=r"shardId-000000000000 .* is closed"):
        stream.split(0, 50)
    with pytest.raises(invalid, match="not an adjacent pair"):
        stream.merge(0, 1)


def test_only_neighbours_are_merged(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(3)
    for pair in ((0, 2), (0, 0)):
        with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="not an adjacent pair"):
            stream.merge(*pair)
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException, match="shardId-000000000009 in stream"):
        stream.merge(0, 9)


@pytest.mark.parametrize(("current", "target", "listed"), [(2, 4, 6), (4, 2, 6), (2, 3, 7), (3, 3, 3), (3, 2, 7)])
def test_resizing_ends_in_equal_shards(
    make_stream: Callable[..., StreamUnderTest], current: int, target: int, listed: int
) -> None:
    stream = make_stream(current)
    reply = stream.resize(target)
    still_open = stream.shards(ShardFilter={"Type": "AT_LATEST"})
    ranges = sorted(_family(shard)[3:] for shard in still_open)
    bounds = [2**128 * i // target for i in range(target + 1)]
    assert (reply["CurrentShardCount"], reply["TargetShardCount"]) == (current, target)
    assert reply["StreamName"] == stream.name
    assert ranges == [(low, high - 1) for low, high in itertools.pairwise(bounds)]
    assert len(stream.shards()) == listed


def test_numbers_grow_down_the_tree_over_many_generations(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(1)
    for target in (2, 3, 5, 4, 2, 1):
        stream.put(b"x", hash_key=END // 3)
        stream.resize(target)
    shards = {shard["ShardId"]: shard for shard in stream.shards()}
    for shard in shards.values():
        for parent in (shard.get("ParentShardId"), shard.get("AdjacentParentShardId")):
            if parent is not None:
                parent_end = int(shards[parent]["SequenceNumberRange"]["EndingSequenceNumber"])
                assert int(shard["SequenceNumberRange"]["StartingSequenceNumber"]) > parent_end
    assert sum(len(stream.read(shard=index)) for index in range(len(shards))) == 6


@pytest.mark.parametrize("target", [1, 9])
def test_resizing_stays_between_half_and_double(make_stream: Callable[..., StreamUnderTest], target: int) -> None:
    stream = make_stream(4)
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match=f"Target shard count: {target}"):
        stream.resize(target)


def _family(shard: dict[str, Any]) -> tuple[int, int | None, int | None, int, int]:
    numbers = [
        int(shard[member].removeprefix("shardId-")) if member in shard else None
        for member in ("ShardId", "ParentShardId", "AdjacentParentShardId")
    ]
    assert numbers[0] is not None
    keys = shard["HashKeyRange"]
    return numbers[0], numbers[1], numbers[2], int(keys["StartingHashKey"]), int(keys["EndingHashKey"])
