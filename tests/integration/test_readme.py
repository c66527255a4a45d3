"""README's usage section: each command in it is run, on a pipeline that has something for it to do."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from shardlake.batch import Steps
from shardlake.ledger import Ledger, open_ledger
from shardlake.names import LIVE
from shardlake.plan import Run
from support.command_line import CommandLine, entry_of, write_config

if TYPE_CHECKING:
    from tests.integration.conftest import World

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
TIME = re.compile(r"2026-11-20T0(?:0|6):00:00Z")


def commands(heading: str) -> list[list[str]]:
    """The command lines in the blocks of a part of the README, without `shardlake`."""
    (part,) = re.findall(rf"^### {heading}\n(.*?)^##", README, re.DOTALL | re.MULTILINE)
    lines = [
        line for block in re.findall(r"^```\n(.*?)^```", part, re.DOTALL | re.MULTILINE) for line in block.split("\n")
    ]
    found = [shlex.split(line) for line in lines if line]
    assert found
    assert {line[0] for line in found} == {"shardlake"}
    return [line[1:] for line in found]


@pytest.fixture
def shardlake(world: World) -> CommandLine:
    """The command line on a pipeline `clicks` that has committed two batches."""
    command = write_config(world.root.parent / "pipelines.yaml", clicks=entry_of(world))
    for _ in range(2):
        world.produce(60)
        assert command("run", "clicks").exit_code == 0
    return command


def ledger(world: World) -> Ledger:
    return open_ledger(f"sqlite:///{world.root}/ledger.db")


def test_backfill(world: World, shardlake: CommandLine) -> None:
    lines = commands("Backfill")
    assert [line[0] for line in lines] == ["backfill", "backfill", "backfill", "backfills", "audit", "files"]
    rows = pq.read_table(world.root / "lake" / "data", columns=["approximate_arrival_timestamp"]).to_pydict()
    arrivals = rows["approximate_arrival_timestamp"]
    bounds = iter([min(arrivals).isoformat(), (max(arrivals) + timedelta(milliseconds=1)).isoformat()] * 2)
    for line in lines:
        done = shardlake(*(TIME.sub(lambda _: next(bounds), word) for word in line))
        assert done.exit_code == 0, done.output
    assert pq.read_table(world.root / "lake" / "backfill" / "night" / "data").num_rows == 120
    assert len(done.stdout.splitlines()) == len(list(ledger(world).ranges("clicks", "night")))


def test_retry(world: World, shardlake: CommandLine) -> None:
    world.produce(30)
    Steps(world.pipeline.model_copy(update={"name": "clicks"}), ledger(world)).plan(Run("dag", "cut short"))
    for line in commands("Retry"):
        done = shardlake(*line)
        assert done.exit_code == 0, done.output
    world.assert_every_record_is_there_once()


def test_repair(world: World, shardlake: CommandLine) -> None:
    world.produce(30)
    Steps(world.pipeline.model_copy(update={"name": "clicks"}), ledger(world)).plan(Run("dag", "not as planned"))
    sorted((world.root / "lake" / "data").rglob("*.parquet"))[0].unlink()
    for line in commands("Repair"):
        done = shardlake(*line)
        assert done.exit_code == 0, done.output
    assert [entry.action for entry in ledger(world).journal("clicks")] == ["repair", "abandon"]
    assert [row.state for row in ledger(world).ranges("clicks", LIVE)] == ["committed"] * 2
    assert shardlake("run", "clicks").exit_code == 0
    world.assert_every_record_is_there_once()
