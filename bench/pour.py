"""Fills a stream as fast as the server takes it: bodies of PutRecords that are made once and sent again and again.

Records are JSON of words and numbers, all of one length, which zstd makes about a third of. They repeat after some
megabytes, further apart than a page of Parquet or a window of zstd reaches.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

from local_kinesis.process import LocalKinesis

CALL_RECORDS = 500
DISTINCT_RECORDS = 8_000
_HASH_KEY = "@hash-key@"
_HEADERS = {
    "Content-Type": "application/x-amz-json-1.1",
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request",
    "X-Amz-Target": "Kinesis_20131202.PutRecords",
}


def pour(server: LocalKinesis, stream: str, shards: int, records: int, data: list[bytes]) -> None:
    """Put as many records on every shard of a stream that has not been resharded.

    Args:
        records: on each shard.
        data: of the records, in turn.
    """
    connection = http.client.HTTPConnection(server.endpoint_url.removeprefix("http://"), timeout=60)
    calls = [data[at : at + CALL_RECORDS] for at in range(0, len(data), CALL_RECORDS)]
    bodies = [_body(stream, call) for call in calls]
    for shard in range(shards):
        hash_key = str((2**128 * shard + shards - 1) // shards).encode()
        for body in _enough(stream, calls, bodies, records):
            connection.request("POST", "/", body.replace(_HASH_KEY.encode(), hash_key), _HEADERS)
            reply = connection.getresponse()
            text = reply.read()
            if reply.status != 200 or not text.startswith(b'{"FailedRecordCount":0,'):
                raise RuntimeError(f"PutRecords: {reply.status} {text[:200]!r}")
    connection.close()


def _enough(stream: str, calls: list[list[bytes]], bodies: list[bytes], records: int) -> Iterator[bytes]:
    left, turn = records, 0
    while left > 0:
        call = calls[turn % len(calls)]
        yield bodies[turn % len(bodies)] if len(call) <= left else _body(stream, call[:left])
        left, turn = left - len(call), turn + 1


def _body(stream: str, data: list[bytes]) -> bytes:
    records: list[Mapping[str, Any]] = [
        {
            "Data": base64.b64encode(each).decode(),
            "PartitionKey": f"user-{row * 7919 % 9973}",
            "ExplicitHashKey": _HASH_KEY,
        }
        for row, each in enumerate(data)
    ]
    return json.dumps({"StreamName": stream, "Records": records}).encode()


def payloads(record_bytes: int, count: int) -> list[bytes]:
    """The data of as many records, or of so many that it takes megabytes until they come again."""
    chance = random.Random(6)  # noqa: S311 (the same data every time)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(2000)]
    return [_payload(chance, words, number, record_bytes) for number in range(min(count, DISTINCT_RECORDS))]


def _payload(chance: random.Random, words: list[str], number: int, record_bytes: int) -> bytes:
    head = f'{{"id":"{chance.getrandbits(128):032x}","number":{number},"amount":{chance.random():.4f},"text":"'
    text = " ".join(chance.choices(words, k=record_bytes // 5))
    return (head + text)[: record_bytes - 2].ljust(record_bytes - 2).encode() + b'"}'
