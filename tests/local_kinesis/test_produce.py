"""produce: every record of a file, or of a rate, onto the stream, once each."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local_kinesis.__main__ import main
from local_kinesis.items import file_items, made_up_items
from local_kinesis.produce import Acknowledged, put_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.local_kinesis.conftest import StreamUnderTest

    from local_kinesis.process import LocalKinesis

INCLUDE = Path(__file__).resolve().parents[2] / "include"
LINES = [json.dumps({"plane": f"N{i % 7}", "flight": i}).encode() for i in range(1234)]


def test_all_items_arrive_and_are_acknowledged(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(3)
    acknowledged = put_all(stream.client, stream.name, [(f"k{i}", str(i).encode()) for i in range(1200)])
    assert [record.data_sha256 for record in acknowledged] == [_sha256(str(i).encode()) for i in range(1200)]
    assert _stored(stream, 3) == {_place(record) for record in acknowledged}
    assert stream.server.stats()["operations"]["PutRecords"] == 3


def test_only_the_failed_records_of_a_reply_are_put_again(stream: StreamUnderTest) -> None:
    stream.server.control({"fail_put_records": 300})
    acknowledged = put_all(stream.client, stream.name, [("k", str(i).encode()) for i in range(600)])
    assert sorted(int(data) for data in stream.read()) == list(range(600))
    assert _stored(stream, 1) == {_place(record) for record in acknowledged}
    # 500 of which 250 fail, these of which 50 fail, these, and the last 100.
    assert stream.server.stats()["operations"]["PutRecords"] == 4


def test_large_records_are_put_in_calls_of_five_mebibytes(stream: StreamUnderTest) -> None:
    acknowledged = put_all(stream.client, stream.name, [("k", bytes(2**20 - 1))] * 7)
    assert [record.data_bytes for record in acknowledged] == [2**20 - 1] * 7
    assert stream.server.stats()["operations"]["PutRecords"] == 2


def test_a_refused_call_ends_the_producing(stream: StreamUnderTest) -> None:
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="larger than the stream's"):
        put_all(stream.client, stream.name, [("k", bytes(2**20))])


def test_a_file_s_lines_arrive_with_their_field_as_the_key(
    make_stream: Callable[..., StreamUnderTest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = make_stream(4)
    path, log = tmp_path / "flights.jsonl", tmp_path / "acknowledged.jsonl"
    path.write_bytes(b"\n".join(LINES) + b"\n")
    assert _produce(stream, "--file", path, "--partition-key-field", "plane", "--acknowledged", log) == 0
    summary = _summary(capsys)
    records = [record for shard in range(4) for record in stream.page(stream.iterator(shard=shard))["Records"]]
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted(record["Data"] for record in records) == sorted(LINES)
    assert {record["PartitionKey"] for record in records} == {f"N{i}" for i in range(7)}
    assert (summary["records"], summary["bytes"]) == (1234, sum(map(len, LINES)))
    assert summary["shards"] == dict(sorted(Counter(line["shard_id"] for line in logged).items()))
    assert {line["sequence_number"]: line["sha256"] for line in logged} == {
        record["SequenceNumber"]: _sha256(record["Data"]) for record in records
    }


def test_a_line_without_the_field_has_a_hash_as_its_key(tmp_path: Path) -> None:
    lines = [b'{"plane":"N1"}', b'{"plane":null}', b'{"plane":7}', b"plain", b"[1]", b"", b"\xff"]
    path = tmp_path / "lines"
    path.write_bytes(b"\r\n".join(lines))
    kept = [line for line in lines if line]
    keys = ["N1", _sha256(lines[1])[:32], "7", *(_sha256(line)[:32] for line in kept[3:])]
    assert list(file_items(path, "plane")) == list(zip(keys, kept, strict=True))
    assert list(file_items(path, None)) == [(_sha256(line)[:32], line) for line in kept]


def test_made_up_records_are_json_of_the_length_asked_for() -> None:
    items = list(islice(made_up_items(400), 1000))
    assert {len(data) for _, data in items} == {400}
    assert [json.loads(data)["number"] for _, data in items] == list(range(1000))
    assert [json.loads(data)["key"] for _, data in items] == [key for key, _ in items]


def test_a_count_of_records_is_put_as_fast_as_it_goes(
    stream: StreamUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _produce(stream, "--count", 2500, "--record-bytes", 100) == 0
    summary = _summary(capsys)
    assert (summary["records"], summary["bytes"]) == (2500, 250_000)
    assert summary["shards"] == {"shardId-000000000000": 2500}
    assert [json.loads(data)["number"] for data in stream.read()] == list(range(2500))


@pytest.mark.slow
def test_a_rate_is_kept_for_the_seconds_asked_for(stream: StreamUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    assert _produce(stream, "--rate", 200, "--seconds", 2.2) == 0
    output = capsys.readouterr()
    summary = json.loads(output.out)
    assert summary["records"] == 440
    assert summary["seconds"] >= 2.1
    assert re.fullmatch(r"produce: \d+ records, \d+/s\n", output.err)
    arrivals = [r["ApproximateArrivalTimestamp"] for r in stream.page(stream.iterator())["Records"]]
    assert (arrivals[-1] - arrivals[0]).total_seconds() > 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "made-up records need --count, or --rate and --seconds"),
        (("--seconds", "1"), "--seconds needs --rate"),
        (("--rate", "0", "--seconds", "1"), "--rate must be above 0"),
        (("--rate", "1", "--seconds", "1", "--count", "1"), "exclude each other"),
        (("--file", "absent"), "--file absent is not a file"),
        (("--count", "1", "--partition-key-field", "f"), "--partition-key-field needs --file"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    stream: StreamUnderTest, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        _produce(stream, *options)
    assert message in capsys.readouterr().err


def test_a_missing_stream_is_one_clear_message(server: LocalKinesis) -> None:
    command = [sys.executable, "-m", "local_kinesis", "produce", "--endpoint-url", server.endpoint_url]
    options = ["--region", "us-east-1", "--stream", "absent", "--count", "1"]
    ended = subprocess.run([*command, *options], cwd=INCLUDE, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert "Stream absent under account 000000000000 not found. (0 records were acknowledged before)" in ended.stderr


def _produce(stream: StreamUnderTest, *options: object) -> int:
    place = ["--endpoint-url", stream.server.endpoint_url, "--region", "us-east-1", "--stream", stream.name]
    return main(["produce", *place, *map(str, options)])


def _summary(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    return summary


def _stored(stream: StreamUnderTest, shards: int) -> set[tuple[str, str, str]]:
    return {
        (f"shardId-{shard:012d}", record["SequenceNumber"], _sha256(record["Data"]))
        for shard in range(shards)
        for record in stream.page(stream.iterator(shard=shard))["Records"]
    }


def _place(record: Acknowledged) -> tuple[str, str, str]:
    return record.shard_id, record.sequence_number, record.data_sha256


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
