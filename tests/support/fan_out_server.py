"""SubscribeToShard over HTTP/2, out of the streams of a local Kinesis; over HTTP/1.1, what that answers itself.

One TLS port speaks both, as the service's does: boto3 asks for HTTP/1.1 and is passed on. Where the service's behaviour
is not documented, a test says how a subscription goes.
"""

from __future__ import annotations

import hmac
import http.client
import ipaddress
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded

from support.event_stream import event, exception
from support.serving import serving

Ending = Literal["expire", "reset", "goaway", "lose", "fall silent", "damage", "talk nonsense", "pretend the end"]

_REGION = "us-east-1"
_TARGET = "Kinesis_20131202."
_LOCAL = {
    "Content-Type": "application/x-amz-json-1.1",
    "Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/{_REGION}/kinesis/aws4_request",
}


@dataclass(frozen=True)
class Fate:
    """How a subscription goes.

    Attributes:
        refused: the error's name, in place of a subscription.
        empty: events without records at first.
        events: events with records before it ends; None: it stays, or ends with the shard.
        ending: how it ends then; another word is the name of an exception in the stream.
    """

    refused: str | None = None
    empty: int = 0
    events: int | None = None
    ending: Ending | str = "expire"


@dataclass
class Subscription:
    """A call of SubscribeToShard.

    Attributes:
        headers: as they came, names in lower case.
        request: the body.
        given: the numbers of the records that were sent.
        closed: the client has closed the connection.
    """

    headers: Mapping[str, str]
    request: Mapping[str, Any]
    given: list[str] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def at(self) -> str:
        """The number that it was to begin at."""
        position = self.request["StartingPosition"]
        assert position["Type"] == "AT_SEQUENCE_NUMBER"
        return str(position["SequenceNumber"])


@dataclass
class FanOutServer:
    """A running server.

    Attributes:
        ca_file: the certificate to trust.
        event_records: records of one event, at most.
        fates: of the next subscriptions; those after them stay.
        before: what is done before a subscription is answered.
        subscriptions: those asked for.
        forwarded: the operations that came over HTTP/1.1.
        date: the local Kinesis' time, which tests may have moved.
    """

    endpoint_url: str
    upstream: str
    ca_file: Path
    event_records: int = 1_000
    fates: list[Fate] = field(default_factory=list)
    before: Callable[[Subscription], None] = lambda subscription: None
    subscriptions: list[Subscription] = field(default_factory=list)
    forwarded: list[str] = field(default_factory=list)
    date: str = ""

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        """The reply of the local Kinesis, undecoded."""
        connection = http.client.HTTPConnection(self.upstream, timeout=30)
        headers = {**_LOCAL, "X-Amz-Target": _TARGET + operation}
        connection.request("POST", "/", json.dumps(request), headers)
        response = connection.getresponse()
        self.date = response.headers["Date"]
        reply: dict[str, Any] = json.loads(response.read())
        connection.close()
        return reply

    def reset(self) -> None:
        """Forget what was asked for, and what was to be done."""
        self.event_records, self.before = 1_000, lambda subscription: None
        self.fates.clear()
        self.subscriptions.clear()
        self.forwarded.clear()


