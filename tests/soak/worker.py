"""A long-living process of a pipeline: batches without end, by the steps that `shardlake run` calls in its loop.

    python -m soak.worker CONFIG

It prints one JSON object a batch, and ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import select
import sys
from itertools import count
from pathlib import Path

from shardlake.batch import Steps
from shardlake.config import load_pipeline
from shardlake.errors import ShardlakeError
from shardlake.ledger import open_ledger
from shardlake.plan import Run
from support.inline_engine import InlineEngine

PIPELINE = "soak"
IDLE_S = 0.2


def main(config: Path) -> None:
    """Run batches until told to end. A failure that may be retried is told, and another run begins.

    Raises:
        ShardlakeError: a terminal one.
    """
    pipeline = load_pipeline(config, PIPELINE)
    steps = Steps(pipeline, open_ledger(pipeline.ledger_url))
    for number in count():
        told: dict[str, object]
        try:
            plan, done = steps.run(Run("soak", f"{os.getpid()}-{number}"), InlineEngine(), lambda line: None)
            told = {"rows": done.rows if done else None, "behind": plan.behind}
        except ShardlakeError as exc:
            if exc.terminal:
                raise
            told = {"error": str(exc)}
        print(json.dumps(told), flush=True)
        idle = "rows" not in told or told["rows"] is None
        if select.select([sys.stdin], [], [], IDLE_S if idle else 0)[0]:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
