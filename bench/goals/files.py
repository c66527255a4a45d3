"""Goal 11: what the files are like for those who read them, as their footers tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from bench.figures import Figure, Goal
from bench.pipeline import ingest
from bench.setting import Bench

MIB = 2**20
LOOKED_UP = ("sequence_number", "approximate_arrival_timestamp")
"""The columns that readers look records up by."""

SAMPLES = 100
NONE = Goal("at most", 0)


def measure(bench: Bench) -> Iterator[Figure]:
    """Sizes, codecs, statistics, and how many row groups a lookup reads."""
    place = bench.place("files")
    ingest(bench.large, place)
    paths = sorted((place / "lake" / "data").rglob("*.parquet"))
    footers = [pq.read_metadata(path) for path in paths]
    groups = [footer.row_group(index) for footer in footers for index in range(footer.num_row_groups)]
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    size = bench.large.data_bytes // len(paths) // MIB
    how = f"footers of {len(paths)} files, default settings; {size} MiB of data each"
    yield Figure(11, "file", "MiB", (median(path.stat().st_size / MIB for path in paths),), how)
    yield Figure(11, "row group, in the file", "MiB", (median(_size(group) / MIB for group in groups),), how)
    yield Figure(11, "row group", "rows", (median(group.num_rows for group in groups),), how)
    yield Figure(11, "column chunks not zstd", "", (sum(chunk.compression != "ZSTD" for chunk in chunks),), how, NONE)
    looked_up = [chunk for chunk in chunks if chunk.path_in_schema in LOOKED_UP]
    unhelpful = sum(not _can_be_looked_up(chunk) for chunk in looked_up)
    what = f"chunks of {' and '.join(LOOKED_UP)} without min, max and page index"
    yield Figure(11, what, "", (unhelpful,), how, NONE)
    dictionary = sorted({chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page})
    share = sum(chunk.total_compressed_size for chunk in chunks if not chunk.has_dictionary_page)
    whole = sum(chunk.total_compressed_size for chunk in chunks)
    yield Figure(
        11, "bytes in columns without a dictionary", "%", (100 * share / whole,), f"with: {', '.join(dictionary)}"
    )
    lookups = [_groups_of(path) for path in paths]
    sampled = f"the most row groups whose min and max hold one number, of {SAMPLES} records of each file"
    yield Figure(11, "row groups read for a sequence number", "", (max(lookups),), sampled, Goal("at most", 1))


def _size(group: Any) -> int:
    size: int = sum(group.column(index).total_compressed_size for index in range(group.num_columns))
    return size


def _can_be_looked_up(chunk: Any) -> bool:
    statistics = chunk.statistics
    return bool(statistics and statistics.has_min_max and chunk.has_column_index and chunk.has_offset_index)


def _groups_of(path: Path) -> int:
    """The most row groups that one of a file's sequence numbers may be in, by their statistics."""
    numbers = pq.read_table(path, columns=["sequence_number"], partitioning=None).column(0).to_pylist()
    footer = pq.read_metadata(path)
    column = footer.schema.to_arrow_schema().names.index("sequence_number")
    bounds = [footer.row_group(index).column(column).statistics for index in range(footer.num_row_groups)]
    sample = numbers[:: max(1, len(numbers) // SAMPLES)]
    found: list[int] = [sum(bound.min <= number <= bound.max for bound in bounds) for number in sample]
    return max(found)
