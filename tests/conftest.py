"""One object store of each kind for all tests that ask for it; fixtures are ended also by SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from support.lakes import Bucket, bucket_of, seaweedfs


def pytest_configure() -> None:
    """Have SIGTERM end the tests as Ctrl-C does, with fixtures: servers would be left behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """SeaweedFS: a real server, whose conditional writes are atomic."""
    yield from seaweedfs(tmp_path_factory.mktemp("object-store"))


@pytest.fixture(scope="session")
def moto_store() -> Iterator[Bucket]:
    """moto, in a thread of this process: it knows KMS keys and STS, checks no credentials and no checksums.

    It has no locks: its conditional writes are atomic only as long as one at a time is asked for.
    """
    from moto.server import ThreadedMotoServer

    from demo.object_store import BUCKET, ObjectStore

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        bucket = bucket_of(ObjectStore(f"http://{host}:{port}"))
        bucket.client.create_bucket(Bucket=BUCKET)
        yield bucket
    finally:
        server.stop()
