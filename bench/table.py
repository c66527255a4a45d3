"""The table of a run's figures, for people; how each was taken stands below it, under a letter."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from bench.figures import Figure, number_text

COLOURS = {"reached": "green", "missed": "red", "not measured": "yellow", "": ""}


def table_of(figures: Sequence[Figure], title: str) -> Table:
    """One row a figure."""
    marks = _marks(figures)
    table = Table(title=title, title_justify="left")
    table.add_column("#", justify="right")
    table.add_column("what", overflow="fold")
    for column in ("measured", "goal"):
        table.add_column(column, justify="right", overflow="fold")
    table.add_column("", no_wrap=True)
    table.add_column("how", no_wrap=True)
    for row, figure in enumerate(figures):
        verdict = Text(figure.verdict, COLOURS[figure.verdict])
        last = row + 1 == len(figures) or figures[row + 1].section != figure.section
        cells = (str(figure.section), Text(_what(figure)), _measured(figure), str(figure.goal or ""))
        table.add_row(*cells, verdict, marks[figure.how], end_section=last)
    return table


def notes_of(figures: Sequence[Figure]) -> list[str]:
    """How the figures were taken, or why they were not: a line a letter of the table."""
    return [f"{mark}  {how}" for how, mark in _marks(figures).items()]


def _marks(figures: Sequence[Figure]) -> dict[str, str]:
    hows = dict.fromkeys(figure.how for figure in figures)
    return {how: _letters(number) for number, how in enumerate(hows)}


def _letters(number: int) -> str:
    """a, b, … z, aa, ab, …"""
    before, last = divmod(number, 26)
    return (_letters(before - 1) if before else "") + chr(ord("a") + last)


def _what(figure: Figure) -> str:
    return figure.what if figure.at is None else f"{figure.what}: {figure.at:,.0f}"


def _measured(figure: Figure) -> str:
    if figure.value is None:
        return "-"
    spread = f" ({number_text(min(figure.taken))} to {number_text(max(figure.taken))})" if len(figure.taken) > 1 else ""
    return f"{number_text(figure.value)} {figure.unit}{spread}"
