"""Servers of other projects, as `make conformance` installs them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conformance.server import UNANSWERED, Server

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parents[1] / ".conformance"
NODE_MODULES = INSTALLED / "node_modules"
READY_S = 30
NOTICED_S = 0.2
"""How long a server may take to look at its clock's file again."""
DURATIONS = ("CREATE_STREAM", "DELETE_STREAM", "SPLIT_SHARD", "MERGE_SHARDS", "UPDATE_SHARD_COUNT")


class MissingServerError(Exception):
    """A server is not installed."""


class Emulator(Server):
    """A server of another project, on a free port of 127.0.0.1, with a clock that can be moved (see started_with.*).

    Args:
        name: as on the command line.
        command: the program; `{port}` stands for the port.
        environment: beside the machine's; the same.
        folder: where its clock and its log are kept.
        reply_s: see `Server`.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path, reply_s: int = 8
    ) -> None:
        super().__init__()
        self.name, self.reply_s = name, reply_s
        self._command = command
        self._environment = environment
        self._ahead = folder / f"{name}.seconds-ahead"
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        for file in (part for part in self._command if part.startswith(str(INSTALLED))):
            if not Path(file).exists():
                raise MissingServerError(f"{self.name} is not installed: no {file}. `make conformance` installs it")
        self._port = _free_port()
        self._ahead.write_text("0", encoding="ascii")
        environment = {name: value.format(port=self._port) for name, value in self._environment.items()}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [part.format(port=self._port) for part in self._command],
                env={**os.environ, **environment, "SECONDS_AHEAD": str(self._ahead)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.client().list_streams()
                return
            except UNANSWERED as exc:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise MissingServerError(f"{self.name} did not start: {self._log.read_text()[-2000:]}") from exc
                time.sleep(0.1)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()  # there is nothing that it should put away
        self._process.wait()

    def _advance(self, seconds: float) -> None:
        moved = self._ahead.with_suffix(".moved")
        moved.write_text(str(float(self._ahead.read_text()) + seconds), encoding="ascii")
        moved.replace(self._ahead)
        time.sleep(NOTICED_S)


def emulator(name: str, folder: Path) -> Emulator:
    """A server by its name, not yet started.

    Args:
        name: `kinesis-local`, `kinesalite` or `ministack`.
        folder: a place for its clock and its log.
    """
    npm = ["node", "--require", str(HERE / "started_with.cjs")]
    match name:
        case "kinesis-local":
            package = NODE_MODULES / "kinesis-local"
            environment = {
                "KINESIS_MOCK_PLAIN_PORT": "{port}",
                "KINESIS_MOCK_TLS_PORT": "0",
                "KINESIS_MOCK_CERT_PATH": str(package / "server.json"),
                "SHARD_LIMIT": "1000",
                "LOG_LEVEL": "ERROR",
                **{f"{what}_DURATION": "1ms" for what in DURATIONS},
            }
            # It takes its time for large calls.
            return Emulator(name, [*npm, str(package / "main.js")], environment, folder, reply_s=90)
        case "kinesalite":
            waits = [word for what in ("create", "delete", "update") for word in (f"--{what}StreamMs", "0")]
            program = [*npm, str(NODE_MODULES / "kinesalite" / "cli.js"), "--port", "{port}", "--shardLimit", "1000"]
            return Emulator(name, [*program, *waits], {}, folder)
        case "ministack":
            program = [str(INSTALLED / "ministack" / "bin" / "python"), str(HERE / "started_with.py")]
            environment = {"GATEWAY_PORT": "{port}", "BIND_HOST": "127.0.0.1", "SERVICES": "kinesis"}
            return Emulator(name, program, environment, folder)
    raise ValueError(f"no such server: {name}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
