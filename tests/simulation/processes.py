"""What a process of a simulated world can be: a step, a whole run, a backfill, or a person's command."""

from __future__ import annotations

import re
from typing import Any

from shardlake.abandon import abandon
from shardlake.backfill import Request
from shardlake.batch import Steps
from shardlake.ledger import JournalEntry
from shardlake.names import batch_id
from shardlake.plan import Run
from shardlake.ranges import SequenceRange
from shardlake.rebuild import rebuilt, restore
from shardlake.repair import broken, repair, whose
from simulation.tasks import Scope, Task
from simulation.world import PIPELINE, World
from support.inline_engine import InlineEngine

STEPS = ("plan", "ingest", "verify", "commit")
MOST_BATCHES = 300
_A_BUG = re.compile(r" through \S+: \w+(Error|Exception|Exit): ")
"""How ingest reports an exception that is none of ours."""


def step(world: World, kind: str, run: str, scope: Scope) -> Task:
    """Begin one step of a run, or the whole `run`."""
    return world.start(f"{kind}-{run}", scope, lambda: _step(world.steps(scope), kind, Run("dag", run)))


def _step(steps: Steps, kind: str, run: Run) -> None:
    batch = batch_id(steps.pipeline.name, steps.namespace, run.dag_id, run.run_id)
    match kind:
        case "run":
            steps.run(run, InlineEngine(), _no_bug)
        case "plan":
            steps.plan(run)
        case "ingest":
            for group in range(len(steps.pinned(batch).groups)):
                steps.ingest(batch, group, InlineEngine(), _no_bug)
        case "verify":
            steps.verify(batch)
        case "commit":
            steps.commit(batch)


def backfill(world: World, namespace: str, request: Request, attempt: str) -> Task:
    """Begin a backfill, or go on with it."""
    scope = (PIPELINE, namespace)

    def body() -> None:
        steps = world.steps(scope)
        steps.open_backfill(request)
        for count in range(MOST_BATCHES):
            plan, _ = steps.run(Run("backfill", f"{namespace}-{attempt}-{count}"), InlineEngine(), _no_bug)
            if not plan.behind:
                return
        raise AssertionError(f"{namespace} has no end")

    return world.start(f"backfill-{namespace}", scope, body)


def give_up(world: World, range_: SequenceRange, scope: Scope) -> Task:
    """Begin to abandon an open range."""

    def body() -> None:
        abandon(world.steps(scope), range_, _entry("abandon", scope, range_))

    return world.start(f"abandon {range_}", scope, body)


def mend(world: World, scope: Scope, shard_id: str) -> Task:
    """Begin to repair whatever of a shard is damaged."""

    def body() -> None:
        steps = world.steps(scope)
        draft = whose(steps)
        for row in [row for row, finding in broken(steps, draft, shard_id) if finding]:
            repair(steps, draft, row, _entry("repair", scope, row.range))

    return world.start("repair", scope, body)


def rebuild(world: World, scope: Scope) -> Task:
    """Begin to rebuild the ledger from what the dataset tells."""

    def body() -> None:
        steps = world.steps(scope)
        found = rebuilt(steps)
        assert not found.conflicts, f"the dataset contradicts itself: {found.conflicts}"
        restore(steps, found)

    return world.start("rebuild", scope, body)


def _entry(action: Any, scope: Scope, range_: SequenceRange) -> JournalEntry:
    return JournalEntry(0, "ada", action, scope[0], scope[1], range_, "a reason")


def _no_bug(line: str) -> None:
    assert not _A_BUG.search(line), line
