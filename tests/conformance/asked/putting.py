"""PutRecord and PutRecords: where records go, what is refused, which numbers they get."""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise
from typing import Any

from tests.conformance.behaviour import behaviour, refused, verdict
from tests.conformance.stream import Stream, number_of

KEYS = [f"key-{n}" for n in range(12)]
MIB = 2**20


def _quarter(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest(), "big") >> 126


@behaviour(
    "A record is read with the data, partition key and sequence number of its PutRecord.",
    answer={"Data": b"\x00\xff", "PartitionKey": "clé", "the number acknowledged": True},
)
def a_record_is_read_as_it_was_put(stream: Stream) -> Any:
    put = stream.client.put_record(StreamName=stream.name, PartitionKey="clé", Data=b"\x00\xff")
    (record,) = (each for page in stream.pages(stream.iterator(), 1) for each in page["Records"])
    same = record["SequenceNumber"] == put["SequenceNumber"]
    return {"Data": record["Data"], "PartitionKey": record["PartitionKey"], "the number acknowledged": same}


@behaviour("A record's data may be empty.", answer=[b""])
def a_record_may_be_empty(stream: Stream) -> Any:
    stream.put(b"")
    return stream.read(records=1)


@behaviour(
    "The MD5 of the partition key, as a 128-bit integer, decides the shard.", answer=list(map(_quarter, KEYS)), shards=4
)
def the_partition_key_s_md5_decides_the_shard(stream: Stream) -> Any:
    puts = (stream.client.put_record(StreamName=stream.name, PartitionKey=key, Data=b"") for key in KEYS)
    return [number_of(put["ShardId"]) for put in puts]


@behaviour("An ExplicitHashKey decides the shard instead of the partition key.", answer=[0, 0, 1, 1], shards=2)
def an_explicit_hash_key_counts_first(stream: Stream) -> Any:
    keys = (0, 2**127 - 1, 2**127, 2**128 - 1)
    records = [{"PartitionKey": "k", "Data": b"", "ExplicitHashKey": str(key)} for key in keys]
    results = stream.client.put_records(StreamName=stream.name, Records=records)["Records"]
    return [number_of(result["ShardId"]) for result in results]


@behaviour(
    "PutRecords answers for every record in the order of the request, each with shard and sequence number.",
    answer={"failed": 0, "order": True},
)
def put_records_answers_in_order(stream: Stream) -> Any:
    records = [{"PartitionKey": "k", "Data": b"%d" % n} for n in range(20)]
    reply = stream.client.put_records(StreamName=stream.name, Records=records)
    found = {
        record["SequenceNumber"]: record["Data"]
        for page in stream.pages(stream.iterator(), 20)
        for record in page["Records"]
    }
    order = [found[result["SequenceNumber"]] for result in reply["Records"]] == [each["Data"] for each in records]
    return {"failed": reply["FailedRecordCount"], "order": order}


@behaviour(
    "Sequence numbers are decimal, without leading zeros, of at most 129 digits, and those of records put one after "
    "another on a shard increase.",
    answer={"form": True, "increasing": True},
)
def sequence_numbers_increase(stream: Stream) -> Any:
    numbers = stream.put(*[b""] * 6)
    return {
        "form": all(re.fullmatch(r"0|[1-9]\d{0,128}", number) for number in numbers),
        "increasing": all(int(before) < int(after) for before, after in pairwise(numbers)),
    }


@behaviour("A shard's sequence numbers lie behind its StartingSequenceNumber.", answer=True, shards=2)
def numbers_lie_behind_the_shard_s_start(stream: Stream) -> Any:
    (number,) = stream.put(b"", hash_key=2**127)
    return int(stream.shard(1)["SequenceNumberRange"]["StartingSequenceNumber"]) <= int(number)


