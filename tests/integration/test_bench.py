"""What the bench measures with: streams filled fast, commands in processes of their own, clients that fetch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from bench.runs import BenchError, run
from bench.source import AGE_S, Source, filled, kinesis


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    with kinesis() as server:
        yield filled(server, "filled", 3, 1_100, 120)


def test_a_command_that_fails_is_told_with_the_end_of_its_log(source: Source, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="exit code 3.*what was wrong"):
        run(["sh", "-c", "echo what was wrong >&2; exit 3"], source, tmp_path / "run")


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(source: Source, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(BenchError, match="not done after 1 s"):
        run(["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"], source, tmp_path / "run", timeout_s=1)
    left = [each for each in psutil.process_iter(["pid", "status"]) if each.pid == int(pid.read_text())]
    assert [each.info["status"] for each in left] in ([], [psutil.STATUS_ZOMBIE])


def test_a_stream_has_as_many_records_on_every_shard_old_ones_and_a_new_one(source: Source) -> None:
    assert (source.records, source.data_bytes) == (3 * 1_101, 3 * 1_101 * 120)
    client = source.server.client()
    for shard_id in source.shard_ids:
        at = {"StreamName": "filled", "ShardId": shard_id, "ShardIteratorType": "TRIM_HORIZON"}
        records = client.get_records(ShardIterator=client.get_shard_iterator(**at)["ShardIterator"])["Records"]
        assert [len(record["Data"]) for record in records] == [120] * 1_101
        assert len({record["Data"] for record in records[:1_100]}) == 1_100
        arrivals = [record["ApproximateArrivalTimestamp"].timestamp() for record in records]
        assert arrivals[-1] - arrivals[-2] >= AGE_S


@pytest.mark.parametrize("way", ["shardlake", "boto3", "raw"])
def test_every_client_fetches_every_record(way: str, source: Source, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.children.fetch", source.server.endpoint_url, source.stream, way, "120"]
    source.server.control({"page_limit": 400})
    found = run([*command, *source.shard_ids], source, tmp_path / "run")
    source.server.control({"page_limit": None})
    assert found.said["records"] == source.records
    assert 0 < found.said["cpu_s"] < found.cpu_s
