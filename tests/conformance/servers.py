"""The Kinesis servers that can be asked: the local one, three of other projects, and the service itself."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ConnectionError as NoConnection
from botocore.exceptions import HTTPClientError

from local_kinesis.process import LocalKinesis, running

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parents[1] / ".conformance"
NODE_MODULES = INSTALLED / "node_modules"
READY_S = 30
NOTICED_S = 0.2
"""How long a server may take to look at its clock's file again."""
UNANSWERED = (HTTPClientError, NoConnection)
"""What boto3 raises for a server that does not listen, hangs, or breaks off."""


class MissingServerError(Exception):
    """A server is not installed."""


class Server:
    """A Kinesis under test.

    Attributes:
        name: as on the command line.
        settings: more of what CreateStream is told.
        patience_s: how long a record that was put may stay unseen.
        pause_s: between two looks at a stream that is being made or changed.
        reply_s: what takes longer is no reply.
    """

    name: str
    settings: Mapping[str, Any] = {}
    patience_s = 0.0
    pause_s = 0.01
    reply_s = 8
    _prefix = "conformance-"

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._clients: dict[int, Any] = {}
        self._made: list[str] = []
        self._moved = False

    @property
    def endpoint_url(self) -> str | None:
        """Where it listens."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts it."""

    def stop(self) -> None:
        """Ends it."""

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._moved = True
        self._advance(seconds)

    def _advance(self, seconds: float) -> None:
        raise NotImplementedError

    def clean(self) -> None:
        """Deletes the streams made; a server whose clock was moved, or that no longer answers, is started anew."""
        made, self._made = self._made, []
        try:
            for name in () if self._moved else made:
                self._delete(name)
        except UNANSWERED:
            self._moved = True
        if self._moved:
            self._moved = False
            self.stop()
            self._clients.clear()
            self.start()

    def _delete(self, name: str) -> None:
        client = self.patient_client()
        with suppress(client.exceptions.ResourceNotFoundException):
            client.delete_stream(StreamName=name)

    def enforce_limits(self, stream: str) -> None:
        """Makes it refuse what is over a shard's limits, if that must be asked for."""

    def new_name(self) -> str:
        """A name for a stream."""
        name = f"{self._prefix}{next(self._numbers):03d}"
        self._made.append(name)
        return name

    def client(self) -> Any:
        """A boto3 client that retries nothing and leaves the checks of arguments to the server."""
        return self._client(1)

    def patient_client(self) -> Any:
        """The same for what is not the question: it retries."""
        return self._client(1 if self.endpoint_url else 10)

    def _client(self, attempts: int) -> Any:
        if attempts not in self._clients:
            self._clients[attempts] = self._new_client(
                Config(
                    parameter_validation=False,
                    connect_timeout=self.reply_s,
                    read_timeout=self.reply_s,
                    retries={"mode": "standard", "total_max_attempts": attempts},
                )
            )
        return self._clients[attempts]

    def _new_client(self, config: Config) -> Any:
        return boto3.client(
            "kinesis",
            endpoint_url=self.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=config,
        )


class Local(Server):
    """The local Kinesis."""

    name = "local"

    def __init__(self) -> None:
        super().__init__()
        self._running = ExitStack()
        self._process: LocalKinesis | None = None

    @property
    def process(self) -> LocalKinesis:
        """The running server."""
        assert self._process is not None
        return self._process

    @property
    def endpoint_url(self) -> str:
        return self.process.endpoint_url

    def start(self) -> None:
        self._process = self._running.enter_context(running())

    def stop(self) -> None:
        self._running.close()

    def _advance(self, seconds: float) -> None:
        self.process.control({"advance_clock_s": seconds})

    def enforce_limits(self, stream: str) -> None:
        self.process.control({"limits": [{"stream": stream}]})


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


class Service(Server):
    """Amazon Kinesis Data Streams itself, by the credentials of the default chain; see `on_aws`."""

    name = "aws"
    patience_s = 15.0
    pause_s = 2.0
    reply_s = 60

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix
        self.settings = {"Tags": {"made-by": "shardlake-conformance"}}

    @property
    def endpoint_url(self) -> str | None:
        return None

    def clean(self) -> None:
        self._moved = False  # by waiting
        super().clean()

    def _advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def _new_client(self, config: Config) -> Any:
        return boto3.client("kinesis", config=config)


def server(name: str, folder: Path) -> Server:
    """A server by its name on the command line, not yet started.

    Args:
        name: `local`, `kinesis-local`, `kinesalite`, `ministack` or `aws:<prefix of streams' names>`.
        folder: a place for its files.
    """
    npm = ["node", "--require", str(HERE / "started_with.cjs")]
    match name.partition(":"):
        case "local", _, _:
            return Local()
        case "kinesis-local", _, _:
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
        case "kinesalite", _, _:
            waits = [word for what in ("create", "delete", "update") for word in (f"--{what}StreamMs", "0")]
            program = [*npm, str(NODE_MODULES / "kinesalite" / "cli.js"), "--port", "{port}", "--shardLimit", "1000"]
            return Emulator(name, [*program, *waits], {}, folder)
        case "ministack", _, _:
            program = [str(INSTALLED / "ministack" / "bin" / "python"), str(HERE / "started_with.py")]
            environment = {"GATEWAY_PORT": "{port}", "BIND_HOST": "127.0.0.1", "SERVICES": "kinesis"}
            return Emulator(name, program, environment, folder)
        case "aws", ":", prefix:
            return Service(prefix)
    raise ValueError(f"no such server: {name}")


DURATIONS = ("CREATE_STREAM", "DELETE_STREAM", "SPLIT_SHARD", "MERGE_SHARDS", "UPDATE_SHARD_COUNT")


def new_prefix() -> str:
    """A prefix of streams' names that no other run has."""
    return f"shardlake-conformance-{secrets.token_hex(4)}-"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
