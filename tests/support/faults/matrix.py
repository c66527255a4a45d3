"""The crash matrix, whole or a part of it: which cells there are, running those that are not done, and the table."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from shutil import get_terminal_size
from typing import Protocol

from demo.background import Background
from demo.interruption import unwind_on_signals
from demo.object_store import ObjectStore, start_object_store
from demo.postgres import Postgres, postgres
from local_kinesis.process import running
from support.faults import spark, steps
from support.faults.airflow import cells as airflow_cells
from support.faults.airflow.tier import AirflowTier, lanes
from support.faults.boundaries import Boundary
from support.faults.report import markdown, table
from support.faults.results import OK, Cell, Outcome, Results, diagonally, tried
from support.lakes import bucket_of

LEDGERS = ("sqlite", "postgres")
TIERS = ("steps", "s3", "spark", "airflow")

_HERE = ExitStack()
"""What a worker process has for its life: its local Kinesis, which ends with it."""

_ASKS_S3 = re.compile(": (PUT|POST|DELETE)")
_SPARK_PART = "worker: link data/shard_id=*/*.parquet"


class Tier(Protocol):
    """Cells on one kind of processes."""

    def boundaries(self) -> list[Boundary]:
        """Every boundary of a clean run."""

    def run(self, boundary: Boundary, way: str) -> None:
        """Run a cell; raises what does not hold."""


def main(argv: list[str]) -> int:
    """Run the cells that are asked for and not done yet, and print the table; 1 where one did not come out well."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path(".faults/results.jsonl"), help="what was found so far")
    parser.add_argument("--markdown", action="store_true", help="run nothing: print the sums of what was found so far")
    parser.add_argument("--again", action="store_true", help="also cells that came out well before")
    parser.add_argument("--part", action="store_true", help="each boundary once, and little of Spark and Airflow")
    parser.add_argument("--only", default="", help='only cells with this text in "boundary; way"')
    parser.add_argument("--tier", choices=TIERS, action="append", help="only this one")
    parser.add_argument("--ledger", choices=LEDGERS, action="append", help="only this one, of steps")
    parser.add_argument("--jobs", type=int, default=2, help="how many cells of steps or Spark at once")
    arguments = parser.parse_args(argv)
    unwind_on_signals()
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
    results = Results(arguments.results)
    if arguments.markdown:
        print(markdown(results.all()))
        return 0
    with tempfile.TemporaryDirectory(prefix="shardlake-faults-") as folder:
        matrix = Matrix(Path(folder), results, arguments)
        cells: list[Cell] = []
        for tier in arguments.tier or TIERS:
            if tier == "steps":
                for ledger in arguments.ledger or LEDGERS:
                    cells += matrix.steps(ledger)
            else:
                cells += {"s3": matrix.s3, "spark": matrix.spark, "airflow": matrix.airflow}[tier]()
    width = get_terminal_size((120, 24)).columns
    print(table(results, cells, min(max(width, 100), 240)))
    return int(any(not results.is_done(cell) for cell in cells))


