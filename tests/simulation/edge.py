"""boto3's edge: calls of real clients are answered in this process, by whoever stands in for a service.

boto3's documented event `before-send` takes a reply from elsewhere than the network; all else of botocore is at work.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict
from botocore.config import Config

from simulation.clock import SimulatedClock

REGION = "us-east-1"
Answer = Callable[[AWSPreparedRequest], AWSResponse]


class SimulatedSession:
    """Stands in for `boto3.Session`: its clients are boto3's, but nothing of theirs reaches the network.

    Attributes:
        services: who answers, by the service's name.
    """

    services: Mapping[str, Answer] = {}

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def client(self, name: str, **_: object) -> Any:
        """A client of a service, whatever region, credentials and configuration are asked for."""
        return _Client(name)


class _Client:
    """A client that all share, since to make one takes longer than a run; of handlers of an event it keeps the first.

    The product adds the same ones to each client that it makes.
    """

    def __init__(self, name: str) -> None:
        self._client, self._events = _client(name)
        self.meta = SimpleNamespace(endpoint_url="http://simulated", region_name=REGION, events=self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def register(self, event: str, handler: Callable[..., Any]) -> None:
        if event not in self._events:
            self._events.add(event)
            self._client.meta.events.register(event, handler)


_RealSession = boto3.Session


@functools.cache
def _client(name: str) -> tuple[Any, set[str]]:
    config = Config(
        signature_version=UNSIGNED,
        retries={"mode": "standard", "total_max_attempts": 1},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path"},
    )
    client = _RealSession().client(name, region_name=REGION, endpoint_url="http://simulated", config=config)
    client.meta.events.register(f"before-send.{name}.*", lambda request, **_: SimulatedSession.services[name](request))
    return client, set()


def reply(
    clock: SimulatedClock, request: AWSPreparedRequest, status: int, body: bytes, headers: Mapping[str, str]
) -> AWSResponse:
    """A reply with the service's time."""
    date = formatdate(clock.now_ms() // 1000, usegmt=True)
    return AWSResponse(request.url, status, HeadersDict({"date": date, **headers}), _Body(body))


class _Body(io.BytesIO):
    """What is left to read of a reply."""

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self.read()
