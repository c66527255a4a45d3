"""A simulated world: a stream, a disk, a ledger, and the processes of a pipeline, which are the product's own code."""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from local_kinesis.stream import MAX_RECORD_BYTES
from shardlake.abandon import abandon
from shardlake.batch import Steps
from shardlake.config import Pipeline
from shardlake.errors import ShardlakeError
from shardlake.ledger import Chain, JournalEntry, Ledger, open_ledger
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import LIVE, batch_id
from shardlake.plan import Run
from shardlake.ranges import SequenceRange
from simulation import clock as clocks
from simulation.disk import SimulatedDisk
from simulation.producer import STREAM, Producer
from simulation.service import REGION, Service, SimulatedSession
from simulation.stepped import SteppedLedger
from simulation.tasks import Killed, Scheduler, Task
from support.inline_engine import InlineEngine

PIPELINE = "p"
STEPS = ("plan", "ingest", "verify", "commit")
_A_BUG = re.compile(r" through \S+: \w+(Error|Exception|Exit): ")
"""How ingest reports an exception that is none of ours."""


@dataclass
class World:
    """Everything there is."""

    clock: clocks.SimulatedClock
    scheduler: Scheduler
    service: Service
    disk: SimulatedDisk
    store: Ledger
    settings: dict[str, Any]
    tasks: list[Task] = field(default_factory=list)
    over: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer(self.service)
        self.ledger = SteppedLedger(self.store, self.scheduler)

    @property
    def lake(self) -> Path:
        """The dataset's folder."""
        lake: Path = self.disk.root / "lake"
        return lake

    def steps(self, namespace: str = LIVE) -> Steps:
        """The steps, as a process of its own has them."""
        place = {"stream": STREAM, "region": REGION, "dataset": str(self.lake), "ledger": "sqlite:///unused.db"}
        return Steps(Pipeline(name=PIPELINE, **{**place, **self.settings}), self.ledger, namespace=namespace)

    def start(self, kind: str, run: str) -> Task:
        """Begin a process: one step of a run, or the whole `run`."""
        task = Task(f"{len(self.tasks) + len(self.over)}-{kind}-{run}", lambda: self._work(kind, run))
        self.tasks.append(task)
        return task

    def give_up(self, range_: SequenceRange) -> Task:
        """Begin a process that abandons an open range."""
        entry = JournalEntry(0, "ada", "abandon", PIPELINE, LIVE, range_, "a reason")
        task = Task(f"abandon {range_}", lambda: abandon(self.steps(), range_, entry))
        self.tasks.append(task)
        return task

    def chains(self) -> dict[str, Chain]:
        """Where the shards stand."""
        return self.store.chains(PIPELINE, LIVE)

    def _work(self, kind: str, run: str) -> None:
        steps, of_run = self.steps(), Run("dag", run)
        batch = batch_id(PIPELINE, LIVE, of_run.dag_id, of_run.run_id)
        match kind:
            case "run":
                steps.run(of_run, InlineEngine(), _no_bug)
            case "plan":
                steps.plan(of_run)
            case "ingest":
                for group in range(len(steps.pinned(batch).groups)):
                    steps.ingest(batch, group, InlineEngine(), _no_bug)
            case "verify":
                steps.verify(batch)
            case "commit":
                steps.commit(batch)

    def go_on(self, task: Task) -> str:
        """Let a process do its next effect, and say which that was."""
        effect = str(task.before)
        self.scheduler.go_on(task)
        self._bury()
        return effect

    def finish(self, task: Task) -> None:
        """Let a process do all that it has left to do."""
        while task.before is not None:
            self.go_on(task)

    def kill(self, task: Task) -> None:
        """End a process where it stands."""
        self.scheduler.kill(task)
        self.disk.date_what_is_left()
        self._bury()

    def lose_power(self, seed: int) -> None:
        """End all processes; the disk forgets what was not synced."""
        for task in list(self.tasks):
            self.kill(task)
        self.disk.lose_power(seed)
        self.scheduler.trace.append(f"power lost, {seed}")

    def _bury(self) -> None:
        for task in [task for task in self.tasks if task.before is None]:
            self.tasks.remove(task)
            self.over.append(task)
            self.scheduler.trace.append(f"{task.name} over: {task.failure!r}")
            if not isinstance(task.failure, ShardlakeError | Killed | None):
                raise task.failure

    def end(self) -> None:
        """End what is under way."""
        for task in self.tasks:
            self.scheduler.kill(task)


def _no_bug(line: str) -> None:
    assert not _A_BUG.search(line), line


@contextmanager
def simulated(shards: int, database: bool = False, **settings: Any) -> Iterator[World]:
    """A world, for as long as the context lasts.

    Args:
        database: the ledger is SQLite's, not the one in memory.
        settings: of the pipeline.
    """
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir=_in_memory()) as folder:
        clock, scheduler = clocks.SimulatedClock(), Scheduler()
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))
        service = Service(clock, scheduler.effect)
        service.account.create(REGION, STREAM, "PROVISIONED", shards, MAX_RECORD_BYTES)
        patch.setattr(boto3, "Session", SimulatedSession)
        patch.setattr(SimulatedSession, "service", service, raising=False)
        clocks.install(patch, clock, scheduler.slept)
        root = Path(folder) / "disk"
        root.mkdir()
        store: Ledger = open_ledger(f"sqlite:///{folder}/ledger.db") if database else MemoryLedger()
        disk = SimulatedDisk(root, clock, scheduler.effect)
        disk.install(patch)
        world = World(clock, scheduler, service, disk, store, settings)
        try:
            yield world
        finally:
            world.end()


def _in_memory() -> str | None:
    """A folder of this machine's memory, where it has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
