"""GetRecords: pages, how far behind they are, and the end of a shard."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from tests.conformance.behaviour import behaviour, refused, verdict
from tests.conformance.stream import Stream, number_of, shard_id

MIB = 2**20


@behaviour("A reply has at most Limit records.", answer=[b"0", b"1"])
def a_page_has_as_many_records_as_asked_for(stream: Stream) -> Any:
    stream.put(b"0", b"1", b"2")
    stream.read(records=3)
    return [record["Data"] for record in stream.page(stream.iterator(), Limit=2)["Records"]]


@behaviour(
    "Limit is 1 to 10,000. (By its words InvalidArgumentException above that, by the model ValidationException.)",
    answer={0: True, 10_000: False, 10_001: True},
)
def limit_has_bounds(stream: Stream) -> Any:
    iterator = stream.iterator()
    return {limit: refused(lambda limit=limit: stream.page(iterator, Limit=limit)) for limit in (0, 10_000, 10_001)}  # type: ignore[misc]


@behaviour("A reply has at most 10,000 records.", answer={"all": 10_050, "at most 10,000": True})
def a_page_has_at_most_10_000_records(stream: Stream) -> Any:
    stream.put_together(*[b""] * 10_050)
    pages: list[int] = []
    for page in stream.pages(stream.iterator(), 10_050):
        pages.append(len(page["Records"]))
        if sum(pages) >= 10_050:
            break
    return {"all": sum(pages), "at most 10,000": max(pages) <= 10_000}


@behaviour("A reply has at most 10 MiB of data.", answer={"all": 11, "at most 10 MiB": True})
def a_page_has_at_most_ten_mebibytes(stream: Stream) -> Any:
    stream.put_together(*[b"x" * (MIB - 1)] * 11)
    pages = [[len(record["Data"]) for record in page["Records"]] for page in stream.pages(stream.iterator(), 11)]
    return {"all": sum(map(len, pages)), "at most 10 MiB": max(map(sum, pages)) <= 10 * MIB}


@behaviour(
    "An open shard without more records gives an empty list and an iterator to go on with.", answer=([], True, 0)
)
def an_open_shard_has_no_end(stream: Stream) -> Any:
    page = stream.page(stream.page(stream.iterator())["NextShardIterator"])
    return page["Records"], "NextShardIterator" in page, page["MillisBehindLatest"]


@behaviour(
    "MillisBehindLatest is how far a reply is from the tip: above zero while there are records ahead, zero when caught "
    "up.",
    answer={"records ahead": True, "caught up": True},
)
def a_reply_tells_how_far_behind_it_is(stream: Stream) -> Any:
    stream.put(b"0", b"1")
    stream.read(records=2)
    page = stream.page(stream.iterator(), Limit=1)
    after = stream.page(page["NextShardIterator"])
    return {"records ahead": page["MillisBehindLatest"] > 0, "caught up": after["MillisBehindLatest"] == 0}


@behaviour(
    "An iterator is a position: read twice, it gives the same records. (Not said, but what a retry rests on.)",
    answer=[[b"0", b"1"]] * 2,
)
def an_iterator_can_be_used_again(stream: Stream) -> Any:
    stream.put(b"0", b"1")
    stream.read(records=2)
    iterator = stream.iterator()
    return [[record["Data"] for record in stream.page(iterator)["Records"]] for _ in range(2)]


@behaviour(
    "A record's ApproximateArrivalTimestamp is the service's time when it was stored, and a reply's Date is the "
    "service's time too.",
    answer={"arrival": True, "date": True},
)
def times_are_the_service_s(stream: Stream) -> Any:
    stream.put(b"0")
    (page, *_) = (page for page in stream.pages(stream.iterator(), 1) if page["Records"])
    date = page["ResponseMetadata"]["HTTPHeaders"].get("date")
    arrival = page["Records"][0]["ApproximateArrivalTimestamp"]

    def near(when: datetime) -> bool:
        return abs((datetime.now(UTC) - when).total_seconds()) < 60

    return {"arrival": near(arrival), "date": date is not None and near(parsedate_to_datetime(date))}


@behaviour(
    "At the end of a closed shard NextShardIterator is null and ChildShards tells the children, their parents and "
    "their hash keys.",
    answer={
        "records": [b"0", b"1"],
        "children": [(1, [0], "0", str(2**127 - 1)), (2, [0], str(2**127), str(2**128 - 1))],
    },
    opens=2,
)
def a_closed_shard_ends_with_its_children(stream: Stream) -> Any:
    stream.put(b"0", b"1")
    stream.split()
    stream.put(b"2")
    *_, last = pages = list(stream.pages(stream.iterator(), 3))
    children = [
        (
            number_of(child["ShardId"]),
            [number_of(parent) for parent in child["ParentShards"]],
            child["HashKeyRange"]["StartingHashKey"],
            child["HashKeyRange"]["EndingHashKey"],
        )
        for child in last.get("ChildShards", [])
    ]
    return {
        "records": [record["Data"] for page in pages for record in page["Records"]],
        "children": sorted(children),
    }


@behaviour(
    "Both parents of a merge end with the one child, which names both.", answer=[(2, [0, 1])] * 2, shards=2, opens=1
)
def merged_shards_end_with_their_child(stream: Stream) -> Any:
    stream.merge()
    found = []
    for parent in (0, 1):
        *_, last = stream.pages(stream.iterator(shard=parent), 1)
        found += [
            (number_of(child["ShardId"]), sorted(number_of(each) for each in child["ParentShards"]))
            for child in last.get("ChildShards", [])
        ]
    return found


@behaviour(
    "An iterator from before a reshard reads its shard to the end.",
    answer={"records": [b"0", b"1"], "ended": True},
    opens=2,
)
def a_shard_may_close_while_it_is_read(stream: Stream) -> Any:
    iterator = stream.iterator()
    stream.put(b"0", b"1")
    stream.split()
    stream.put(b"2")
    *_, last = pages = list(stream.pages(iterator, 3))
    data = [record["Data"] for page in pages for record in page["Records"]]
    return {"records": data, "ended": "NextShardIterator" not in last}


@behaviour(
    "A shard gives 5 GetRecords calls a second, then ProvisionedThroughputExceededException.",
    answer=["ProvisionedThroughputExceededException", "accepted"],
)
def calls_over_the_limit_are_refused(stream: Stream) -> Any:
    iterator = stream.iterator()
    stream.server.enforce_limits(stream.name)
    return sorted({verdict(lambda: stream.page(iterator)) for _ in range(20)})


@behaviour("Shards are read apart: one's records are in no other's replies.", answer=[[b"0"], [b"1"]], shards=2)
def shards_are_read_apart(stream: Stream) -> Any:
    stream.put(b"0")
    stream.put(b"1", hash_key=2**127)
    assert {shard["ShardId"] for shard in stream.shards()} == {shard_id(0), shard_id(1)}
    return [stream.read(shard=shard, records=1) for shard in (0, 1)]
