"""The KPL's aggregates: many user records in the data of one Kinesis record, which is taken whole or not at all.

Layout: F3 89 9A C2, protobuf (`aggregate.proto`), MD5 of the protobuf bytes. What does not have all three is an
ordinary record, whatever it begins with. Source: awslabs/amazon-kinesis-producer, aggregation-format.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import md5

from google.protobuf.message import DecodeError

from shardlake.kinesis.aggregate_pb2 import AggregatedRecord
from shardlake.plan import HashRange

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16

MAX_PARTITION_KEY = 256
"""Most characters of a partition key (API reference). It also keeps a small record from becoming gigabytes of rows,
all with one huge key."""

_EXPLICIT_HASH_KEY = re.compile(r"0|[1-9][0-9]{0,38}", re.ASCII)
"""The API's pattern for an explicit hash key."""


class MalformedError(Exception):
    """The MD5 is right, so an aggregate was meant, but it cannot be unpacked.

    Its text goes into the quarantine's rows, of which there is a checksum: it never says what a library said.
    """


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The user records of one aggregate, column by column; a row's position is its sub-sequence number."""

    partition_keys: list[str]
    explicit_hash_keys: list[str | None]
    data: list[bytes]


def is_aggregate(data: bytes) -> bool:
    """Whether a record's data is an aggregate: magic number, more than an MD5 behind it, and that one right."""
    return (
        data.startswith(MAGIC)
        and len(data) > len(MAGIC) + _DIGEST_BYTES
        and md5(memoryview(data)[len(MAGIC) : -_DIGEST_BYTES], usedforsecurity=False).digest() == data[-_DIGEST_BYTES:]
    )


def unpack(data: bytes) -> Aggregate:
    """The user records of an aggregate. Tags are ignored.

    Args:
        data: of a record that `is_aggregate`.

    Raises:
        MalformedError: it is not what the format says. One without user records is malformed as well: no producer
            sends it, and it would leave no trace.
    """
    try:
        message = AggregatedRecord.FromString(data[len(MAGIC) : -_DIGEST_BYTES])
    except DecodeError as exc:
        raise MalformedError("not the protobuf of an aggregate") from exc
    if not message.IsInitialized():
        raise MalformedError("a required field of the aggregate is missing")
    records = list(message.records)  # a record's wrapper is made once this way, and not again for each column
    if not records:
        raise MalformedError("an aggregate without user records")
    keys, hash_keys = _texts(message.partition_key_table), _texts(message.explicit_hash_key_table)
    if max(map(len, keys), default=0) > MAX_PARTITION_KEY:
        raise MalformedError(f"a partition key of more than {MAX_PARTITION_KEY} characters")
    if not all(_EXPLICIT_HASH_KEY.fullmatch(key) and int(key) < 2**128 for key in hash_keys):
        raise MalformedError("an explicit hash key that is not a number of 128 bits")
    try:
        return Aggregate(
            [keys[record.partition_key_index] for record in records],
            [
                hash_keys[record.explicit_hash_key_index] if record.HasField("explicit_hash_key_index") else None
                for record in records
            ],
            [record.data for record in records],
        )
    except IndexError as exc:
        raise MalformedError("an index that lies outside of its table of keys") from exc


def lies_within(aggregate: Aggregate, hash_range: HashRange) -> bool:
    """Whether every user record belongs to the shard: by its explicit hash key, else by its partition key's MD5.

    The KPL sends a record again where the shard was not the one that it had predicted, which is why the KCL drops the
    whole aggregate if any user record lies outside (amazon-kinesis-client, `AggregatorUtil.deaggregate`).
    """
    keys = set(zip(aggregate.partition_keys, aggregate.explicit_hash_keys, strict=True))
    first, last = int(hash_range.starting), int(hash_range.ending)
    return all(first <= _hash_key(*key) <= last for key in keys)


def _hash_key(partition_key: str, explicit_hash_key: str | None) -> int:
    if explicit_hash_key is not None:
        return int(explicit_hash_key)
    return int.from_bytes(md5(partition_key.encode(), usedforsecurity=False).digest(), "big")


def _texts(table: Iterable[bytes]) -> list[str]:
    try:
        return [key.decode() for key in table]
    except UnicodeDecodeError as exc:
        raise MalformedError("a key that is not UTF-8") from exc
