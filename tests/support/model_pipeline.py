"""A pipeline over a model stream: plans, and commits what was planned without reading it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from shardlake.config import Pipeline
from shardlake.lake.local import LocalHome
from shardlake.ledger import Chain, Contents, Ledger, LedgerRange
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import LIVE
from shardlake.plan import BatchPlan, Run
from shardlake.planning import Planner
from support.model_stream import ModelStream

NOTHING = Contents(0, 0, "")


class ModelPipeline:
    """One pipeline named `p`, in memory but for the plan files in its folder."""

    def __init__(self, stream: ModelStream, folder: Path, ledger: Ledger | None = None, **settings: Any) -> None:
        self.stream, self.ledger, self._home = stream, ledger or MemoryLedger(), LocalHome(str(folder))
        names = {"name": "p", "stream": stream.stream_name, "region": "eu-west-1", "ledger": "sqlite:///unused.db"}
        self.settings: dict[str, Any] = {**names, "dataset": str(folder), **settings}
        self._runs = itertools.count()

    @property
    def chains(self) -> dict[str, Chain]:
        """Where every shard stands."""
        return self.ledger.chains("p", LIVE)

    @property
    def rows(self) -> list[LedgerRange]:
        """All chains, range by range."""
        return list(self.ledger.ranges("p", LIVE))

    def plan(self) -> BatchPlan:
        """The batch of a new run."""
        return self.planner().plan(Run("dag", f"run-{next(self._runs)}"))

    def planner(self) -> Planner:
        """The pipeline's planner."""
        return Planner(Pipeline(**self.settings), self.ledger, self.stream, self._home)

    def commit(self, plan: BatchPlan) -> None:
        """Commit all ranges of a batch."""
        assert self.ledger.commit(plan, dict.fromkeys(plan.ranges, NOTHING)) == []

    def rounds(self) -> list[list[str]]:
        """Batches, committed one after another until there is nothing to do; the shards of those that had some.

        Two in a row are empty at the end: a shard counts as gone when two listings leave it out.
        """
        found: list[list[str]] = []
        idle = 0
        while idle < 3:
            plan = self.plan()
            self.commit(plan)
            idle = 0 if plan.groups or plan.behind else idle + 1
            if plan.groups:
                found.append(sorted(range_.shard_id for range_ in plan.ranges))
        return found
