"""A proxy for HTTPS on the loopback interface, which says who asked for what."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.serving import serving


@dataclass(frozen=True)
class ConnectProxy:
    """A running proxy.

    Attributes:
        asked: method, target and credentials of every request.
    """

    url: str
    asked: list[str] = field(default_factory=list)


@contextmanager
def connect_proxy() -> Iterator[ConnectProxy]:
    """Runs a proxy."""

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            proxy.asked.append(f"CONNECT {self.path} {self.headers.get('Proxy-Authorization', '-')}")
            host, _, port = self.path.rpartition(":")
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=10) as upstream:
                self.send_response_only(200)
                self.end_headers()
                with selectors.DefaultSelector() as ready:
                    ready.register(self.connection, selectors.EVENT_READ, upstream)
                    ready.register(upstream, selectors.EVENT_READ, self.connection)
                    while all(self._passed_on(key.fileobj, key.data) for key, _ in ready.select()):
                        pass
            self.close_connection = True

        def _passed_on(self, one: Any, other: socket.socket) -> bool:
            data = one.recv(65536)
            other.sendall(data)
            return bool(data)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with serving(Handler) as place:
        proxy = ConnectProxy(f"http://{place}")
        yield proxy
