"""What commands print: JSON or lines on stdout, progress on stderr and only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

WIDE = 240
"""Columns of a table that is not shown on a terminal: nothing is folded or cut."""


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_array(values: Iterable[Mapping[str, Any]]) -> None:
    """One JSON array, each object on a line of its own as soon as it is there; closed also where an error ends it."""
    separator = "["
    try:
        for value in values:
            click.echo(f"{separator}\n{json.dumps(value, ensure_ascii=False)}", nl=False)
            separator = ","
    finally:
        click.echo("\n]" if separator == "," else "[]")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """A table; on a narrow terminal cells are folded, never cut.

    Args:
        right: the columns to align right.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else WIDE, highlight=False).print(table)


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """A moving line on stderr while something runs; nothing where stderr is not a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Progress()
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        yield _OnTerminal(bar, what)


class Progress:
    """Tells how far something has come."""

    def tell(self, text: str) -> None:
        """Show `text` beside the bar."""

    def line(self, text: str) -> None:
        """Print a line of a log on stderr, above the bar."""
        click.echo(text, err=True)


class _OnTerminal(Progress):
    def __init__(self, bar: Any, what: str) -> None:
        self._bar, self._task = bar, bar.add_task(what, total=None)

    def tell(self, text: str) -> None:
        self._bar.update(self._task, description=text)

    def line(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)


def size_text(size_bytes: int) -> str:
    """Bytes for people."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration_text(duration_ms: int | None) -> str:
    """A duration for people, in its two greatest units."""
    if duration_ms is None:
        return "-"
    seconds = duration_ms // 1000
    for unit_s, unit, part_s, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit_s:
            return f"{seconds // unit_s} {unit} {seconds % unit_s // part_s} {part}"
    return f"{seconds} s"


def count_text(count: int, one: str, many: str = "") -> str:
    """A count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
