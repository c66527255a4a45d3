"""What came of cells, for people: boundaries by ways for a terminal, and sums of both for a page."""

from __future__ import annotations

import io
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.table import Table

from support.faults.results import OK, Cell, Outcome, Results

KINDS = {
    "a call of Kinesis": r"ask ",
    "a file or folder is made, written, removed": r"(open|mkdir|rmdir|remove|write|DELETE)\b",
    "something comes to disk": r"sync ",
    "a file gets its name": r"(link|rename|PUT|POST\?)",
    "the ledger's COMMIT": r"COMMIT ",
    "a message of Airflow's": r"(say|POST|PATCH) ",
    "a process begins or ends": r"(start|end)\b",
}
"""Boundaries by what comes next; the first that fits."""


def kind_of(boundary: str) -> str:
    """What comes next at a boundary.

    Raises:
        ValueError: an effect that is none of the kinds.
    """
    effect = boundary.partition(": ")[2]
    for kind, pattern in KINDS.items():
        if re.match(pattern, effect):
            return kind
    raise ValueError(f"no kind of boundary: {boundary}")


def table(results: Results, cells: Sequence[Cell], width: int) -> str:
    """Boundaries by ways, a table a tier and ledger; then the sum, and what did not hold.

    Args:
        width: of the terminal; from 100 on it fits.
    """
    out = io.StringIO()
    console = Console(file=out, width=width)
    for place in dict.fromkeys(map(_place, cells)):
        own = [cell for cell in cells if _place(cell) == place]
        letters = dict(zip(dict.fromkeys(cell.way for cell in own), string.ascii_uppercase, strict=False))
        console.print(_table(results, own, letters))
        console.print(
            "  ".join(f"{letter} {way}".replace(" ", "\N{NO-BREAK SPACE}") for way, letter in letters.items())
        )
        console.print("+ every check held  X not  ? not run yet", end="\n\n", markup=False)
    found = results.of(cells)
    said = Counter(outcome.said == OK for outcome in found)
    console.print(f"{len(cells)} cells: {said[True]} ok, {said[False]} failed, {len(cells) - said.total()} not run")
    for outcome in found:
        if outcome.said != OK:
            console.print(f"{outcome.cell}: {outcome.said}", markup=False)
    return out.getvalue()


def _table(results: Results, cells: Sequence[Cell], letters: dict[str, str]) -> Table:
    marks = {cell: "?" for cell in cells}
    marks |= {outcome.cell: "+" if outcome.said == OK else "X" for outcome in results.of(cells)}
    table = Table(title=f"killed before … and gone on with: {_place(cells[0])}")
    table.add_column("killed before", overflow="fold")
    for letter in letters.values():
        table.add_column(letter, justify="center", no_wrap=True)
    boundaries = list(dict.fromkeys(cell.boundary for cell in cells))
    for boundary, after in zip(boundaries, [*boundaries[1:], ""], strict=True):
        row = (Cell(cells[0].tier, cells[0].ledger, boundary, way) for way in letters)
        ends = boundary.partition(": ")[0] != after.partition(": ")[0]
        table.add_row(boundary, *(marks.get(cell, "") for cell in row), end_section=ends)
    return table


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Sums by way and by kind of boundary, a pair of tables a tier and ledger."""
    places = dict.fromkeys(_place(outcome.cell) for outcome in outcomes)
    by_place = ([outcome for outcome in outcomes if _place(outcome.cell) == place] for place in places)
    return "\n".join(line for own in by_place for line in _sums(own))


def _sums(outcomes: Sequence[Outcome]) -> Iterator[str]:
    boundaries = {outcome.cell.boundary for outcome in outcomes}
    failed = sum(outcome.said != OK for outcome in outcomes)
    yield f"**{_place(outcomes[0].cell)}**: {len(outcomes)} cells at {len(boundaries)} boundaries, {failed} failed"
    yield ""
    yield from _rows("gone on with", outcomes, lambda cell: cell.way)
    yield from _rows("killed before", outcomes, lambda cell: kind_of(cell.boundary))


def _rows(title: str, outcomes: Sequence[Outcome], by: Callable[[Cell], str]) -> Iterator[str]:
    yield from (f"| {title} | cells | ok | failed |", "| --- | ---: | ---: | ---: |")
    counts = Counter((by(outcome.cell), outcome.said == OK) for outcome in outcomes)
    for name in dict.fromkeys(by(outcome.cell) for outcome in outcomes):
        good, bad = counts[name, True], counts[name, False]
        yield f"| {name} | {good + bad} | {good} | {bad} |"
    yield ""


def _place(cell: Cell) -> str:
    return f"{cell.tier}, ledger in {'PostgreSQL' if cell.ledger == 'postgres' else 'SQLite'}"
