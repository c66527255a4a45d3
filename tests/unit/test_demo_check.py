"""The demo's check: it passes for a whole dataset and says what is wrong with any other."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.check import ShardFiles, check, read_dataset

CARRIERS = {"AA": 2, "UA": 3}
SHARDS = {"shardId-000000000000": 3, "shardId-000000000001": 2}
_FILES = {
    "shardId-000000000000": {"0-7": [("UA", 1), ("UA", 2)], "7-9": [("AA", 1)], "9-SHARD_END": []},
    "shardId-000000000001": {"0-5": [("AA", 2), ("UA", 3)]},
}


def _write(file: Path, flights: Iterable[tuple[str, int]]) -> None:
    records = [
        {
            "sequence_number": f"{file.stem}-{position}",
            "sub_sequence_number": 0,
            "data": json.dumps({"carrier": carrier, "flight": flight, "time_hour": "2013-01-01T10:00:00Z"}).encode(),
        }
        for position, (carrier, flight) in enumerate(flights)
    ]
    columns = {"sequence_number": pa.string(), "sub_sequence_number": pa.int64(), "data": pa.binary()}
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(records, schema=pa.schema(columns)), file)


def _file(dataset: Path, shard: str, name: str) -> Path:
    return dataset / "data" / f"shard_id={shard}" / f"{name}.parquet"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    for shard, files in _FILES.items():
        for name, flights in files.items():
            _write(_file(tmp_path, shard, name), flights)
    return tmp_path


def test_a_whole_dataset_passes(dataset: Path) -> None:
    assert check(dataset, CARRIERS, SHARDS) == []


def test_what_is_found_is_counted_by_shard_and_carrier(dataset: Path) -> None:
    sizes = {
        shard: sum(file.stat().st_size for file in (dataset / "data" / f"shard_id={shard}").iterdir())
        for shard in _FILES
    }

    found = read_dataset(dataset)

    assert found.carriers == Counter(CARRIERS)
    assert found.shards == {
        "shardId-000000000000": ShardFiles(rows=3, ranges=3, bytes=sizes["shardId-000000000000"]),
        "shardId-000000000001": ShardFiles(rows=2, ranges=1, bytes=sizes["shardId-000000000001"]),
    }


def test_a_deleted_file_is_missed(dataset: Path) -> None:
    _file(dataset, "shardId-000000000000", "7-9").unlink()

    assert check(dataset, CARRIERS, SHARDS) == [
        "different flights: 4 in the dataset, 5 expected",
        "flights of AA: 1 in the dataset, 2 expected",
        "rows of shardId-000000000000: 2 in the dataset, 3 expected",
        "rows: 4 in the dataset, 5 expected",
    ]


def test_the_last_file_of_a_shard_is_missed(dataset: Path) -> None:
    _file(dataset, "shardId-000000000001", "0-5").unlink()

    assert "rows of shardId-000000000001: 0 in the dataset, 2 expected" in check(dataset, CARRIERS, SHARDS)


def test_an_empty_dataset_has_nothing(tmp_path: Path) -> None:
    assert "rows: 0 in the dataset, 5 expected" in check(tmp_path, CARRIERS, SHARDS)


def test_a_record_that_is_there_twice_is_noticed_although_another_is_missing(dataset: Path) -> None:
    _write(_file(dataset, "shardId-000000000000", "0-7"), [("UA", 1), ("UA", 1)])

    assert check(dataset, CARRIERS, SHARDS) == ["different flights: 4 in the dataset, 5 expected"]


def test_a_position_that_is_there_twice_is_noticed(dataset: Path) -> None:
    twice = pq.ParquetFile(_file(dataset, "shardId-000000000000", "7-9")).read()
    pq.write_table(pa.concat_tables([twice, twice]), _file(dataset, "shardId-000000000000", "7-9"))

    assert "different positions: 5 in the dataset, 6 expected" in check(dataset, CARRIERS, SHARDS)
