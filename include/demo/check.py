"""What must be true of the dataset once everything was read: every flight is in it, exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

_READ = """
CREATE TABLE records AS
SELECT
    shard_id,
    sequence_number,
    sub_sequence_number,
    decode(data)->>'carrier' AS carrier,
    decode(data)->>'flight' AS flight,
    decode(data)->>'time_hour' AS time_hour
FROM read_parquet(?, hive_partitioning = true)
"""
_DIFFERENT = """
SELECT
    count(DISTINCT (carrier, flight, time_hour)),
    count(DISTINCT (shard_id, sequence_number, sub_sequence_number))
FROM records
"""


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """What a dataset has of one shard.

    Attributes:
        rows: the records.
        ranges: the files, one a range.
        bytes: their size.
    """

    rows: int
    ranges: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a dataset has in all.

    Attributes:
        shards: by shard.
        carriers: flights by carrier, as the JSON in the column `data` says.
        flights: how many different flights there are.
        positions: how many different (shard, sequence number, sub-sequence number) there are.
    """

    shards: Mapping[str, ShardFiles]
    carriers: Counter[str]
    flights: int
    positions: int


def check(dataset: Path, carriers: Mapping[str, int], shards: Mapping[str, int]) -> list[str]:
    """What is wrong with a dataset; nothing, if every flight is in it exactly once.

    Args:
        dataset: its folder.
        carriers: how many flights each carrier has, as the source says.
        shards: how many records each shard has acknowledged to the producer.
    """
    return differences(read_dataset(dataset), carriers, shards)


def differences(found: Found, carriers: Mapping[str, int], shards: Mapping[str, int]) -> list[str]:
    """How what was found differs from what was put, one sentence each; see `check`."""
    rows = sum(each.rows for each in found.shards.values())
    expected = sum(carriers.values())
    wrong = [
        f"{what}: {theirs} in the dataset, {ours} expected"
        for what, theirs, ours in (
            ("rows", rows, expected),
            ("different flights", found.flights, expected),
            ("different positions", found.positions, rows),
            *(
                (f"flights of {name}", found.carriers[name], carriers.get(name, 0))
                for name in {**found.carriers, **carriers}
            ),
            *((f"rows of {name}", _rows(found, name), shards.get(name, 0)) for name in {**found.shards, **shards}),
        )
        if theirs != ours
    ]
    return sorted(wrong)


def read_dataset(dataset: Path) -> Found:
    """Reads every file below `data/` of a dataset, as any reader of Parquet would."""
    files = sorted((dataset / "data").glob("shard_id=*/*.parquet"))
    if not files:
        return Found({}, Counter(), 0, 0)
    with duckdb.connect() as connection:
        connection.execute(_READ, [[str(file) for file in files]])
        rows = dict(connection.execute("SELECT shard_id, count(*) FROM records GROUP BY ALL").fetchall())
        carriers = dict(connection.execute("SELECT carrier, count(*) FROM records GROUP BY ALL").fetchall())
        ((flights, positions),) = connection.execute(_DIFFERENT).fetchall()
    sizes: dict[str, list[int]] = {}
    for file in files:
        sizes.setdefault(file.parent.name.removeprefix("shard_id="), []).append(file.stat().st_size)
    shards = {shard: ShardFiles(rows.get(shard, 0), len(each), sum(each)) for shard, each in sizes.items()}
    return Found(shards, Counter(carriers), flights, positions)


def _rows(found: Found, shard: str) -> int:
    return found.shards[shard].rows if shard in found.shards else 0
