"""Fetches every record of a stream and does nothing with them: `python -m bench.children.fetch ENDPOINT STREAM HOW`.

HOW is `shardlake` (the product's client), `boto3` (botocore's own parser) or `raw` (replies are not looked into but for
the next iterator: what the server can give). The CPU is that of the loop alone.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import boto3

from bench.source import REGION
from shardlake.kinesis.client import Kinesis

PAGE_BYTES = 2 * 2**20
"""Replies of about the size that the product's reader asks for."""

HEADERS = {
    "Content-Type": "application/x-amz-json-1.1",
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request",
}


def shardlake(kinesis: Kinesis, shard_id: str, limit: int) -> Iterator[int]:
    """The number of records on each page of a shard, by the product's client."""
    iterator: str | None = kinesis.iterator_at_horizon(shard_id)
    while iterator:
        page = kinesis.get_records(iterator, limit)
        yield len(page)
        iterator = None if page.at_tip else page.next_iterator


def stock(client: Any, stream: str, shard_id: str, limit: int) -> Iterator[int]:
    """The same by boto3 as it comes."""
    at = {"StreamName": stream, "ShardId": shard_id, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = client.get_shard_iterator(**at)["ShardIterator"]
    while iterator:
        reply = client.get_records(ShardIterator=iterator, Limit=limit)
        yield len(reply["Records"])
        iterator = reply["NextShardIterator"] if reply["MillisBehindLatest"] else None


def raw(endpoint_url: str, stream: str, shard_id: str, limit: int) -> Iterator[int]:
    """The same by reading replies only; what is on a page is not counted but taken to be what was asked for."""
    connection = http.client.HTTPConnection(endpoint_url.removeprefix("http://"), timeout=60)

    def call(operation: str, body: dict[str, object]) -> bytes:
        target = {"X-Amz-Target": f"Kinesis_20131202.{operation}"}
        connection.request("POST", "/", json.dumps(body), HEADERS | target)
        return connection.getresponse().read()

    at: dict[str, object] = {"StreamName": stream, "ShardId": shard_id, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = json.loads(call("GetShardIterator", at))["ShardIterator"]
    while iterator:
        reply = call("GetRecords", {"ShardIterator": iterator, "Limit": limit})
        found = re.match(rb'\{"MillisBehindLatest":(\d+),"NextShardIterator":"([^"]+)"', reply)
        if not found:
            raise ValueError(reply[:200])
        yield reply.count(b'"SequenceNumber"')
        iterator = found[2].decode() if found[1] != b"0" else ""


Fetch = Callable[[str, int], Iterator[int]]


def fetch_by(way: str, endpoint_url: str, stream: str) -> Fetch:
    """How to fetch a shard, with pages of so many records at most; all shards by one client, as in a worker."""
    if way == "shardlake":
        return partial(shardlake, Kinesis(stream, REGION, endpoint_url))
    if way == "boto3":
        return partial(stock, boto3.client("kinesis", REGION, endpoint_url=endpoint_url), stream)
    return partial(raw, endpoint_url, stream)


def main(endpoint_url: str, stream: str, way: str, record_bytes: str, *shard_ids: str) -> None:
    """Read shards one after another."""
    limit = min(10_000, PAGE_BYTES // int(record_bytes))
    fetch = fetch_by(way, endpoint_url, stream)
    next(fetch(shard_ids[0], 1))  # what is loaded and connected once is not counted
    begun_s, begun_cpu_s = time.monotonic(), time.process_time()
    records = sum(sum(fetch(shard_id, limit)) for shard_id in shard_ids)
    cpu_s, wall_s = time.process_time() - begun_cpu_s, time.monotonic() - begun_s
    print(json.dumps({"records": records, "cpu_s": cpu_s, "wall_s": wall_s}))


if __name__ == "__main__":
    main(*sys.argv[1:])
