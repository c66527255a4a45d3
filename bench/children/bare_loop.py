"""The product's own fetch and write functions in a loop, without Spark, ledger, range, publishing and verifying.

`python -m bench.children.bare_loop ENDPOINT STREAM FOLDER SHARD…`: two processes, each with every other shard. Records
go through `Kinesis.get_records` and `lake.parquet.write_range` (Arrow, checksum, zstd Parquet), a file for each shard.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.children.fetch import PAGE_BYTES
from bench.source import REGION
from shardlake.kinesis.client import MAX_PAGE_RECORDS, Kinesis
from shardlake.kinesis.page import Page
from shardlake.lake.parquet import write_range
from shardlake.plan import BatchPlan, Run
from shardlake.ranges import SHARD_END, SequenceRange, Start

PROCESSES = 2


def pages(kinesis: Kinesis, shard_id: str) -> Iterator[Page]:
    """A shard from its oldest record to its newest, in pages of about the reader's size."""
    iterator: str | None = kinesis.iterator_at_horizon(shard_id)
    limit = MAX_PAGE_RECORDS
    while iterator:
        page = kinesis.get_records(iterator, limit)
        if len(page):
            limit = min(MAX_PAGE_RECORDS, max(1, PAGE_BYTES * len(page) // sum(map(len, page.data))))
            yield page
        iterator = None if page.at_tip else page.next_iterator


def write_shards(endpoint_url: str, stream: str, folder: Path, shard_ids: list[str]) -> int:
    """Write shards one after another; how many rows."""
    kinesis = Kinesis(stream, REGION, endpoint_url)
    described, now_ms = kinesis.describe()
    rows = 0
    for shard_id in shard_ids:
        first = kinesis.get_records(kinesis.iterator_at_horizon(shard_id), limit=1).number(0)
        range_ = SequenceRange(shard_id, Start("AT", first), SHARD_END, first)
        plan = BatchPlan(
            "bare", "bare", "live", Run("bare", "1"), described, str(folder), "none", now_ms, False, ((range_,),)
        )
        data, aside = folder / f"{shard_id}.parquet", folder / f"{shard_id}.aside"
        rows += write_range(data, aside, plan, range_, pages(kinesis, shard_id)).rows
        aside.unlink()
    return rows


def main(endpoint_url: str, stream: str, folder: str, *shard_ids: str) -> None:
    """Share the shards out to the processes."""
    Path(folder).mkdir(parents=True)
    shares = [list(shard_ids[at::PROCESSES]) for at in range(min(PROCESSES, len(shard_ids)))]
    with multiprocessing.get_context("spawn").Pool(len(shares)) as pool:
        work = [pool.apply_async(write_shards, (endpoint_url, stream, Path(folder), share)) for share in shares]
        rows = sum(each.get() for each in work)
        pool.close()
        pool.join()
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
