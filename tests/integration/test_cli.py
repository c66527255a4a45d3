"""Each command against a real local Kinesis, a real SQLite ledger and real files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from support.command_line import CommandLine, write_config
from support.inline_engine import InlineEngine

from shardlake.batch import Steps
from shardlake.engines import IngestJob
from shardlake.errors import IngestError
from shardlake.ledger import open_ledger
from shardlake.names import LIVE
from shardlake.plan import Run

if TYPE_CHECKING:
    from tests.integration.conftest import World

INCLUDE = Path(__file__).parents[2] / "include"
SHARDS = ["shardId-000000000000", "shardId-000000000001"]


class PlannedOnlyEngine:
    """Fails as Spark does, after a line of log."""

    def run(self, job: IngestJob, log: Callable[[str], None]) -> None:
        log("java.lang.OutOfMemoryError")
        raise IngestError("spark-submit ended with exit code 1", todo="Its log is above")

    def cancel(self) -> None:
        pass


@pytest.fixture
def world(make_world: Callable[..., World], tmp_path: Path) -> World:
    """A stream of two shards whose ledger is a SQLite file, not made yet."""
    return make_world(shards=2, ledger_file=tmp_path / "ledger.db")


@pytest.fixture
def make_world(make_world: Callable[..., World]) -> Callable[..., World]:
    def make(shards: int, ledger_file: Path, **settings: Any) -> World:
        return make_world(shards, **{"ledger": None, **settings})

    return make
