"""The wire protocol: JSON 1.1 over HTTP/1.1, on connections that stay open."""

from __future__ import annotations

import json
import re
import socket
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.local_kinesis.conftest import StreamUnderTest, Wire

    from local_kinesis.process import LocalKinesis

AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request"
LIST = (
    b"POST / HTTP/1.1\r\nHost: k\r\nX-Amz-Target: Kinesis_20131202.ListStreams\r\n"
    b"Content-Type: application/x-amz-json-1.1\r\nAuthorization: " + AUTHORIZATION.encode() + b"\r\n"
)


def test_a_reply_carries_the_service_s_headers(wire: Wire) -> None:
    status, headers, body = wire.call("ListStreams", {})
    assert status == 200
    assert headers["content-type"] == "application/x-amz-json-1.1"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", headers["x-amzn-requestid"])
    assert sorted(body) == ["HasMoreStreams", "StreamNames", "StreamSummaries"]


def test_an_error_carries_its_type_and_message(wire: Wire) -> None:
    status, headers, body = wire.call("DescribeStream", {"StreamName": "absent"})
    assert status == 400
    assert "x-amzn-requestid" in headers
    assert body == {
        "__type": "ResourceNotFoundException",
        "message": "Stream absent under account 000000000000 not found.",
    }


def test_boto3_raises_the_error_s_own_class(client: Any) -> None:
    with pytest.raises(client.exceptions.ResourceNotFoundException, match="Stream absent under account 000000000000"):
        client.describe_stream(StreamName="absent")


@pytest.mark.parametrize(
    ("operation", "body", "headers", "kind"),
    [
        ("Dance", {}, {}, "UnknownOperationException"),
        ("ListStreams", b"{", {}, "SerializationException"),
        ("ListStreams", b"[]", {}, "SerializationException"),
        ("ListStreams", {"Limit": "10"}, {}, "SerializationException"),
        ("ListStreams", {"Limit": True}, {}, "SerializationException"),
        ("ListStreams", {"Limit": 0}, {}, "ValidationException"),
        ("ListStreams", {"Limit": 10001}, {}, "ValidationException"),
        ("DescribeStream", {"StreamName": 1}, {}, "SerializationException"),
        ("DescribeStream", {"StreamName": "a b"}, {}, "ValidationException"),
        ("DescribeStream", {}, {}, "InvalidArgumentException"),
        ("CreateStream", {"StreamName": "s", "StreamModeDetails": "ON_DEMAND"}, {}, "SerializationException"),
        ("PutRecords", {"StreamName": "s", "Records": "x"}, {}, "ResourceNotFoundException"),
        ("ListStreams", {}, {"Authorization": ""}, "MissingAuthenticationTokenException"),
        ("ListStreams", {}, {"Content_Type": "application/x-amz-cbor-1.1"}, "SerializationException"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_by_type(
    wire: Wire, operation: str, body: Any, headers: dict[str, str], kind: str
) -> None:
    status, _, reply = wire.call(operation, body, **headers)
    assert (status, reply["__type"]) == (400, kind)


def test_an_unknown_path_is_not_found(server: LocalKinesis) -> None:
    assert _exchange(server, b"GET /elsewhere HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404 Not Found\r\n")


def test_the_date_header_follows_the_service_s_clock(server: LocalKinesis, wire: Wire) -> None:
    before = parsedate_to_datetime(wire.call("ListStreams", {})[1]["date"])
    server.control({"advance_clock_s": 86400})
    after = parsedate_to_datetime(wire.call("ListStreams", {})[1]["date"])
    assert 86400 <= (after - before).total_seconds() <= 86405


def test_a_request_in_single_bytes_is_answered(server: LocalKinesis) -> None:
    with _connected(server) as connection:
        for byte in LIST + b"Content-Length: 2\r\n\r\n{}":
            connection.sendall(bytes([byte]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")


def test_requests_sent_together_are_answered_in_order(server: LocalKinesis) -> None:
    good = LIST + b"Content-Length: 2\r\n\r\n{}"
    bad = LIST + b"Content-Length: 1\r\nConnection: close\r\n\r\n{"
    replies = _exchange(server, good + good + bad)
    assert re.findall(rb"HTTP/1.1 (\d+)", replies) == [b"200", b"200", b"400"]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (LIST + b"Content-Length: -1\r\n\r\n", b"400"),
        (LIST + b"Content-Length: 99999999\r\n\r\n", b"413"),
        (LIST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"x" * 70_000, b"431"),
    ],
)
def test_http_that_no_aws_client_sends_is_refused_and_closed(
    server: LocalKinesis, request_bytes: bytes, status: bytes
) -> None:
    assert _exchange(server, request_bytes)[9:12] == status


def test_a_client_that_waits_for_continue_gets_it(server: LocalKinesis) -> None:
    with _connected(server) as connection:
        connection.sendall(LIST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_client_that_takes_no_replies_gets_all_of_them_later(stream: StreamUnderTest) -> None:
    stream.put(*[bytes(100_000)] * 30)
    body = json.dumps({"ShardIterator": stream.iterator()}).encode()
    head = LIST.replace(b"ListStreams", b"GetRecords") + f"Content-Length: {len(body)}\r\n".encode()
    with _connected(stream.server) as connection:
        connection.sendall((head + b"\r\n" + body) * 4 + head + b"Connection: close\r\n\r\n" + body)
        received = _all(connection)
    assert received.count(b"HTTP/1.1 200 OK") == 5
    assert received.count(b'"SequenceNumber"') == 150


def _connected(server: LocalKinesis) -> socket.socket:
    host, port = server.endpoint_url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def _exchange(server: LocalKinesis, request: bytes) -> bytes:
    with _connected(server) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return _all(connection)


def _all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)
