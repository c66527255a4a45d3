"""The loop that one writes first: boto3's `get_records`, shard after shard in two processes, pyarrow.

It keeps no position: what is read when it is run again is everything.
"""

from __future__ import annotations

import json
import multiprocessing
import sys

import boto3
from writing import ShardFile

PROCESSES = 2


def write_shards(endpoint_url: str, stream: str, folder: str, shard_ids: list[str]) -> int:
    """Write shards one after another; how many rows."""
    client = boto3.client("kinesis", endpoint_url=endpoint_url)
    rows = 0
    for shard_id in shard_ids:
        file = ShardFile(folder, stream, shard_id)
        at = {"StreamName": stream, "ShardId": shard_id, "ShardIteratorType": "TRIM_HORIZON"}
        iterator = client.get_shard_iterator(**at)["ShardIterator"]
        while iterator:
            reply = client.get_records(ShardIterator=iterator, Limit=10_000)
            records = reply["Records"]
            file.add(
                sequence_number=[record["SequenceNumber"] for record in records],
                partition_key=[record["PartitionKey"] for record in records],
                approximate_arrival_timestamp=[record["ApproximateArrivalTimestamp"] for record in records],
                data=[record["Data"] for record in records],
            )
            rows += len(records)
            iterator = reply["NextShardIterator"] if reply["MillisBehindLatest"] else None
        file.close()
    return rows


def main(endpoint_url: str, stream: str, folder: str, _records: str) -> None:
    """Share the shards out to the processes."""
    client = boto3.client("kinesis", endpoint_url=endpoint_url)
    pages = client.get_paginator("list_shards").paginate(StreamName=stream)
    shard_ids = [shard["ShardId"] for page in pages for shard in page["Shards"]]
    shares = [shard_ids[at::PROCESSES] for at in range(PROCESSES) if shard_ids[at::PROCESSES]]
    with multiprocessing.get_context("spawn").Pool(len(shares)) as pool:
        work = [pool.apply_async(write_shards, (endpoint_url, stream, folder, share)) for share in shares]
        rows = sum(each.get() for each in work)
        pool.close()
        pool.join()
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
