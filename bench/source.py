"""A stream on a local Kinesis that has its records already, and does not get more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.pour import payloads, pour
from local_kinesis.process import LocalKinesis, running
from shardlake.kinesis.through import LOOK_RECORDS

REGION = "us-east-1"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What every program that is measured finds in its environment."""

AGE_S = 2 * 3600
"""How old records are made, by moving the service's clock: more than a range's window, so that a pipeline is behind."""

LOOK_BYTES = 10 * 2**20
"""The most that one reply holds (API reference)."""


@dataclass(frozen=True, slots=True)
class Source:
    """A stream, filled.

    Attributes:
        records: on all shards together, as many on each.
        record_bytes: the data of one.
    """

    server: LocalKinesis
    stream: str
    shards: int
    records: int
    record_bytes: int

    @property
    def data_bytes(self) -> int:
        """The data of all records."""
        return self.records * self.record_bytes

    @property
    def shard_ids(self) -> list[str]:
        """All shards."""
        return [f"shardId-{index:012}" for index in range(self.shards)]


@contextmanager
def kinesis(*options: str) -> Iterator[LocalKinesis]:
    """A local Kinesis for the length of a `with` block."""
    with running("--region", REGION, *options) as server:
        yield server


def filled(
    server: LocalKinesis,
    stream: str,
    shards: int,
    shard_records: int,
    record_bytes: int,
    data: list[bytes] | None = None,
) -> Source:
    """A new stream with about as many records on every shard, all of which the next range takes in.

    Where they are more than planning looks at, the last of them is new and the others are `AGE_S` old: a range ends
    with the first record behind its window.

    Args:
        data: of the records, in turn; None: made up.
    """
    server.client(REGION).create_stream(StreamName=stream, ShardCount=shards)
    data = data or payloads(record_bytes, shard_records)
    pour(server, stream, shards, shard_records, data)
    server.control({"advance_clock_s": AGE_S})
    if shard_records > LOOK_RECORDS or shard_records * record_bytes > LOOK_BYTES:
        pour(server, stream, shards, 1, data)
        shard_records += 1
    server.control({"reset_stats": True})
    return Source(server, stream, shards, shards * shard_records, record_bytes)
