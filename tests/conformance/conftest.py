"""The servers named by `--servers`, one after another, and of each a stream for each behaviour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest
import tests.conformance.asked  # noqa: F401 -- notes the behaviours
from tests.conformance.behaviour import BEHAVIOURS, Behaviour
from tests.conformance.elsewhere import Elsewhere
from tests.conformance.server import Decoder, Server
from tests.conformance.servers import server
from tests.conformance.stream import Stream
from tests.integration.conftest import bucket, make_world, shared_client, shared_session, world

from local_kinesis.process import LocalKinesis, running

__all__ = ["bucket", "make_world", "shared_client", "shared_session", "world"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--servers`."""
    parser.addoption("--servers", default="local", help="the Kinesis servers to ask, with commas between them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Asks each server all that it can be asked."""
    servers = metafunc.config.getoption("--servers", "local").split(",")
    if "shared_kinesis" in metafunc.fixturenames:
        able = [name for name in servers if name in ("local", "kinesis-local")]
        metafunc.parametrize("shared_kinesis", able, indirect=True, scope="session")
    if "asked_of" not in metafunc.fixturenames:
        return
    on_aws = any(name.startswith("aws") for name in servers)  # a day is a day there, and each question costs money
    asked = [each for each in BEHAVIOURS.values() if not (each.a_day and on_aws)]
    ids = [name.partition(":")[0] for name in servers]
    metafunc.parametrize("asked_of", servers, indirect=True, ids=ids, scope="session")
    metafunc.parametrize("asked", asked, ids=[each.name for each in asked])
    metafunc.parametrize("decoder", ["botocore"] if on_aws else get_args(Decoder))


@pytest.fixture(scope="session")
def asked_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server."""
    found = server(request.param, tmp_path_factory.mktemp("server"))
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="session")
def shared_kinesis(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalKinesis | Elsewhere]:
    """The server of the pipeline's tests."""
    if request.param == "local":
        with running() as local:
            yield local
        return
    found = server(request.param, tmp_path_factory.mktemp("server"))
    found.start()
    try:
        yield Elsewhere(str(found.endpoint_url))
    finally:
        found.stop()


@pytest.fixture
def stream(asked_of: Server, asked: Behaviour, decoder: Decoder) -> Iterator[Stream]:
    """The stream that is asked about, by a client that decodes replies as boto3 does, or as the product does."""
    yield Stream.made(asked_of, asked.shards, decoder)
    asked_of.clean()
