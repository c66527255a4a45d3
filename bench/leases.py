"""A DynamoDB for the leases of the KCLs among the peers: moto's, of the peers' environment."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.runs import BenchError
from demo.ports import LOOPBACK, free_ports

READY_WITHIN_S = 60.0


@contextmanager
def dynamodb(python: Path) -> Iterator[str]:
    """Its URL, for the length of a `with` block.

    Raises:
        BenchError: it did not get ready.
    """
    (port,) = free_ports(1)
    url = f"http://{LOOPBACK}:{port}"
    command = [str(python), "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + READY_WITHIN_S
        while not _answers(url):
            if time.monotonic() > until_s or process.poll() is not None:
                raise BenchError("moto's DynamoDB does not get ready")
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/moto-api/", timeout=2).close()  # noqa: S310 (http: only, as above)
    except (urllib.error.URLError, OSError):
        return False
    return True
