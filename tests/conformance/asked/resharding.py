"""SplitShard, MergeShards, UpdateShardCount: what becomes of parents and children."""

from __future__ import annotations

from typing import Any

from tests.conformance.behaviour import behaviour, refused, reply, verdict
from tests.conformance.stream import Stream, number_of, shard_id


def _family(stream: Stream) -> list[tuple[Any, ...]]:
    """Of each shard: its number, its parents' numbers, and whether it is open."""
    return [
        (
            number_of(shard["ShardId"]),
            [number_of(shard[name]) for name in ("ParentShardId", "AdjacentParentShardId") if name in shard],
            "open" if "EndingSequenceNumber" not in shard["SequenceNumberRange"] else "closed",
        )
        for shard in stream.shards()
    ]


@behaviour(
    "A split closes the shard and opens two, which have it for their parent; the closed one stays in the listing while "
    "it holds records.",
    answer=[(0, [], "closed"), (1, [0], "open"), (2, [0], "open")],
    opens=2,
)
def a_split_opens_two_children(stream: Stream) -> Any:
    stream.split()
    return _family(stream)


@behaviour(
    "Of a split's children the one gets NewStartingHashKey and what is above it, the other what is below.",
    answer=[("0", "99"), ("100", str(2**128 - 1))],
    opens=2,
)
def a_split_divides_at_the_hash_key(stream: Stream) -> Any:
    stream.client.split_shard(StreamName=stream.name, ShardToSplit=shard_id(0), NewStartingHashKey="100")
    stream.wait_until_active()
    keys = [shard["HashKeyRange"] for shard in stream.shards() if number_of(shard["ShardId"])]
    return sorted((each["StartingHashKey"], each["EndingHashKey"]) for each in keys)


@behaviour(
    "A merge closes two neighbours and opens one, which has the one for its parent, the other for its adjacent parent.",
    answer=[(0, [], "closed"), (1, [], "closed"), (2, [0, 1], "open")],
    shards=2,
    opens=1,
)
def a_merge_opens_one_child(stream: Stream) -> Any:
    stream.merge()
    return _family(stream)


@behaviour(
    "After a reshard records go to the children; the parents' are still read from the parents.",
    answer={"parent": [b"0", b"1"], "children": [[b"2"], [b"3"]]},
    opens=2,
)
def records_follow_a_reshard(stream: Stream) -> Any:
    stream.put(b"0", b"1")
    stream.split()
    stream.put(b"2")
    stream.put(b"3", hash_key=2**127)
    return {"parent": stream.read(records=2), "children": [stream.read(shard=shard, records=1) for shard in (1, 2)]}


@behaviour(
    "A closed shard's EndingSequenceNumber ends its range: no record has a number above it.", answer=[True], opens=2
)
def a_closed_shard_s_records_lie_before_its_end(stream: Stream) -> Any:
    *_, last = stream.put(b"0", b"1")
    stream.split()
    ends = [
        shard["SequenceNumberRange"]["EndingSequenceNumber"]
        for shard in stream.shards()
        if shard["ShardId"] == shard_id(0)
    ]
    return [int(last) <= int(end) for end in ends]


@behaviour(
    "A child's records come after its parents': its StartingSequenceNumber lies above their records' numbers. (Not "
    "said in so many words; what ordering a partition key's records over a reshard rests on.)",
    answer=True,
    opens=2,
)
def a_child_begins_behind_its_parent(stream: Stream) -> Any:
    *_, last = stream.put(b"0", b"1")
    stream.split()
    return all(
        int(stream.shard(child)["SequenceNumberRange"]["StartingSequenceNumber"]) > int(last) for child in (1, 2)
    )


@behaviour(
    "A split's hash key lies within the shard: InvalidArgumentException; a shard that does not exist is a "
    "ResourceNotFoundException; a closed shard is not split again.",
    answer={"outside": "InvalidArgumentException", "missing": "ResourceNotFoundException", "closed": True},
    shards=2,
    opens=2,
)
def a_split_that_makes_no_sense_is_refused(stream: Stream) -> Any:
    def split(shard: int, hash_key: int) -> None:
        place = {"StreamName": stream.name, "ShardToSplit": shard_id(shard)}
        stream.client.split_shard(**place, NewStartingHashKey=str(hash_key))

    found: dict[str, Any] = {"outside": verdict(lambda: split(0, 2**127 + 5)), "missing": verdict(lambda: split(9, 5))}
    stream.split(0)
    return found | {"closed": refused(lambda: split(0, 500))}


@behaviour(
    "Only neighbours are merged: InvalidArgumentException; a shard that does not exist is a ResourceNotFoundException.",
    answer={
        "no neighbours": "InvalidArgumentException",
        "itself": "InvalidArgumentException",
        "missing": "ResourceNotFoundException",
    },
    shards=3,
)
def a_merge_that_makes_no_sense_is_refused(stream: Stream) -> Any:
    def merge(shard: int, adjacent: int) -> str:
        pair = {"ShardToMerge": shard_id(shard), "AdjacentShardToMerge": shard_id(adjacent)}
        return verdict(lambda: stream.client.merge_shards(StreamName=stream.name, **pair))

    return {"no neighbours": merge(0, 2), "itself": merge(1, 1), "missing": merge(0, 9)}


def _resize(stream: Stream, target: int) -> Any:
    call = {"StreamName": stream.name, "TargetShardCount": target, "ScalingType": "UNIFORM_SCALING"}
    found = reply(lambda: stream.client.update_shard_count(**call))
    if not isinstance(found, str):
        stream.wait_until_active()
        return {name: found[name] for name in ("CurrentShardCount", "TargetShardCount")}
    return found


@behaviour(
    "UpdateShardCount tells the counts before and after, and makes shards of equal size by splits and merges of those "
    "there are, which stay in the listing, closed.",
    answer={
        "reply": {"CurrentShardCount": 2, "TargetShardCount": 4},
        "open": [str(n << 126) for n in range(4)],
        "closed": [0, 1],
        "old records": [b"0"],
    },
    shards=2,
    opens=4,
)
def resizing_makes_equal_shards(stream: Stream) -> Any:
    stream.put(b"0")
    found = _resize(stream, 4)
    shards = stream.shards()
    closed = [shard for shard in shards if "EndingSequenceNumber" in shard["SequenceNumberRange"]]
    return {
        "reply": found,
        "open": sorted((shard["HashKeyRange"]["StartingHashKey"] for shard in shards if shard not in closed), key=int),
        "closed": [number_of(shard["ShardId"]) for shard in closed],
        "old records": reply(lambda: stream.read(records=1)),
    }


@behaviour(
    "UpdateShardCount goes to at most double and at least half of the open shards.",
    answer={5: "InvalidArgumentException", 0: "ValidationException"},
    shards=2,
)
def resizing_stays_between_half_and_double(stream: Stream) -> Any:
    return {target: _resize(stream, target) for target in (5, 0)}
