"""An HTTP proxy in front of a server, on the loopback interface: it hears every request, and spoils what it is told to.

What it does to a reply happens after the server has done its part, as when a connection is lost on the way back.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Literal
from urllib.parse import urlsplit

from support.serving import serving

Refusal = Literal["403", "409", "500", "503"]
Fault = Literal["lose the reply", "lose the request", "say nothing", "cut the reply", "spoil the request"] | Refusal

SILENCE_S = 1.0
"""How long it says nothing when told so."""

_CODES = {"403": "AccessDenied", "409": "ConditionalRequestConflict", "500": "InternalError", "503": "SlowDown"}


@dataclass
class FaultyProxy:
    """A running proxy.

    Attributes:
        endpoint_url: where it listens.
        heard: method and path of every request, as `PUT /bucket/key?query`.
            For the path `/`, where queries are posted, with the body.
        key_ids: who signed them.
        faults: which requests to spoil, and how.
        between: what is done after the server replied and before the client hears of it.
        one_at_a_time: held while an upload in parts is completed. S3 lets one of two completions at once come
            through; SeaweedFS looks whether the name is free, then completes, and may let both.
    """

    endpoint_url: str
    heard: list[str] = field(default_factory=list)
    key_ids: list[str] = field(default_factory=list)
    faults: list[tuple[re.Pattern[str], Fault]] = field(default_factory=list)
    between: Callable[[str], None] = lambda request: None
    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def spoil(self, pattern: str, fault: Fault, times: int = 1) -> None:
        """Do something to the next requests that match a pattern."""
        self.faults += [(re.compile(pattern), fault)] * times

    def reset(self) -> None:
        """Forget what was heard, and what was to be done."""
        self.heard.clear()
        self.key_ids.clear()
        self.faults.clear()
        self.between = lambda request: None

    def count(self, pattern: str) -> int:
        """How many requests matched."""
        return sum(bool(re.search(pattern, request)) for request in self.heard)

    def fault_of(self, request: str) -> Fault | None:
        """What to do to a request; each order is carried out once."""
        self.heard.append(request)
        for order in self.faults:
            if order[0].search(request):
                self.faults.remove(order)
                return order[1]
        return None


@contextmanager
def faulty_proxy(upstream_url: str) -> Iterator[FaultyProxy]:
    """Runs a proxy in front of a server."""
    upstream = urlsplit(upstream_url).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = f"{self.command} {self.path}" + (f" {body.decode()}" if self.path == "/" else "")
            credential = re.search(r"Credential=([^/]*)", self.headers.get("Authorization", ""))
            proxy.key_ids.append(credential[1] if credential else "")
            fault = proxy.fault_of(request)
            if fault in _CODES:
                self.refuse(int(fault), _CODES[fault])
                return
            if fault == "say nothing":
                time.sleep(SILENCE_S)
            if fault in ("lose the request", "say nothing"):
                self.close_connection = True
                return
            if fault == "spoil the request":
                body = bytes([body[0] ^ 1]) + body[1:]
            with proxy.one_at_a_time if request.startswith("POST") and "uploadId=" in request else nullcontext():
                reply, content = self.forwarded(body)
            proxy.between(request)
            if fault == "lose the reply":
                self.close_connection = True
                return
            self.send_response_only(reply.status, reply.reason)
            for name, value in reply.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = reply.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            if fault == "cut the reply":
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
            else:
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        def forwarded(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
            connection = http.client.HTTPConnection(upstream, timeout=30)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("expect", "connection"):
                    connection.putheader(name, value)
            connection.endheaders(body)
            reply = connection.getresponse()
            content = reply.read()
            connection.close()
            return reply, content

        def refuse(self, status: int, code: str) -> None:
            error = f"<Error><Code>{code}</Code><Message>so told</Message></Error>"
            content = (error if self.path != "/" else f"<ErrorResponse>{error}</ErrorResponse>").encode()
            self.send_response_only(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with serving(Handler) as place:
        proxy = FaultyProxy(f"http://{place}")
        yield proxy
