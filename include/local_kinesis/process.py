"""The server as a subprocess of a test or a demo, which ends with it."""

import json
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from local_kinesis.produce import kinesis_client

READY_S = 20
END_S = 5
_INCLUDE = Path(__file__).resolve().parents[1]
_READY = "local_kinesis listening on "


class LocalKinesisError(Exception):
    """The server did not start, or refused an order."""


@dataclass(frozen=True, slots=True)
class LocalKinesis:
    """A running server.

    Attributes:
        endpoint_url: for boto3's ``endpoint_url``.
        pid: the server's process.
    """

    endpoint_url: str
    pid: int

    def client(self, region: str = "us-east-1") -> Any:
        """A boto3 client with made-up credentials and short timeouts; it retries nothing."""
        return kinesis_client(self.endpoint_url, region, max_attempts=1)

    def control(self, orders: dict[str, Any]) -> None:
        """Gives orders (see ``control``).

        Raises:
            LocalKinesisError: the server refused them; none has been carried out.
        """
        self._exchange("/_local/control", json.dumps(orders).encode())

    def stats(self) -> dict[str, Any]:
        """The counts of calls (see ``stats``)."""
        counts: dict[str, Any] = self._exchange("/_local/stats", None)
        return counts

    def _exchange(self, path: str, body: bytes | None) -> Any:
        request = urllib.request.Request(self.endpoint_url + path, data=body)  # noqa: S310 -- http: only, as the ready line says
        # No proxy: the environment's must not get in the way of the loopback interface.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=10) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as exc:
            raise LocalKinesisError(json.load(exc)["message"]) from exc


@contextmanager
def running(*options: str) -> Iterator[LocalKinesis]:
    """Starts a server on a free port, waits until it is ready, and ends it by its process id, also on failure.

    Should this process be killed, the server sees its standard input close and ends by itself.

    Args:
        options: more of the command line, such as ``"--stream", "flights:4"``.

    Raises:
        LocalKinesisError: the server ended or said nothing; the message holds its standard error.
    """
    command = [sys.executable, "-m", "local_kinesis", "--port", "0", "--until-stdin-closes", *options]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=_INCLUDE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            line = _first_line(process)
            if not line.startswith(_READY):
                errors.seek(0)
                raise LocalKinesisError(f"the local Kinesis did not start: {line}{errors.read()}")
            yield LocalKinesis(line.removeprefix(_READY).strip(), process.pid)
        finally:
            _end(process)


def _first_line(process: subprocess.Popen[str]) -> str:
    # A server that hangs before its ready line is killed, which ends the reading.
    timer = threading.Timer(READY_S, process.kill)
    timer.start()
    try:
        return cast(IO[str], process.stdout).readline()
    finally:
        timer.cancel()


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        cast(IO[str], pipe).close()
