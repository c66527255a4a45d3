"""The servers that can be asked: the local Kinesis, those of other projects, and the service itself."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from tests.conformance.emulator import emulator
from tests.conformance.server import Server

from local_kinesis.process import LocalKinesis, running


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
        name: `local`, `aws:<prefix of streams' names>`, or that of an emulator.
        folder: a place for its files.
    """
    match name.partition(":"):
        case "local", _, _:
            return Local()
        case "aws", ":", prefix:
            return Service(prefix)
    return emulator(name, folder)


def new_prefix() -> str:
    """A prefix of streams' names that no other run has."""
    return f"shardlake-conformance-{secrets.token_hex(4)}-"
