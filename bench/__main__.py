"""The command line: `python -m bench` takes every figure, `… --quick` smaller ones, `… --only planner` one goal's."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from bench.figures import Figure, not_measured
from bench.goals import (
    aggregates,
    end_to_end,
    fetch_decode,
    files,
    latency,
    ledger,
    memory,
    micro_batch,
    peers,
    planner,
    quota,
)
from bench.results import draw, write_results
from bench.runs import BenchError
from bench.setting import Bench
from bench.sizes import FULL, QUICK
from bench.table import notes_of, table_of
from demo.interruption import unwind_on_signals
from local_kinesis.process import LocalKinesisError

GOALS: dict[str, tuple[int, Callable[[Bench], Iterator[Figure]]]] = {
    "fetch_decode": (1, fetch_decode.measure),
    "end_to_end": (2, end_to_end.measure),
    "peers": (3, peers.measure),
    "quota": (4, quota.measure),
    "latency": (5, latency.measure),
    "aggregates": (6, aggregates.measure),
    "memory": (7, memory.measure),
    "planner": (8, planner.measure),
    "ledger": (9, ledger.measure),
    "micro_batch": (10, micro_batch.measure),
    "files": (11, files.measure),
}


def main(arguments: list[str]) -> int:
    """Take the figures, print the table, write the results; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: some minutes instead of some forty")
    parser.add_argument("--only", action="append", choices=GOALS, help="this goal; can be given again")
    options = parser.parse_args(arguments)
    unwind_on_signals()
    console = Console()
    sizes = QUICK if options.quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="shardlake-bench-"))
    begun_s = time.monotonic()
    try:
        with Bench(sizes, folder, lambda text: console.print(text, style="dim")) as bench:
            figures = [figure for name in options.only or GOALS for figure in figures_of(name, bench)]
    finally:
        shutil.rmtree(folder)
    minutes = (time.monotonic() - begun_s) / 60
    console.print(table_of(figures, f"bench, sizes {sizes.name}, {minutes:.0f} min"))
    for note in notes_of(figures):
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    results = write_results(sizes, figures)
    if bench.peers_python:
        draw(results, bench.peers_python)
    console.print(f"{results} has the figures", soft_wrap=True)
    return int(any(figure.verdict == "missed" for figure in figures))


def figures_of(name: str, bench: Bench) -> list[Figure]:
    """The figures of one goal; what fails is a row of its own, and the other goals go on."""
    number, measure = GOALS[name]
    bench.say(f"goal {number}, {name}")
    figures: list[Figure] = []
    try:
        figures.extend(measure(bench))
    except (BenchError, LocalKinesisError) as exc:
        figures.append(not_measured(number, name, str(exc)))
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
