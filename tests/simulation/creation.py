"""Making a simulated world, and its end."""

from __future__ import annotations

import itertools
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from local_kinesis.stream import MAX_RECORD_BYTES
from shardlake.ledger import Ledger, open_ledger
from shardlake.ledger.memory import MemoryLedger
from simulation import clock as clocks
from simulation.bucket import Bucket
from simulation.disk import SimulatedDisk
from simulation.edge import REGION, SimulatedSession
from simulation.producer import STREAM
from simulation.service import Service
from simulation.tasks import Scheduler
from simulation.world import World


@contextmanager
def simulated(shards: int, database: bool = False, bucket: bool = False, **settings: Any) -> Iterator[World]:
    """A world, for as long as the context lasts.

    Args:
        database: the ledger is SQLite's, not the one in memory. It syncs itself, which nobody in this process can
            keep it from: what it has committed lasts.
        bucket: datasets lie on S3.
        settings: of the pipelines.
    """
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir=_in_memory()) as folder:
        clock, scheduler = clocks.SimulatedClock(), Scheduler()
        ids = itertools.count(1)
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(ids)))
        service = Service(clock, scheduler.effect)
        service.account.create(REGION, STREAM, "PROVISIONED", shards, MAX_RECORD_BYTES)
        s3 = Bucket(clock, scheduler.effect)
        patch.setattr(boto3, "Session", SimulatedSession)
        patch.setattr(SimulatedSession, "services", {"kinesis": service.answer, "s3": s3.answer})
        clocks.install(patch, clock, scheduler.slept)
        root = Path(folder) / "disk"
        root.mkdir()
        disk = SimulatedDisk(root, clock, scheduler.effect)
        disk.install(patch)

        def new_ledger() -> Ledger:
            return open_ledger(f"sqlite:///{folder}/{next(ids)}.db") if database else MemoryLedger()

        world = World(clock, scheduler, service, disk, s3 if bucket else None, new_ledger, settings)
        try:
            yield world
        finally:
            world.end()


def _in_memory() -> str | None:
    """A folder of this machine's memory, where it has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