class Matrix:
    """Runs tiers one after the other.

    Args:
        asked: what the command line says.
    """

    def __init__(self, root: Path, results: Results, asked: argparse.Namespace) -> None:
        self._root, self._results, self._asked = root, results, asked

    def steps(self, ledger: str) -> list[Cell]:
        """Each step in a process of its own; the cells."""
        with ExitStack() as stack:
            server = stack.enter_context(_postgres(self._root)) if ledger == "postgres" else None
            tier = steps.StepsTier(self._root, stack.enter_context(running()), server and steps.Database(server))
            boundaries = _by_text(tier.boundaries())
            pairs = list(diagonally(list(boundaries), list(steps.WAYS)))
            cells = self._asked_for("steps", ledger, pairs[: len(boundaries)] if self._asked.part else pairs)
            self._in_processes(cells, boundaries, server=server)
        return cells

    def s3(self) -> list[Cell]:
        """The same with datasets in a bucket, ledgers in SQLite; the cells. A part of it is what asks the store."""
        folder = self._root / "store"
        folder.mkdir()
        with Background(folder / "processes.json") as background, running() as kinesis:
            store = start_object_store(folder, background)
            boundaries = _by_text(steps.StepsTier(self._root, kinesis, bucket=bucket_of(store)).boundaries())
            some = [each for each in boundaries if _ASKS_S3.search(each)] if self._asked.part else list(boundaries)
            pairs = list(diagonally(some, list(steps.WAYS)))
            cells = self._asked_for("s3", "sqlite", pairs[: len(some)] if self._asked.part else pairs)
            self._in_processes(cells, boundaries, store=store)
        return cells

    def spark(self) -> list[Cell]:
        """`shardlake run` with Spark; the cells."""
        with running() as kinesis:
            boundaries = _by_text(spark.SparkTier(self._root, kinesis).boundaries())
        some = [boundaries[_SPARK_PART]] if self._asked.part else list(boundaries.values())
        cells = self._asked_for("spark", "sqlite", list(spark.cells(some)))
        self._in_processes(cells, boundaries)
        return cells

    def airflow(self) -> list[Cell]:
        """Airflow with Spark; the cells."""
        ledgers = ["sqlite"] if self._asked.part else self._asked.ledger or LEDGERS
        with ExitStack() as stack:
            kinesis = stack.enter_context(running())
            background = stack.enter_context(Background(self._root / "airflow.json"))
            server = stack.enter_context(_postgres(self._root)) if "postgres" in ledgers else None
            tier = AirflowTier(self._root / "airflow-tier", kinesis, background, lanes(ledgers), server)
            tier.start()
            boundaries = _by_text(tier.boundaries())
            cells = self._asked_for("airflow", "sqlite", airflow_cells.PART) if self._asked.part else []
            for ledger in ledgers if not self._asked.part else ():
                pairs = list(airflow_cells.cells(list(boundaries.values()), ledger))
                cells += self._asked_for("airflow", ledger, pairs)
            self._write_down(cells, lambda todo: tier.outcomes(todo, boundaries))
        return cells

    def _asked_for(self, tier: str, ledger: str, pairs: Sequence[tuple[str, str]]) -> list[Cell]:
        only = self._asked.only
        return [Cell(tier, ledger, boundary, way) for boundary, way in pairs if only in f"{boundary}; {way}"]

    def _in_processes(
        self,
        cells: list[Cell],
        boundaries: Mapping[str, Boundary],
        server: Postgres | None = None,
        store: ObjectStore | None = None,
    ) -> None:
        """Run cells in worker processes: a fork server's processes are known to one thread alone."""
        place = (self._root, server, store)
        with ProcessPoolExecutor(self._asked.jobs, get_context("spawn"), initializer=_begin, initargs=place) as pool:
            self._write_down(cells, lambda todo: pool.map(_run, todo, [boundaries[cell.boundary] for cell in todo]))

    def _write_down(self, cells: Sequence[Cell], run: Callable[[list[Cell]], Iterator[Outcome]]) -> None:
        todo = [each for each in cells if self._asked.again or not self._results.is_done(each)]
        for number, outcome in enumerate(run(todo), 1):
            self._results.add(outcome)
            cell, said = outcome.cell, outcome.said if outcome.said == OK else f"FAILED: {outcome.said}"
            where = f"{number}/{len(todo)} {cell.tier} {cell.ledger}: {cell.boundary}"
            print(f"{where}; {cell.way}: {said} ({outcome.seconds} s)", flush=True)


def _begin(root: Path, server: Postgres | None, store: ObjectStore | None) -> None:
    global _tiers
    kinesis = _HERE.enter_context(running())
    _tiers = {
        "steps": steps.StepsTier(root, kinesis, server and steps.Database(server)),
        "s3": steps.StepsTier(root, kinesis, bucket=store and bucket_of(store)),
        "spark": spark.SparkTier(root, kinesis),
    }


_tiers: dict[str, Tier] = {}


def _run(cell: Cell, boundary: Boundary) -> Outcome:
    return tried(cell, lambda: _tiers[cell.tier].run(boundary, cell.way))


def _by_text(boundaries: Sequence[Boundary]) -> dict[str, Boundary]:
    return {str(each): each for each in boundaries}


@contextmanager
def _postgres(root: Path) -> Iterator[Postgres]:
    with Background(root / "postgres.json") as background, postgres(background) as server:
        yield server
