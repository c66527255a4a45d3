"""Listens on the loopback interface until it is told to end."""

import asyncio
import signal
import socket
import sys
from collections.abc import Iterable

from local_kinesis.api import Api
from local_kinesis.errors import InvalidArgumentException
from local_kinesis.http1 import Connection
from local_kinesis.loopback import is_loopback
from local_kinesis.stream import MAX_RECORD_BYTES


class ServeError(Exception):
    """The server cannot listen where, or end when, it was told to."""


def loopback_address(host: str) -> str:
    """The address to bind.

    Raises:
        ServeError: the host is not on the loopback interface. The server lets everybody in: it must not be reachable.
    """
    if not is_loopback(host):
        raise ServeError(
            f"refusing to listen on {host}: only loopback addresses (127.0.0.1, ::1, localhost) are served"
        )
    return "127.0.0.1" if host == "localhost" else host


async def serve(api: Api, address: str, port: int, *, until_stdin_closes: bool) -> None:
    """Serves until SIGTERM or SIGINT, or until standard input is closed by the process that started this one.

    Prints one line on standard output once connections are taken.

    Raises:
        ServeError: the port is taken, or standard input is nothing whose end can be waited for.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    opened: set[Connection] = set()
    try:
        server = await loop.create_server(lambda: Connection(api.answer, api.clock.now_ms, opened), address, port)
    except OSError as exc:
        raise ServeError(f"cannot listen on {address} port {port}: {exc.strerror}") from exc
    if until_stdin_closes:
        try:
            await loop.connect_read_pipe(lambda: _EndOfInput(ended), sys.stdin)
        except (OSError, ValueError) as exc:
            raise ServeError("--until-stdin-closes needs a pipe or a terminal as standard input") from exc
    print(f"local_kinesis listening on {_url(server.sockets[0])}", flush=True)
    await ended.wait()
    server.close()
    for connection in tuple(opened):
        connection.transport.abort()


def make_streams(api: Api, region: str, specifications: Iterable[str]) -> None:
    """Makes the streams given as ``NAME:SHARDS``.

    Raises:
        InvalidArgumentException: one is not of that form.
        ResourceInUseException: one is given twice.
    """
    for specification in specifications:
        name, _, shards = specification.rpartition(":")
        if not name or not shards.isdecimal() or int(shards) == 0:
            raise InvalidArgumentException(f"--stream must be NAME:SHARDS, not {specification!r}")
        api.account.create(region, name, "PROVISIONED", int(shards), MAX_RECORD_BYTES)


class _EndOfInput(asyncio.Protocol):
    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
