"""The control endpoint: denied operations, counts, and orders that are refused as a whole."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest

from local_kinesis.process import LocalKinesis, LocalKinesisError

if TYPE_CHECKING:
    from tests.local_kinesis.conftest import StreamUnderTest


def test_a_denied_operation_answers_access_denied_until_it_is_allowed(stream: StreamUnderTest) -> None:
    iterator = stream.iterator()
    stream.server.control({"deny": ["GetRecords", "PutRecords"]})
    denied = stream.client.exceptions.AccessDeniedException
    with pytest.raises(denied, match="not authorized to perform: kinesis:GetRecords"):
        stream.page(iterator)
    with pytest.raises(denied, match="not authorized to perform: kinesis:PutRecords"):
        stream.put(b"0")
    assert stream.ids() == [0]
    stream.server.control({"deny": []})
    assert stream.page(iterator)["Records"] == []


def test_calls_are_counted_by_operation_and_shard(stream: StreamUnderTest) -> None:
    stream.put(b"12", b"345")
    stream.split(0, 100)
    stream.server.control({"reset_stats": True})
    stream.read()
    stream.read(shard=1)
    stream.server.control({"deny": ["GetShardIterator"]})
    with pytest.raises(stream.client.exceptions.AccessDeniedException, match="GetShardIterator"):
        stream.iterator()
    assert stream.server.stats() == {
        "operations": {"GetShardIterator": 3, "GetRecords": 2},
        "shards": {
            stream.name: {
                # Bytes are of data and partition keys, which are one byte each.
                "shardId-000000000000": {"GetShardIterator": 1, "GetRecords": 1, "records": 2, "bytes": 7},
                "shardId-000000000001": {"GetShardIterator": 1, "GetRecords": 1, "records": 0, "bytes": 0},
            }
        },
        "records": 2,
        "bytes": 7,
        "faults": [],
    }


@pytest.mark.parametrize(
    "order",
    [
        {"deny": ["Dance"]},
        {"deny": "GetRecords"},
        {"deny": [["GetRecords"]]},
        {"advance_clock_s": -1},
        {"page_limit": 0},
        {"empty_pages": None},
        {"fail_put_records": "many"},
        {"retention_behaviour": "forget"},
        {"reset_stats": False},
        {"trim": {"stream": "s"}},
        {"unknown": 1},
    ],
)
def test_an_unknown_order_is_refused_and_none_beside_it_carried_out(
    stream: StreamUnderTest, order: dict[str, Any]
) -> None:
    with pytest.raises(LocalKinesisError, match="no such order"):
        stream.server.control({"page_limit": 1} | order if "page_limit" not in order else order)
    stream.put(b"0", b"1")
    assert len(stream.page(stream.iterator())["Records"]) == 2


@pytest.mark.parametrize("body", [b"", b"{", b"[]"])
def test_orders_must_be_a_json_object(server: LocalKinesis, body: bytes) -> None:
    connection = http.client.HTTPConnection(server.endpoint_url.removeprefix("http://"), timeout=5)
    connection.request("POST", "/_local/control", body)
    reply = connection.getresponse()
    kind = json.loads(reply.read())["__type"]
    connection.close()
    assert (reply.status, kind) == (400, "SerializationException")
