"""The outcomes of cells, kept in a file of JSON lines, so that a matrix can be gone on with."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

OK = "ok"


@dataclass(frozen=True, slots=True)
class Cell:
    """One boundary, and one way to go on after a kill there.

    Attributes:
        tier: on what it runs: `steps`, `spark`, `airflow`.
        ledger: `sqlite` or `postgres`.
        boundary: as text.
    """

    tier: str
    ledger: str
    boundary: str
    way: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a cell.

    Attributes:
        said: `ok`, or what did not hold.
    """

    cell: Cell
    said: str
    seconds: float


def tried(cell: Cell, run: Callable[[], object]) -> Outcome:
    """Run a cell; nothing that it raises goes further."""
    began = time.monotonic()
    try:
        run()
        said = OK
    except Exception as exc:
        frame = traceback.extract_tb(exc.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}: {frame.line}"
        said = f"{type(exc).__name__}: {exc} ({where})"[:2000]
    return Outcome(cell, said, round(time.monotonic() - began, 2))


def diagonally(boundaries: Sequence[str], ways: Sequence[str]) -> Iterator[tuple[str, str]]:
    """All pairs; after the first `len(boundaries)` of them each boundary was there once, and so on."""
    for turn in range(len(ways)):
        for row, boundary in enumerate(boundaries):
            yield boundary, ways[(row + turn) % len(ways)]


class Results:
    """The outcomes in a file; the last one of a cell counts."""

    def __init__(self, file: Path) -> None:
        self._file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self._outcomes: dict[Cell, Outcome] = {}
        for line in map(json.loads, lines):
            outcome = Outcome(Cell(**line["cell"]), line["said"], line["seconds"])
            self._outcomes[outcome.cell] = outcome

    def is_done(self, cell: Cell) -> bool:
        """Whether a cell came out well."""
        return cell in self._outcomes and self._outcomes[cell].said == OK

    def all(self) -> list[Outcome]:
        """The last outcome of every cell."""
        return list(self._outcomes.values())

    def of(self, cells: Iterable[Cell]) -> list[Outcome]:
        """The outcomes of those cells that have one."""
        return [self._outcomes[cell] for cell in cells if cell in self._outcomes]

    def add(self, outcome: Outcome) -> None:
        """Write down what came of a cell."""
        self._outcomes[outcome.cell] = outcome
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
