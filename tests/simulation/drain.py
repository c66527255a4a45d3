"""The end of a simulation: faults are over, what hangs goes on, and everything runs until it has caught up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shardlake.backfill import Request
from shardlake.errors import ConfigError, DataLossError, ShardlakeError
from shardlake.names import LIVE
from shardlake.ranges import Position
from simulation import processes
from simulation.checks import Checks
from simulation.tasks import Scope, Task
from simulation.world import MAIN, OTHER, PIPELINE, World

MOST_RUNS = 300
QUIET_RUNS = 3
"""So many in a row have nothing to do: a shard counts as gone when two listings leave it out."""


def drain(world: World, checks: Checks) -> None:
    """Run until all that is there is committed.

    Raises:
        AssertionError: a pipeline or a backfill is stuck.
    """
    world.calm()
    for task in list(world.tasks):
        _finish(world, checks, task)
    world.disk.date_what_is_left()
    world.clock.advance(2 * 3600)
    for place in range(len(world.producer.open_shards())):
        world.producer.put(place, ["plain"])  # where all is gone, the next record shows where the loss ends
    other: Scope = (OTHER, LIVE)
    for scope in [MAIN, other] if other in world.first_started_ms else [MAIN]:
        _catch_up(world, checks, scope)
    for namespace in world.ledger.store.backfills(PIPELINE):
        for attempt in range(MOST_RUNS):
            begin = partial(processes.backfill, world, namespace, Request(), f"drain-{attempt}")
            if _goes_through(world, checks, begin):
                world.scheduler.counts["backfills completed"] += 1
                break


def _catch_up(world: World, checks: Checks, scope: Scope) -> None:
    quiet = 0
    for count in range(MOST_RUNS):
        before = _chains(world, scope)
        through = _goes_through(world, checks, partial(processes.step, world, "run", f"drain-{count}", scope))
        quiet = quiet + 1 if through and _chains(world, scope) == before else 0
        if quiet == QUIET_RUNS:
            return
    raise AssertionError(f"not caught up after {MOST_RUNS} runs")


def _goes_through(world: World, checks: Checks, begin: Callable[[], Task]) -> bool:
    """Whether a process goes through; if not, a person changes what it says is to be changed."""
    task = begin()
    _finish(world, checks, task)
    match task.failure:
        case None:
            return True
        case DataLossError() if world.settings["on_data_loss"] == "fail":
            world.settings["on_data_loss"] = "skip"
        case ConfigError() if world.settings.pop("shard_starts", None):
            pass  # the shard has left the stream before the pipeline began
        case _:
            assert isinstance(task.failure, ShardlakeError)
            raise AssertionError(f"the pipeline is stuck: {task.failure}") from task.failure
    return False


def _finish(world: World, checks: Checks, task: Task) -> None:
    while task.before is not None:
        checks.after(task, world.go_on(task))


def _chains(world: World, scope: Scope) -> dict[str, Position]:
    return {shard_id: chain.position for shard_id, chain in world.chains(scope).items()}
