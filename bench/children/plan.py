"""Plans one batch: `python -m bench.children.plan CONFIG PIPELINE SHARDS`, and commits it, though nothing was read."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from bench.measured import peak_bytes_of
from shardlake.batch import Steps
from shardlake.config import load_pipeline
from shardlake.ledger import Contents, open_ledger
from shardlake.plan import Run

NOTHING = Contents(0, 0, "")


def main(config: str, name: str, shards: str) -> None:
    """Plan, and say how long it took; every shard must have a range."""
    pipeline = load_pipeline(Path(config), name)
    ledger = open_ledger(pipeline.ledger_url)
    steps = Steps(pipeline, ledger)
    begun_s = time.monotonic()
    plan = steps.plan(Run("bench", str(os.getpid())))
    seconds = time.monotonic() - begun_s
    ranges = list(plan.ranges)
    if len(ranges) != int(shards):
        raise SystemExit(f"{len(ranges)} of {shards} shards have a range")
    print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes_of(os.getpid())}))
    ledger.commit(plan, dict.fromkeys(ranges, NOTHING))


if __name__ == "__main__":
    main(*sys.argv[1:])
