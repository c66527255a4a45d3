"""HTTP/1.1 as AWS clients speak it: requests with a Content-Length, on connections that stay open."""

import asyncio
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import cast

from local_kinesis.delivery import Delivery, deliver

# The largest call is one record of 10 MiB in base64; the rest is room for headers and partition keys.
MAX_BODY_BYTES = 32 * 2**20
MAX_HEAD_BYTES = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply."""

    status: int
    body: bytes
    content_type: str
    delivery: Delivery | None = None
    """How it goes out; None for at once and whole."""


@dataclass(frozen=True, slots=True)
class _Head:
    method: str
    path: str
    headers: dict[str, str]
    body_bytes: int


class Connection(asyncio.Protocol):
    """Reads requests off one connection and answers each before it reads the next."""

    def __init__(
        self, answer: Callable[[Request], Reply], now_ms: Callable[[], int], opened: set["Connection"]
    ) -> None:
        self._answer = answer
        self._now_ms = now_ms
        self._opened = opened
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._delivering: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Joins the server's open connections."""
        self.transport = cast(asyncio.Transport, transport)
        self._opened.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leaves the server's open connections."""
        self._opened.discard(self)
        if self._delivering is not None:
            self._delivering.cancel()

    def pause_writing(self) -> None:
        """A client that does not take its replies gets no further request read."""
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Answers every request that is whole."""
        self._buffer += data
        self._answer_all()

    def _answer_all(self) -> None:
        while self._delivering is None and not self.transport.is_closing():
            if self._head is None:
                self._head = self._take_head()
            if self._head is None or len(self._buffer) < self._head.body_bytes:
                return
            self._answer_one(self._head)
            self._head = None

    def _take_head(self) -> _Head | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                self._refuse(431)
            return None
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        request_line = lines[0].split(" ")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        length = headers.get("content-length", "0")
        if len(request_line) != 3 or not request_line[2].startswith("HTTP/1.") or not length.isdecimal():
            self._refuse(400)
        elif "transfer-encoding" in headers:
            self._refuse(411)
        elif int(length) > MAX_BODY_BYTES:
            self._refuse(413)
        else:
            if headers.get("expect", "").lower() == "100-continue":
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return _Head(request_line[0], request_line[1], headers, int(length))
        return None

    def _answer_one(self, head: _Head) -> None:
        body = bytes(self._buffer[: head.body_bytes])
        del self._buffer[: head.body_bytes]
        reply = self._answer(Request(head.method, head.path, head.headers, body))
        last = head.headers.get("connection", "").lower() == "close"
        if reply.delivery is None:
            self._write(reply)
            if last:
                self.transport.close()
        else:
            self._delivering = asyncio.create_task(self._deliver(reply, reply.delivery, last))

    async def _deliver(self, reply: Reply, delivery: Delivery, last: bool) -> None:
        await deliver(self.transport, self._head_of(reply), reply.body, delivery)
        if last:
            self.transport.close()
        self._delivering = None
        self._answer_all()

    def _refuse(self, status: int) -> None:
        self._write(Reply(status, b"", "text/plain"))
        self.transport.close()

    def _write(self, reply: Reply) -> None:
        self.transport.writelines((self._head_of(reply), reply.body))

    def _head_of(self, reply: Reply) -> bytes:
        request_id = uuid.UUID(int=random.getrandbits(128))
        head = (
            f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n"
            f"x-amzn-RequestId: {request_id}\r\n"
            f"Date: {_http_date(self._now_ms() // 1000)}\r\n"
            f"Content-Type: {reply.content_type}\r\n"
            f"Content-Length: {len(reply.body)}\r\n\r\n"
        )
        return head.encode("latin-1")


@lru_cache(maxsize=2)
def _http_date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)
