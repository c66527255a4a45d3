"""SubscribeToShard over HTTP/2, which botocore does not speak: it signs and decodes, `httpx2` carries.

The service gives a subscription's events out over HTTP/2 only. botocore's event `before-send` takes a reply from
elsewhere (boto3's guide, "Extensibility"). Credentials and endpoint are the client's, for they are in the signed
request; proxy and CA bundle are found as botocore finds them.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import botocore.session
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.httpsession import ProxyConfiguration, get_cert_path
from botocore.utils import get_environ_proxies

from shardlake.errors import ConfigError, UnavailableError

CONNECT_S = 5.0
SILENCE_S = 30.0
"""How long a connection may say nothing, not even an empty event."""

_SHORTEST_BYTES = 16
"""An event without headers and payload (Amazon event stream encoding)."""


def subscribe_over_http2(client: Any) -> None:
    """Let a boto3 client for Kinesis send SubscribeToShard by HTTP/2, each call by a connection of its own."""
    client.meta.events.register("before-send.kinesis.SubscribeToShard", send)


def send(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
    """The reply to a signed request. Whoever reads its body to the end, or closes it, closes the connection.

    Raises:
        ConfigError: `httpx2` is not installed, or the server does not speak HTTP/2.
        UnavailableError: no connection, or no reply; reading the body raises it, too.
    """
    httpx2, failures = _packages()
    proxy = ProxyConfiguration(get_environ_proxies(request.url)).proxy_url_for(request.url)
    transport = httpx2.HTTPTransport(verify=_trusted(), http2=True, proxy=proxy)
    timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S).as_dict()
    headers = {name: _text(value) for name, value in request.headers.items()}
    sent = httpx2.Request("POST", request.url, headers=headers, content=request.body, extensions={"timeout": timeout})

    @contextmanager
    def translated() -> Iterator[None]:
        try:
            yield
        except failures as exc:
            told = f"{type(exc).__name__}: {str(exc)[:300]}"
            raise UnavailableError(f"the HTTP/2 connection to {request.url} failed ({told})") from exc

    with ExitStack() as unless_it_goes_well:
        unless_it_goes_well.callback(transport.close)
        with translated():
            reply = transport.handle_request(sent)
        if reply.http_version != "HTTP/2":
            raise ConfigError(
                f"enhanced fan-out needs HTTP/2, which is not to be had at {request.url}",
                found=reply.http_version,
                todo="Check endpoint_url and what lies between, or remove consumer from the configuration",
            )
        unless_it_goes_well.pop_all()
    body = _Body(reply.iter_raw(), transport.close, translated)
    return AWSResponse(request.url, reply.status_code, dict(reply.headers), body)


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of a reply, as botocore reads it."""

    pieces: Iterator[bytes]
    close: Callable[[], None]
    translated: Callable[[], AbstractContextManager[None]]

    def stream(self) -> Iterator[bytes]:
        """The events, each whole: botocore copies all that it holds with every piece that it is given."""
        try:
            with self.translated():
                yield from whole_events(self.pieces)
        finally:
            self.close()


def whole_events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut where events end; each begins with its length."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= (size := max(_SHORTEST_BYTES, int.from_bytes(held[:4]))):
            yield bytes(held[:size])
            del held[:size]
    yield bytes(held)


def _packages() -> tuple[Any, tuple[type[Exception], ...]]:
    """`httpx2`, which only enhanced fan-out needs; and what it raises."""
    try:
        import h2.exceptions
        import httpx2
    except ImportError as exc:
        raise ConfigError(
            f"enhanced fan-out needs HTTP/2, and {exc.name} is not installed",
            todo="Install httpx2[http2], which is shardlake[fan-out], where Spark's Python runs",
        ) from exc
    return httpx2, (httpx2.TransportError, h2.exceptions.H2Error)


def _trusted() -> ssl.SSLContext:
    """Whom botocore trusts: the bundle of AWS_CA_BUNDLE, profile or REQUESTS_CA_BUNDLE, else its own."""
    bundle = botocore.session.Session().get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
    return ssl.create_default_context(cafile=get_cert_path(bundle or True))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