@behaviour(
    "One PutRecords call takes 1 to 500 records; others are a ValidationException.",
    answer={0: "ValidationException", 500: "accepted", 501: "ValidationException"},
)
def a_call_takes_500_records(stream: Stream) -> Any:
    def put(count: int) -> str:
        records = [{"PartitionKey": "k", "Data": b""}] * count
        return verdict(lambda: stream.client.put_records(StreamName=stream.name, Records=records))

    return {count: put(count) for count in (0, 500, 501)}


@behaviour(
    "A record holds 1 MiB, its partition key included, unless the stream's maximum is raised.",
    answer={"1 MiB": True, "a byte more": False},
)
def a_record_holds_one_mebibyte(stream: Stream) -> Any:
    def takes(size: int) -> bool:
        return not refused(lambda: stream.client.put_record(StreamName=stream.name, PartitionKey="k", Data=b"x" * size))

    return {"1 MiB": takes(MIB - 1), "a byte more": takes(MIB)}


@behaviour(
    "One PutRecords call takes 10 MiB, partition keys included.",
    answer={"10 MiB": True, "a byte more": False},
    shards=1,
)
def a_call_takes_ten_mebibytes(stream: Stream) -> Any:
    def takes(last: int) -> bool:
        sizes = [MIB - 1] * 9 + [last, 10]
        records = [{"PartitionKey": "k", "Data": b"x" * size} for size in sizes]
        return not refused(lambda: stream.client.put_records(StreamName=stream.name, Records=records))

    return {"10 MiB": takes(MIB - 12), "a byte more": takes(MIB - 11)}


@behaviour(
    "A partition key has 1 to 256 characters; others are a ValidationException.",
    answer={0: "ValidationException", 256: "accepted", 257: "ValidationException"},
)
def a_partition_key_has_bounds(stream: Stream) -> Any:
    def put(length: int) -> str:
        return verdict(lambda: stream.client.put_record(StreamName=stream.name, PartitionKey="é" * length, Data=b""))

    return {length: put(length) for length in (0, 256, 257)}


@behaviour(
    "An ExplicitHashKey is a decimal number without leading zeros of at most 39 digits, or it is a "
    "ValidationException; it is at most 2^128-1, or the record is an InvalidArgumentException.",
    answer={
        "a word": "ValidationException",
        "a leading zero": "ValidationException",
        "40 digits": "ValidationException",
        "2^128": "InvalidArgumentException",
    },
)
def an_explicit_hash_key_has_bounds(stream: Stream) -> Any:
    keys = {"a word": "none", "a leading zero": "01", "40 digits": "1" + "0" * 39, "2^128": str(2**128)}
    put = stream.client.put_record
    return {
        what: verdict(lambda key=key: put(StreamName=stream.name, PartitionKey="k", Data=b"", ExplicitHashKey=key))  # type: ignore[misc]
        for what, key in keys.items()
    }


@behaviour(
    "A record without data, or without a partition key, is a ValidationException.", answer=["ValidationException"] * 2
)
def a_record_is_complete(stream: Stream) -> Any:
    put = stream.client.put_record
    return [
        verdict(lambda: put(StreamName=stream.name, PartitionKey="k")),
        verdict(lambda: put(StreamName=stream.name, Data=b"")),
    ]


@behaviour(
    "A shard takes 1,000 records a second; PutRecords answers for those above with "
    "ProvisionedThroughputExceededException and takes the others.",
    answer={"codes": ["ProvisionedThroughputExceededException"], "those taken are read": True},
)
def records_over_the_limit_are_refused_one_by_one(stream: Stream) -> Any:
    stream.server.enforce_limits(stream.name)
    records = [{"PartitionKey": "k", "Data": b""}] * 500
    results = [
        result
        for _ in range(3)
        for result in stream.client.put_records(StreamName=stream.name, Records=records)["Records"]
    ]
    taken = [result["SequenceNumber"] for result in results if "SequenceNumber" in result]
    return {
        "codes": sorted({result["ErrorCode"] for result in results if "ErrorCode" in result}),
        "those taken are read": len(stream.read(records=len(taken))) == len(taken),
    }
