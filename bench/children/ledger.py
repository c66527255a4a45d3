"""Pins and commits batches with a range for every shard: `python -m bench.children.ledger`.

Standard input is a JSON list: the ledger's URL, how many shards, how many ranges each has already, how many batches.
"""

from __future__ import annotations

import json
import sys
import time

from shardlake.ledger import Contents, Ledger, open_ledger
from shardlake.names import LIVE
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SequenceNumber, SequenceRange, Start
from shardlake.shards import Shard

PIPELINE = "bench"
BEGINNING = 1_000_000_000
GROUP_SIZE = 256
CONTENTS = Contents(1000, 100_000, "0" * 64)
STREAM = Stream("bench", "arn:aws:kinesis:us-east-1:0:stream/bench", 1, 86_400_000, "us-east-1", None)


def batch(ledger: Ledger, shards: list[Shard], after: int) -> float:
    """Pin and commit the next range of every shard; how long it took, seconds."""
    start, through = SequenceNumber(str(BEGINNING + after)), SequenceNumber(str(BEGINNING + after + 1))
    ranges = [SequenceRange(shard.shard_id, Start("AFTER", start), through, through) for shard in shards]
    run = Run("bench", str(after))
    draft = BatchPlan(f"batch-{after}", PIPELINE, LIVE, run, STREAM, "/lake", ledger.ledger_id, 1, False, ())
    begun_s = time.monotonic()
    plan = BatchPlan.from_text(ledger.pin(draft, ranges, GROUP_SIZE))
    conflicts = ledger.commit(plan, dict.fromkeys(plan.ranges, CONTENTS))
    seconds = time.monotonic() - begun_s
    if conflicts or len(list(plan.ranges)) != len(shards):
        raise SystemExit(f"{len(list(plan.ranges))} ranges, conflicts: {conflicts[:1]}")
    return seconds


def main(url: str, count: str, after: str, batches: str) -> None:
    """Record a first listing where there is none, then the batches."""
    ledger = open_ledger(url)
    shards = [Shard(f"shardId-{n:012}", (), str(n), str(n), str(BEGINNING), None) for n in range(int(count))]
    start = Start("AFTER", SequenceNumber(str(BEGINNING)))
    ledger.record_listing(PIPELINE, LIVE, shards, {shard.shard_id: start for shard in shards}, first=True)
    seconds = [batch(ledger, shards, int(after) + number) for number in range(int(batches))]
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(*json.load(sys.stdin))
