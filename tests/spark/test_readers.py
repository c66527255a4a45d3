"""Whoever reads `<dataset>/data` plainly sees the same rows, and `shard_id` once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shardlake.batch import Steps
from shardlake.ingesting import ingest_ranges
from shardlake.plan import Run

pytestmark = pytest.mark.slow

COLUMNS = {
    "stream",
    "sequence_number",
    "sub_sequence_number",
    "partition_key",
    "explicit_hash_key",
    "approximate_arrival_timestamp",
    "data",
    "shard_id",
}

Row = tuple[str, str, int, str, bytes]


def with_spark(data: Path, spark: SparkSession) -> tuple[list[str], set[Row]]:
    frame = spark.read.parquet(str(data))
    rows = frame.select("shard_id", "sequence_number", "sub_sequence_number", "partition_key", "data").collect()
    return frame.columns, {(r[0], r[1], r[2], r[3], bytes(r[4])) for r in rows}


def with_pyarrow(data: Path, spark: SparkSession) -> tuple[list[str], set[Row]]:
    table = pq.read_table(data)
    return table.column_names, {_row(row) for row in table.to_pylist()}


def with_duckdb(data: Path, spark: SparkSession) -> tuple[list[str], set[Row]]:
    with duckdb.connect() as connection:
        result = connection.execute(f"SELECT * FROM '{data}/**/*.parquet'")
        columns = [name for name, *_ in result.description]
        return columns, {_row(dict(zip(columns, row, strict=True))) for row in result.fetchall()}


def with_polars(data: Path, spark: SparkSession) -> tuple[list[str], set[Row]]:
    frame = polars.read_parquet(data)
    return frame.columns, {_row(row) for row in frame.iter_rows(named=True)}


def _row(row: dict[str, Any]) -> Row:
    return (
        str(row["shard_id"]),
        row["sequence_number"],
        row["sub_sequence_number"],
        row["partition_key"],
        row["data"],
    )


@pytest.fixture
def dataset(steps: Callable[..., Steps]) -> tuple[Path, set[tuple[str, bytes]]]:
    items = [(f"plane-{n % 50}", b'{"n": %d}' % n) for n in range(1000)]
    made = steps(items, shards=3)
    plan = made.plan(Run("dag", "run"))
    assert [report.error for report in ingest_ranges(plan, list(plan.ranges))] == [None, None, None]
    return Path(made.home.url("data")), set(items)


@pytest.mark.parametrize("read", [with_spark, with_pyarrow, with_duckdb, with_polars])
def test_every_reader_sees_each_record_once_and_the_shard_id_once(
    dataset: tuple[Path, set[tuple[str, bytes]]],
    spark: SparkSession,
    read: Callable[[Path, SparkSession], tuple[list[str], set[Row]]],
) -> None:
    data, items = dataset
    columns, rows = read(data, spark)
    assert len(columns) == len(COLUMNS)
    assert set(columns) == COLUMNS
    assert len(rows) == 1000
    assert {(key, payload) for _, _, _, key, payload in rows} == items
    assert {shard for shard, *_ in rows} == {f"shardId-{n:012}" for n in range(3)}