class _Http2:
    """One connection, with one subscription on it."""

    def __init__(self, server: FanOutServer, tls: ssl.SSLSocket) -> None:
        self._server, self._tls = server, tls
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._headers: dict[str, str] = {}
        self._body = b""

    def speak(self) -> None:
        self._h2.initiate_connection()
        self._flush()
        while not self._listen():
            pass
        subscription = Subscription(self._headers, json.loads(self._body))
        self._server.subscriptions.append(subscription)
        try:
            self._answer(subscription)
            while self._tls.recv(65536):
                pass
        finally:
            subscription.closed.set()

    def _listen(self) -> bool:
        """Take in what the client says next; whether the request is whole."""
        data = self._tls.recv(65536)
        if not data:
            raise EOFError
        ended = False
        for said in self._h2.receive_data(data):
            if isinstance(said, RequestReceived):
                self._headers = {str(name): str(value) for name, value in said.headers}
            elif isinstance(said, DataReceived):
                self._body += said.data
                self._h2.acknowledge_received_data(said.flow_controlled_length, 1)
            ended |= isinstance(said, StreamEnded)
        self._flush()
        return ended

    def _flush(self) -> None:
        self._tls.sendall(self._h2.data_to_send())

    def _send(self, data: bytes) -> None:
        while data:
            while not (room := min(self._h2.local_flow_control_window(1), self._h2.max_outbound_frame_size)):
                self._listen()
            self._h2.send_data(1, data[:room])
            self._flush()
            data = data[room:]

    def _reply(self, status: int, content_type: str) -> None:
        headers = [(":status", str(status)), ("content-type", content_type), ("date", self._server.date)]
        self._h2.send_headers(1, headers)

    def _answer(self, subscription: Subscription) -> None:
        fate = self._server.fates.pop(0) if self._server.fates else Fate()
        self._server.before(subscription)
        refused = fate.refused or (None if signed(subscription.headers, self._body) else "InvalidSignatureException")
        arn = str(subscription.request["ConsumerARN"])
        stream, shard = {"StreamARN": arn.partition("/consumer/")[0]}, {"ShardId": subscription.request["ShardId"]}
        position = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": subscription.at}
        found = self._server.call("GetShardIterator", **stream, **shard, **position)
        refused = refused or found.get("__type")
        if refused:
            self._reply(400, "application/x-amz-json-1.1")
            self._send(json.dumps({"__type": refused, "message": "as the test has it"}).encode())
            self._h2.end_stream(1)
            self._flush()
            return
        self._reply(200, "application/vnd.amazon.eventstream")
        self._send(event("initial-response", {}))
        for _ in range(fate.empty):
            self._event(subscription, {"Records": [], "MillisBehindLatest": 1})
        if self._give(subscription, found["ShardIterator"], fate.events):
            self._end(subscription, fate.ending)

    def _give(self, subscription: Subscription, iterator: str, events: int | None) -> bool:
        """Send what the shard has; whether it goes on."""
        heard = select.poll()  # unlike select.select, for any number of open files
        heard.register(self._tls, select.POLLIN)
        while events is None or events > 0:
            page = self._server.call("GetRecords", ShardIterator=iterator, Limit=self._server.event_records)
            iterator = page["NextShardIterator"]
            self._event(subscription, page, ended=iterator is None)
            if iterator is None:
                self._end(subscription, "expire")
                return False
            if page["Records"]:
                events = events and events - 1
            elif heard.poll(20):
                self._listen()
        return True

    def _event(self, subscription: Subscription, page: Mapping[str, Any], ended: bool = False) -> None:
        subscription.given += [record["SequenceNumber"] for record in page["Records"]]
        last = subscription.given[-1] if subscription.given else subscription.at
        payload = {key: page[key] for key in ("Records", "MillisBehindLatest", "ChildShards") if key in page}
        self._send(event("SubscribeToShardEvent", payload | ({} if ended else {"ContinuationSequenceNumber": last})))

    def _end(self, subscription: Subscription, ending: str) -> None:
        match ending:
            case "expire":
                self._h2.end_stream(1)
            case "reset":
                self._h2.reset_stream(1, ErrorCodes.INTERNAL_ERROR)
            case "goaway":
                self._h2.close_connection(ErrorCodes.INTERNAL_ERROR)
            case "lose":
                time.sleep(0.1)  # what was sent would be lost with the connection
                self._tls.close()
                return
            case "fall silent":
                pass
            case "damage":
                message = event("SubscribeToShardEvent", {"Records": [], "MillisBehindLatest": 0})
                self._send(message[:-5] + bytes([message[-5] ^ 1]) + message[-4:])
            case "talk nonsense":
                self._tls.sendall(bytes(9))  # a DATA frame of no stream
                return
            case "pretend the end":
                self._event(subscription, {"Records": [], "MillisBehindLatest": 0}, ended=True)
            case exception_name:
                self._send(exception(exception_name, "as the test has it"))
                self._h2.end_stream(1)
        self._flush()


def signed(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the request is signed with test/test, as it came over the wire."""
    authorization = headers["authorization"]
    names = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    as_http1 = {**headers, "host": headers[":authority"]}
    request = AWSRequest("POST", f"https://{headers[':authority']}/", {name: as_http1[name] for name in names}, body)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials("test", "test"), "kinesis", _REGION)
    expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return hmac.compare_digest(authorization.partition("Signature=")[2], expected)


@contextmanager
def fan_out_server(
    upstream_url: str, folder: Path, speaks: tuple[str, ...] = ("h2", "http/1.1")
) -> Iterator[FanOutServer]:
    """Runs a server in front of a local Kinesis.

    Args:
        folder: where its certificate goes.
        speaks: the protocols that it knows.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate := _certificate(folder))
    context.set_alpn_protocols(list(speaks))

    class Forwarding(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one segment

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            running.forwarded.append(self.headers["X-Amz-Target"].removeprefix(_TARGET))
            connection = http.client.HTTPConnection(running.upstream, timeout=30)
            connection.request("POST", self.path, body, dict(self.headers))
            reply = connection.getresponse()
            content = reply.read()
            connection.close()
            self.send_response_only(reply.status)
            for name, value in reply.getheaders():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        def finish_request(self, request: Any, client_address: Any) -> None:
            try:
                request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with context.wrap_socket(request, server_side=True) as tls:
                    if tls.selected_alpn_protocol() == "h2":
                        _Http2(running, tls).speak()
                    else:
                        Forwarding(tls, client_address, self)
            except (OSError, EOFError):
                pass  # the client has gone

    with serving(Forwarding, Server) as place:
        running = FanOutServer(f"https://{place}", urlsplit(upstream_url).netloc, certificate)
        yield running


def _certificate(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that is its own authority, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shardlake's tests")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "fan-out.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return file
