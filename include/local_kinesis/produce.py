"""Puts records on any Kinesis endpoint with PutRecords, until every one of them is acknowledged."""

import hashlib
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from local_kinesis.loopback import is_loopback

# PutRecords' limits (API reference, PutRecords).
MAX_CALL_RECORDS = 500
MAX_CALL_BYTES = 5 * 2**20
FIRST_WAIT_S = 0.05
MAX_WAIT_S = 2.0

Item = tuple[str, bytes]
"""A partition key and a record's data."""


class PutsRecords(Protocol):
    """What is needed of a boto3 Kinesis client."""

    def put_records(self, **request: Any) -> dict[str, Any]:
        """One PutRecords call."""
        ...


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A record that the endpoint has taken: its place, its partition key, its data's length and SHA-256 in hex."""

    shard_id: str
    sequence_number: str
    partition_key: str
    data_bytes: int
    data_sha256: str


def kinesis_client(endpoint_url: str, region: str, *, max_attempts: int = 10) -> Any:
    """A boto3 client with the credentials test/test for a loopback endpoint, and the ordinary ones for any other."""
    local = is_loopback(urlsplit(endpoint_url).hostname or "")
    config = Config(
        connect_timeout=5,
        read_timeout=30,
        retries={"mode": "standard", "total_max_attempts": max_attempts},
        # An environment's proxy must not come between this machine and itself.
        proxies={} if local else None,
    )
    credentials = {"aws_access_key_id": "test", "aws_secret_access_key": "test"} if local else {}
    return boto3.Session(region_name=region, **credentials).client("kinesis", endpoint_url=endpoint_url, config=config)


def put_all(client: PutsRecords, stream: str, items: Iterable[Item]) -> list[Acknowledged]:
    """Puts all items and returns what was acknowledged, in the order of the acknowledgements."""
    return list(put_each(client, stream, items))


def put_each(client: PutsRecords, stream: str, items: Iterable[Item]) -> Iterator[Acknowledged]:
    """Puts items while it is iterated over, and yields each record once it is acknowledged.

    The failed records of a reply, and no others, are put again after a growing, jittered wait, however often it takes.
    A call whose reply is lost is put again by boto3 as a whole: its records may then be on the stream twice, and are
    acknowledged once.

    Args:
        client: a boto3 Kinesis client.
        stream: the stream's name.
        items: partition keys and data, of which as many go into a call as it may hold.
    """
    for call in _calls(items):
        pending = call
        wait_s = FIRST_WAIT_S
        while True:
            records = [{"PartitionKey": key, "Data": data} for key, data in pending]
            results = client.put_records(StreamName=stream, Records=records)["Records"]
            outcomes = list(zip(pending, results, strict=True))
            yield from (_acknowledged(item, result) for item, result in outcomes if "ErrorCode" not in result)
            pending = [item for item, result in outcomes if "ErrorCode" in result]
            if not pending:
                break
            time.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 -- jitter
            wait_s = min(2 * wait_s, MAX_WAIT_S)


def _calls(items: Iterable[Item]) -> Iterator[list[Item]]:
    call: list[Item] = []
    call_bytes = 0
    for key, data in items:
        size_bytes = len(key.encode()) + len(data)
        if call and (len(call) == MAX_CALL_RECORDS or call_bytes + size_bytes > MAX_CALL_BYTES):
            yield call
            call, call_bytes = [], 0
        call.append((key, data))
        call_bytes += size_bytes
    if call:
        yield call


def _acknowledged(item: Item, result: dict[str, Any]) -> Acknowledged:
    key, data = item
    return Acknowledged(result["ShardId"], result["SequenceNumber"], key, len(data), hashlib.sha256(data).hexdigest())
