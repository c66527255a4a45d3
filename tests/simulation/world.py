"""A simulated world: a stream, a place for datasets, a ledger, and processes, which are the product's own code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from shardlake.batch import Steps
from shardlake.config import Pipeline
from shardlake.errors import DataLossError, ShardlakeError
from shardlake.ledger import Chain, Ledger, LedgerRange
from shardlake.names import LIVE, dataset_of
from simulation import clock as clocks
from simulation.bucket import NAME, Bucket
from simulation.disk import SimulatedDisk
from simulation.edge import REGION
from simulation.producer import STREAM, Producer
from simulation.service import Service
from simulation.stepped import SteppedLedger
from simulation.tasks import Killed, Scheduler, Scope, Task

PIPELINE = "p"
OTHER = "q"
"""A second pipeline on the same stream, with the same ledger."""

MAIN: Scope = (PIPELINE, LIVE)


class Place(Protocol):
    """Where datasets lie, as the simulation itself looks at it; keys begin with the dataset's folder."""

    def files(self, folder: str) -> dict[str, int]:
        """The keys below a folder, each with a number that another file of the same name would not have."""

    def read(self, key: str) -> bytes:
        """The content of a file."""

    def write(self, key: str, content: bytes | None) -> None:
        """Put a file in place, or take it away, from outside of the simulation."""


@dataclass
class World:
    """Everything there is.

    Attributes:
        new_ledger: makes an empty one.
        settings: of the pipelines.
        place: `disk`, or a bucket.
        over: processes that have ended; `failed`: those that told of a loss, not yet checked.
        first_started_ms: when the first process of a scope began.
    """

    clock: clocks.SimulatedClock
    scheduler: Scheduler
    service: Service
    disk: SimulatedDisk
    bucket: Bucket | None
    new_ledger: Callable[[], Ledger]
    settings: dict[str, Any]
    tasks: list[Task] = field(default_factory=list)
    over: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer(self.service)
        self.clock.passed = self.producer.note_what_is_gone
        self.ledger = SteppedLedger(self.new_ledger(), self.scheduler)
        self.place: Place = self.bucket or self.disk
        self._disturbed = [each for each in (self.service, self.ledger, self.bucket) if each]
        self.failed: list[Task] = []
        self.first_started_ms: dict[Scope, int] = {}

    def folder(self, scope: Scope) -> str:
        """The folder of a scope's dataset, in the place."""
        return dataset_of(f"lake-{scope[0]}", scope[1])

    def steps(self, scope: Scope) -> Steps:
        """The steps, as a process of its own has them."""
        root = f"s3://{NAME}" if self.bucket else str(self.disk.root)
        place = {"stream": STREAM, "region": REGION, "dataset": f"{root}/lake-{scope[0]}"}
        pipeline = Pipeline(name=scope[0], **{**place, "ledger": "sqlite:///unused.db", **self.settings})
        return Steps(pipeline, self.ledger, namespace=scope[1])

    def start(self, name: str, scope: Scope, body: Callable[[], object]) -> Task:
        """Begin a process."""
        task = Task(f"{len(self.tasks) + len(self.over)}-{name}", scope, body)
        task.seen_over = len(self.over)
        task.began_ms = self.clock.now_ms()
        self.first_started_ms.setdefault(scope, task.began_ms)
        task.began_at = {shard_id: chain.position.key for shard_id, chain in self.chains(scope).items()}
        self.tasks.append(task)
        return task

    def chains(self, scope: Scope = MAIN) -> dict[str, Chain]:
        """Where the shards stand."""
        chains: dict[str, Chain] = self.ledger.store.chains(*scope)
        return chains

    def rows(self, scope: Scope = MAIN) -> list[LedgerRange]:
        """The ledger's rows."""
        return list(self.ledger.store.ranges(*scope))

    def go_on(self, task: Task) -> str:
        """Let a process do its next effect, and say which that was."""
        effect = str(task.before)
        if any(other.scope == task.scope and not other.failure for other in self.over[task.seen_over :]):
            self.scheduler.counts["zombies"] += 1  # it goes on after a successor went through
        self.scheduler.go_on(task)
        self._bury()
        task.seen_over = len(self.over)
        return effect

    def kill(self, task: Task) -> None:
        """End a process where it stands."""
        self.scheduler.kill(task)
        self.disk.date_what_is_left()
        self._bury()

    def kill_all(self) -> None:
        """End all processes."""
        for task in list(self.tasks):
            self.kill(task)

    @property
    def disturbed(self) -> bool:
        """Whether calls are about to fail."""
        return any(each.faults for each in self._disturbed)

    def calm(self) -> None:
        """No more calls fail."""
        for each in self._disturbed:
            each.faults.clear()

    def lose_power(self, seed: int) -> None:
        """End all processes; the disk forgets what was not synced."""
        self.kill_all()
        self.disk.lose_power(seed)
        self.scheduler.trace.append(f"power lost, {seed}")
        self.scheduler.counts["power losses"] += 1

    def _bury(self) -> None:
        for task in [task for task in self.tasks if task.before is None]:
            self.tasks.remove(task)
            self.over.append(task)
            self.scheduler.trace.append(f"{task.name} over: {task.failure!r}")
            if isinstance(task.failure, DataLossError):
                self.failed.append(task)
            elif not isinstance(task.failure, ShardlakeError | Killed | None):
                raise task.failure

    def end(self) -> None:
        """End what is under way."""
        for task in self.tasks:
            self.scheduler.kill(task)
