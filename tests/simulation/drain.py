"""The end of a simulation: faults are over, what hangs goes on, and the pipeline runs until it has caught up."""

from __future__ import annotations

from shardlake.errors import DataLossError, ShardlakeError
from shardlake.ranges import Position
from simulation.world import World

MOST_RUNS = 300
QUIET_RUNS = 3
"""So many in a row have nothing to do: a shard counts as gone when two listings leave it out."""


def drain(world: World) -> None:
    """Run until all that is there is committed.

    Raises:
        AssertionError: the pipeline is stuck.
    """
    world.service.faults.clear()
    world.ledger.faults.clear()
    for task in list(world.tasks):
        world.finish(task)
    world.clock.advance(2 * 3600)
    for place in range(len(world.producer.open_shards())):
        world.producer.put(place, ["plain"])  # where all is gone, the next record shows where the loss ends
    quiet = 0
    for count in range(MOST_RUNS):
        before = _chains(world)
        failure = _one_run(world, f"drain-{count}")
        if isinstance(failure, DataLossError) and world.settings["on_data_loss"] == "fail":
            world.settings["on_data_loss"] = "skip"
            continue
        if failure:
            raise AssertionError(f"the pipeline is stuck: {failure}") from failure
        quiet = quiet + 1 if _chains(world) == before else 0
        if quiet == QUIET_RUNS:
            return
    raise AssertionError(f"not caught up after {MOST_RUNS} runs")


def _chains(world: World) -> dict[str, Position]:
    return {shard_id: chain.position for shard_id, chain in world.chains().items()}


def _one_run(world: World, run: str) -> ShardlakeError | None:
    task = world.start("run", run)
    world.finish(task)
    failure = task.failure
    assert failure is None or isinstance(failure, ShardlakeError)
    return failure
