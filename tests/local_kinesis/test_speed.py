"""How fast records are served: measured with a client that reads the replies and looks for the next iterator only."""

from __future__ import annotations

import http.client
import json
import re
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from local_kinesis.items import made_up_items
from local_kinesis.process import running
from local_kinesis.produce import put_all

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDS = 100_000
ROUNDS = 5
SHARD = {"StreamName": "s", "ShardId": "shardId-000000000000"}
HEADERS = {
    "Content-Type": "application/x-amz-json-1.1",
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request",
}
# A machine that runs other tests beside this one reaches less than the 300,000 a core reaches alone.
LEAST_RECORDS_PER_S = 150_000


@pytest.mark.slow
def test_records_are_served_fast(capsys: pytest.CaptureFixture[str]) -> None:
    with running("--stream", "s:1") as server:
        put_all(server.client(), "s", islice(made_up_items(400), RECORDS))
        connection = http.client.HTTPConnection(server.endpoint_url.removeprefix("http://"), timeout=30)
        started, read_bytes = time.perf_counter(), 0
        for _ in range(ROUNDS):
            read_bytes += _read_all(connection)
        seconds = time.perf_counter() - started
        connection.close()
        assert server.stats()["records"] == ROUNDS * RECORDS
    rate = ROUNDS * RECORDS / seconds
    with capsys.disabled():
        print(
            f"\nlocal_kinesis: {rate:,.0f} records/s of 400 bytes, {read_bytes / seconds / 2**20:,.0f} MiB/s of replies"
        )
    assert rate > LEAST_RECORDS_PER_S


def _read_all(connection: http.client.HTTPConnection) -> int:
    reply = _call(connection, "GetShardIterator", SHARD | {"ShardIteratorType": "TRIM_HORIZON"})
    iterator, total = json.loads(reply)["ShardIterator"], 0
    while True:
        reply = _call(connection, "GetRecords", {"ShardIterator": iterator})
        total += len(reply)
        found = re.match(rb'\{"MillisBehindLatest":(\d+),"NextShardIterator":"([^"]+)"', reply)
        assert found
        if found[1] == b"0":
            return total
        iterator = found[2].decode()


def _call(connection: http.client.HTTPConnection, operation: str, body: Mapping[str, Any]) -> bytes:
    connection.request("POST", "/", json.dumps(body), HEADERS | {"X-Amz-Target": f"Kinesis_20131202.{operation}"})
    return connection.getresponse().read()
