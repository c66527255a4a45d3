"""What each kind of fault does: to boto3, to a raw connection, and to the stream."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from local_kinesis.process import running

if TYPE_CHECKING:
    from tests.local_kinesis.conftest import StreamUnderTest, Wire

ZERO = "shardId-000000000000"
HEADERS = {
    "Content-Type": "application/x-amz-json-1.1",
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request",
}


@pytest.mark.parametrize(
    "error", ["ProvisionedThroughputExceededException", "LimitExceededException", "KMSThrottlingException"]
)
def test_throttle_answers_an_error_of_the_service_and_does_nothing(stream: StreamUnderTest, error: str) -> None:
    iterator = stream.iterator()
    _order(stream, kind="throttle", error=error)
    with pytest.raises(stream.client.exceptions.ClientError) as put:
        stream.put(b"0")
    with pytest.raises(stream.client.exceptions.ClientError) as page:
        stream.page(iterator)
    with pytest.raises(stream.client.exceptions.ClientError) as listed:
        stream.client.list_streams()
    _end(stream)
    account = "account 000000000000."
    assert [raised.value.response["Error"] for raised in (put, page, listed)] == [
        {"Code": error, "Message": f"Rate exceeded for stream {stream.name} under {account}"},
        {"Code": error, "Message": f"Rate exceeded for shard {ZERO} in stream {stream.name} under {account}"},
        {"Code": error, "Message": f"Rate exceeded under {account}"},
    ]
    assert put.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert stream.read() == []


@pytest.mark.parametrize(("status", "kind"), [(500, "InternalFailure"), (503, "ServiceUnavailable")])
def test_a_server_error_is_answered_and_nothing_done(
    stream: StreamUnderTest, wire: Wire, status: int, kind: str
) -> None:
    _order(stream, kind="server_error", status=status, operation="PutRecord")
    body = {"StreamName": stream.name, "PartitionKey": "k", "Data": "eA=="}
    answered, headers, reply = wire.call("PutRecord", body)
    assert (answered, reply["__type"]) == (status, kind)
    assert "x-amzn-requestid" in headers
    with pytest.raises(ClientError, match=kind):
        stream.client.put_record(StreamName=stream.name, PartitionKey="k", Data=b"x")
    assert stream.read() == []


def test_a_reset_before_the_reply_leaves_nothing_behind(stream: StreamUnderTest) -> None:
    _order(stream, kind="reset", operation="PutRecords")
    assert _exchange(stream, "PutRecords", _put(stream, "eA==")) == (b"", True)
    with pytest.raises(ConnectionClosedError, match="Connection was closed"):
        stream.put(b"0")
    _end(stream)
    assert stream.read() == []


def test_a_reset_in_the_middle_of_the_reply_comes_after_the_operation(stream: StreamUnderTest) -> None:
    _order(stream, kind="reset", at="middle", operation="PutRecords", nth=1)
    received, reset = _exchange(stream, "PutRecords", _put(stream, "eA=="))
    head, _, body = received.partition(b"\r\n\r\n")
    promised = int(head.partition(b"Content-Length: ")[2])
    assert (head[:15], reset, len(body)) == (b"HTTP/1.1 200 OK", True, promised // 2)
    assert stream.read() == [b"x"]
    stream.put(bytes(100_000))
    _order(stream, kind="reset", at="middle", operation="GetRecords", nth=1)
    with pytest.raises(ConnectionClosedError, match="Connection was closed"):
        stream.read()


def test_a_lost_reply_s_operation_has_taken_effect(stream: StreamUnderTest) -> None:
    _order(stream, kind="lost_reply", operation="PutRecords", nth=[1, 2])
    assert _exchange(stream, "PutRecords", _put(stream, "eA==")) == (b"", True)
    with pytest.raises(ConnectionClosedError, match="Connection was closed"):
        stream.put(b"y")
    stream.put(b"z")
    assert stream.read() == [b"x", b"y", b"z"]


def test_a_refused_operation_s_reply_can_be_lost_too(stream: StreamUnderTest) -> None:
    _order(stream, kind="lost_reply", operation="DescribeStreamSummary")
    assert _exchange(stream, "DescribeStreamSummary", {"StreamName": "absent"}) == (b"", True)
    stream.server.control({"faults": [{"kind": "delay", "ms": 1}]})
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException, match="absent"):
        stream.client.describe_stream_summary(StreamName="absent")


def test_a_delay_holds_back_one_reply_and_no_other_connection(stream: StreamUnderTest, wire: Wire) -> None:
    _order(stream, kind="delay", ms=1200, operation="PutRecords", nth=1)
    took: list[float] = []

    def put() -> None:
        started = time.monotonic()
        stream.put(b"late")
        took.append(time.monotonic() - started)

    producer = threading.Thread(target=put)
    producer.start()
    while stream.server.stats()["faults"][0]["fired"] == 0:
        time.sleep(0.01)
    # The record is there before its reply is.
    iterator = {"StreamName": stream.name, "ShardId": ZERO, "ShardIteratorType": "TRIM_HORIZON"}
    page = wire.call("GetRecords", wire.call("GetShardIterator", iterator)[2])[2]
    assert (len(page["Records"]), took) == (1, [])
    producer.join()
    assert took[0] >= 1.2


def test_requests_sent_together_are_answered_in_order_also_with_a_delay(stream: StreamUnderTest) -> None:
    _order(stream, kind="delay", ms=200, operation="ListStreams", nth=1)
    first, second = _request("ListStreams", {}), _request("ListShards", {"StreamName": stream.name}, last=True)
    with _connected(stream) as connection:
        connection.sendall(first + second)
        received, _ = _all(connection)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b"StreamNames") < received.index(b"Shards")


def test_a_client_that_gives_up_on_a_late_reply_harms_nobody() -> None:
    with running("--stream", "s:1") as server:
        for fault in ({"kind": "delay", "ms": 300}, {"kind": "slow", "piece_bytes": 1, "pause_ms": 10}):
            server.control({"faults": [fault | {"nth": 1}]})
            with socket.create_connection(_address(server.endpoint_url), timeout=10) as connection:
                connection.sendall(_request("ListStreams", {}))
            time.sleep(0.5)
            assert server.client().list_streams()["StreamNames"] == ["s"]


def test_the_server_ends_though_a_reply_is_under_way() -> None:
    with running() as server:
        server.control({"faults": [{"kind": "delay", "ms": 60_000}]})
        connection = socket.create_connection(_address(server.endpoint_url), timeout=10)
        connection.sendall(_request("ListStreams", {}))
        while server.stats()["faults"][0]["fired"] == 0:
            time.sleep(0.01)
        started = time.monotonic()
    connection.close()
    # ``running`` would kill it after 5 s.
    assert time.monotonic() - started < 4


def test_a_client_s_timeout_is_less_than_a_long_delay(stream: StreamUnderTest) -> None:
    client = boto3.client(
        "kinesis",
        region_name="us-east-1",
        endpoint_url=stream.server.endpoint_url,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(read_timeout=0.3, retries={"total_max_attempts": 1}),
    )
    _order(stream, kind="delay", ms=2000, operation="ListStreams", nth=1)
    with pytest.raises(ReadTimeoutError, match="Read timeout"):
        client.list_streams()


def test_a_slow_body_comes_in_pieces_and_whole(stream: StreamUnderTest) -> None:
    _order(stream, kind="slow", piece_bytes=20, pause_ms=30, operation="PutRecords", nth=1)
    started, pieces = time.monotonic(), []
    with _connected(stream) as connection:
        connection.sendall(_request("PutRecords", _put(stream, "eA=="), last=True))
        while piece := connection.recv(65536):
            pieces.append(piece)
    body = b"".join(pieces).partition(b"\r\n\r\n")[2]
    assert time.monotonic() - started >= 0.03 * (len(body) // 20)
    assert len(pieces) > 3
    assert json.loads(body)["FailedRecordCount"] == 0


def test_a_truncated_body_ends_before_its_content_length(stream: StreamUnderTest) -> None:
    stream.put(bytes(100_000))
    iterator = stream.iterator()
    _order(stream, kind="truncated_body", keep=0.9, operation="GetRecords", nth=1)
    connection = http.client.HTTPConnection(stream.server.endpoint_url.removeprefix("http://"), timeout=10)
    target = {"X-Amz-Target": "Kinesis_20131202.GetRecords"}
    connection.request("POST", "/", json.dumps({"ShardIterator": iterator}), HEADERS | target)
    reply = connection.getresponse()
    length = int(reply.headers["Content-Length"])
    with pytest.raises(http.client.IncompleteRead) as raised:
        reply.read()
    connection.close()
    assert (reply.status, len(raised.value.partial)) == (200, int(length * 0.9))
    assert len(stream.page(iterator)["Records"]) == 1


def test_a_cut_json_has_a_content_length_that_fits(stream: StreamUnderTest) -> None:
    stream.put(b"x" * 300)
    iterator = stream.iterator()
    _order(stream, kind="cut_json", operation="GetRecords", nth=1)
    body = {"ShardIterator": iterator}
    with _connected(stream) as connection:
        connection.sendall(_request("GetRecords", body) + _request("GetRecords", body, last=True))
        received, reset = _all(connection)
    first, second = received.split(b"HTTP/1.1 200 OK\r\n")[1:]
    head, _, cut = first.partition(b"\r\n\r\n")
    whole = second.partition(b"\r\n\r\n")[2]
    assert int(head.partition(b"Content-Length: ")[2]) == len(cut)
    # The iterators in the two differ.
    assert (cut[:40], len(cut), reset) == (whole[:40], len(whole) // 2, False)
    assert len(json.loads(whole)["Records"]) == 1


@pytest.mark.parametrize("kind", ["cut_json", "truncated_body"])
def test_boto3_takes_a_cut_body_for_a_reply_without_members(stream: StreamUnderTest, kind: str) -> None:
    stream.put(b"x")
    iterator = stream.iterator()
    _order(stream, kind=kind, operation="GetRecords")
    # What a reader must be ready for: no error, and like a closed shard's end no NextShardIterator.
    assert set(stream.page(iterator)) == {"ResponseMetadata"}


def test_an_empty_page_leads_back_to_where_the_reader_stood(stream: StreamUnderTest) -> None:
    stream.put(b"0", b"1")
    stream.split(0, 1000)
    second = stream.page(stream.iterator(), Limit=1)["NextShardIterator"]
    _order(stream, kind="empty_page", behind_ms=4321, nth=[1, 2])
    for _ in range(2):
        page = stream.page(second)
        assert (page["Records"], page["MillisBehindLatest"], "ChildShards" in page) == ([], 4321, False)
        second = page["NextShardIterator"]
    page = stream.page(second)
    assert ([record["Data"] for record in page["Records"]], "NextShardIterator" in page) == ([b"1"], False)


def test_an_empty_page_is_of_a_default_lag_and_for_valid_iterators_only(stream: StreamUnderTest) -> None:
    _order(stream, kind="empty_page")
    assert stream.page(stream.iterator("LATEST"))["MillisBehindLatest"] == 1000
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="Invalid ShardIterator"):
        stream.page("nonsense")


def test_an_iterator_is_said_to_have_expired(stream: StreamUnderTest) -> None:
    stream.put(b"0")
    _order(stream, kind="expired_iterator", nth=1)
    iterator = stream.iterator()
    with pytest.raises(stream.client.exceptions.ExpiredIteratorException, match="Iterator expired"):
        stream.page(iterator)
    assert len(stream.page(iterator)["Records"]) == 1


def test_the_clock_jumps_ahead_and_back_and_stays_so() -> None:
    with running() as server:
        client = server.client()

        def jumped(seconds: float) -> float:
            server.control({"faults": [{"kind": "clock_jump", "seconds": seconds, "nth": 1}]})
            client.list_streams()
            server.control({"faults": []})
            reply = client.list_streams()["ResponseMetadata"]["HTTPHeaders"]
            return parsedate_to_datetime(reply["date"]).timestamp() - time.time()

        assert abs(jumped(7200) - 7200) < 5
        assert abs(jumped(-10_800) + 3600) < 5
        assert abs(jumped(3600)) < 5


def test_a_shard_keeps_its_order_when_the_clock_jumps_back() -> None:
    with running("--stream", "s:1") as server:
        client = server.client()

        def put(data: bytes) -> int:
            place = client.put_record(StreamName="s", PartitionKey="k", Data=data)
            return int(place["SequenceNumber"])

        def read(shard_id: str, **how: Any) -> list[dict[str, Any]]:
            iterator = client.get_shard_iterator(StreamName="s", ShardId=shard_id, **how)["ShardIterator"]
            records: list[dict[str, Any]] = client.get_records(ShardIterator=iterator)["Records"]
            return records

        numbers = [put(b"0"), put(b"1")]
        server.control({"faults": [{"kind": "clock_jump", "seconds": -3600, "operation": "PutRecord", "nth": 1}]})
        numbers += [put(b"2"), put(b"3")]
        records = read(ZERO, ShardIteratorType="TRIM_HORIZON")
        arrived = [record["ApproximateArrivalTimestamp"] for record in records]
        assert [record["Data"] for record in records] == [b"0", b"1", b"2", b"3"]
        # As in the service, arrival times need not be in order.
        assert 3590 < (arrived[1] - arrived[2]).total_seconds() < 3610
        server.control({"advance_clock_s": 3700})
        for timestamp in arrived:
            found = read(ZERO, ShardIteratorType="AT_TIMESTAMP", Timestamp=timestamp)
            assert {record["Data"] for record in found} >= {b"2", b"3"}
        assert len(read(ZERO, ShardIteratorType="AT_TIMESTAMP", Timestamp=arrived[0])) == 4
        server.control({"faults": [{"kind": "clock_jump", "seconds": -7200, "operation": "SplitShard", "nth": 1}]})
        client.split_shard(StreamName="s", ShardToSplit=ZERO, NewStartingHashKey="1")
        numbers.append(put(b"4"))
        assert numbers == sorted(set(numbers))
        child = read("shardId-000000000002", ShardIteratorType="TRIM_HORIZON")
        assert [record["Data"] for record in child] == [b"4"]


def _order(stream: StreamUnderTest, **rule: Any) -> None:
    stream.server.control({"faults": [rule]})


def _end(stream: StreamUnderTest) -> None:
    stream.server.control({"faults": []})


def _put(stream: StreamUnderTest, *data: str) -> dict[str, Any]:
    records = [{"PartitionKey": "k", "ExplicitHashKey": "0", "Data": each} for each in data]
    return {"StreamName": stream.name, "Records": records}


def _request(operation: str, body: dict[str, Any], *, last: bool = False) -> bytes:
    text = json.dumps(body)
    lines = [
        "POST / HTTP/1.1",
        "Host: k",
        f"X-Amz-Target: Kinesis_20131202.{operation}",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
        f"Content-Length: {len(text)}",
        f"Connection: {'close' if last else 'keep-alive'}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n" + text).encode()


def _exchange(stream: StreamUnderTest, operation: str, body: dict[str, Any]) -> tuple[bytes, bool]:
    """What came, and whether the connection was reset then."""
    with _connected(stream) as connection:
        connection.sendall(_request(operation, body))
        return _all(connection)


def _all(connection: socket.socket) -> tuple[bytes, bool]:
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        return b"".join(parts), True
    return b"".join(parts), False


def _connected(stream: StreamUnderTest) -> socket.socket:
    return socket.create_connection(_address(stream.server.endpoint_url), timeout=10)


def _address(endpoint_url: str) -> tuple[str, int]:
    host, port = endpoint_url.removeprefix("http://").split(":")
    return host, int(port)
