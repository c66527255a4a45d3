"""A TCP proxy in front of PostgreSQL that cuts a connection at its commit: before that arrives, or before the reply."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

Moment = Literal["before the commit", "before its reply"]

_LOCK, _COMMIT = b"pg_advisory_xact_lock", b"COMMIT"


@dataclass
class CuttingProxy:
    """A running proxy.

    Attributes:
        port: where it listens, of 127.0.0.1.
        commits: how many transactions that write have come to their end.
        cut: which of them to cut, counted from 0, and when; None: none.
    """

    port: int = 0
    commits: int = 0
    cut: tuple[int, Moment] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def spoil(self, commit: int | None, moment: Moment = "before the commit") -> None:
        """Count from 0 again, and cut that commit."""
        with self._lock:
            self.commits, self.cut = 0, None if commit is None else (commit, moment)

    def moment(self) -> Moment | None:
        """What to do at the commit that is coming."""
        with self._lock:
            self.commits += 1
            return self.cut[1] if self.cut and self.cut[0] == self.commits - 1 else None


@contextmanager
def cutting_proxy(upstream_port: int) -> Iterator[CuttingProxy]:
    """Runs a proxy in front of a server on this machine."""
    proxy, listener = CuttingProxy(), socket.create_server(("127.0.0.1", 0))
    proxy.port = listener.getsockname()[1]

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=_serve, args=(proxy, client, upstream_port), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield proxy
    finally:
        listener.close()


def _serve(proxy: CuttingProxy, client: socket.socket, upstream_port: int) -> None:
    server = socket.create_connection(("127.0.0.1", upstream_port))
    silent = threading.Event()

    def replies() -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if silent.is_set():
                    break  # the server has done it
                client.sendall(data)
        _close(client, server)

    threading.Thread(target=replies, daemon=True).start()
    with suppress(OSError):
        writing = False
        while data := client.recv(65536):
            writing = writing or _LOCK in data
            moment = proxy.moment() if writing and _COMMIT in data else None
            if moment == "before the commit":
                break
            if moment:
                silent.set()
            server.sendall(data)
            if moment:
                return  # `replies` closes both once the server has answered
    _close(client, server)


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
