"""The tables that the demo ends with."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from demo.check import Found, ShardFiles

_NO_FILES = ShardFiles(0, 0, 0)


def shards_table(found: Found, acknowledged: Mapping[str, int]) -> Table:
    """By shard: the records that the stream took, and the rows, ranges and bytes of the dataset."""
    table = Table(title="By shard: records put on the stream, and what is in Parquet", title_justify="left")
    table.add_column("shard", no_wrap=True)
    for heading in ("put", "rows", "ranges", "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    names = sorted({**found.shards, **acknowledged})
    for name in names:
        files = found.shards.get(name, _NO_FILES)
        table.add_row(name, *_numbers(acknowledged.get(name, 0), files.rows, files.ranges, files.bytes))
    table.add_section()
    sums = [sum(getattr(each, what) for each in found.shards.values()) for what in ("rows", "ranges", "bytes")]
    table.add_row("all", *_numbers(sum(acknowledged.values()), *sums))
    return table


def carriers_table(found: Found, expected: Mapping[str, int]) -> Table:
    """By carrier: the flights of the CSV beside those read back from Parquet."""
    table = Table(title="By carrier", title_justify="left")
    table.add_column("carrier")
    for heading in ("flights in the CSV", "flights in Parquet"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in sorted({**found.carriers, **expected}):
        table.add_row(name, *_numbers(expected.get(name, 0), found.carriers[name]))
    table.add_section()
    table.add_row("all", *_numbers(sum(expected.values()), found.carriers.total()))
    return table


def _numbers(*numbers: int) -> list[str]:
    return [f"{number:,}" for number in numbers]
