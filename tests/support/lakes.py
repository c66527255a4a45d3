"""Where tests keep a dataset, seen from outside: files by key, whatever the product makes of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest
from pyarrow import fs

from demo.background import Background
from demo.object_store import (
    ACCESS_KEY_ID,
    BUCKET,
    REGION,
    SECRET_ACCESS_KEY,
    NoObjectStoreError,
    ObjectStore,
    start_object_store,
)

PLACES = ["folder", pytest.param("s3", marks=pytest.mark.slow)]
"""Where a dataset can be; see the fixture `bucket` of the integration tests."""


class Lake(Protocol):
    """A dataset's files."""

    @property
    def dataset(self) -> str:
        """What the configuration's `dataset` says."""

    @property
    def storage(self) -> dict[str, str]:
        """What its `storage` says."""

    def read(self, key: str) -> bytes:
        """A file's bytes."""

    def write(self, key: str, content: bytes) -> None:
        """Make a file, or replace it."""

    def delete(self, key: str) -> None:
        """Remove a file."""

    def keys(self, prefix: str) -> list[str]:
        """The files whose keys begin with a prefix, sorted."""

    def clear(self) -> None:
        """Remove everything."""

    def place(self, key: str) -> tuple[str, fs.FileSystem]:
        """A path and a file system to read it with, for pyarrow."""


@dataclass(frozen=True)
class Folder:
    """A dataset in a folder."""

    root: Path

    @property
    def dataset(self) -> str:
        return str(self.root)

    @property
    def storage(self) -> dict[str, str]:
        return {}

    def read(self, key: str) -> bytes:
        return (self.root / key).read_bytes()

    def write(self, key: str, content: bytes) -> None:
        (self.root / key).parent.mkdir(parents=True, exist_ok=True)
        (self.root / key).write_bytes(content)

    def delete(self, key: str) -> None:
        (self.root / key).unlink()

    def keys(self, prefix: str) -> list[str]:
        keys = (str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())
        return sorted(key for key in keys if key.startswith(prefix))

    def clear(self) -> None:
        shutil.rmtree(self.root)

    def place(self, key: str) -> tuple[str, fs.FileSystem]:
        return str(self.root / key), fs.LocalFileSystem()


@dataclass(frozen=True)
class Bucket:
    """A bucket of a server of the tests, with one client and one pyarrow file system for all datasets in it."""

    endpoint_url: str
    client: Any = field(repr=False)
    files: fs.FileSystem = field(repr=False)

    def lake(self, prefix: str) -> BucketLake:
        """The dataset below a prefix."""
        return BucketLake(self, prefix)


@dataclass(frozen=True)
class BucketLake:
    """A dataset in a bucket."""

    bucket: Bucket
    prefix: str

    @property
    def dataset(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}"

    @property
    def storage(self) -> dict[str, str]:
        return {"endpoint_url": self.bucket.endpoint_url, "region": REGION}

    def read(self, key: str) -> bytes:
        reply = self.bucket.client.get_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}")
        content: bytes = reply["Body"].read()
        return content

    def write(self, key: str, content: bytes) -> None:
        self.bucket.client.put_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}", Body=content)

    def delete(self, key: str) -> None:
        self.bucket.client.delete_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}")

    def keys(self, prefix: str) -> list[str]:
        pages = self.bucket.client.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix=f"{self.prefix}/{prefix}"
        )
        return sorted(
            item["Key"].removeprefix(f"{self.prefix}/") for page in pages for item in page.get("Contents", [])
        )

    def place(self, key: str) -> tuple[str, fs.FileSystem]:
        return f"{BUCKET}/{self.prefix}/{key}", self.bucket.files

    def clear(self) -> None:
        for key in self.keys(""):
            self.delete(key)

    def uploads(self) -> list[str]:
        """The keys of uploads in parts that are neither completed nor ended."""
        reply = self.bucket.client.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{self.prefix}/")
        return sorted(upload["Key"].removeprefix(f"{self.prefix}/") for upload in reply.get("Uploads", []))


def bucket_of(store: ObjectStore) -> Bucket:
    """The bucket of a server."""
    files = fs.S3FileSystem(
        access_key=ACCESS_KEY_ID, secret_key=SECRET_ACCESS_KEY, endpoint_override=store.endpoint_url, region=REGION
    )
    return Bucket(store.endpoint_url, store.client(), files)


def seaweedfs(folder: Path) -> Iterator[Bucket]:
    """A real server, for a fixture; a laptop without SeaweedFS skips, CI fails."""
    with Background(folder / "processes.json") as background:
        try:
            store = start_object_store(folder, background)
        except NoObjectStoreError as exc:
            skip_on_a_laptop(exc)
        yield bucket_of(store)


def skip_on_a_laptop(exc: NoObjectStoreError) -> NoReturn:
    """Skip for want of a server; fail in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(exc))
    pytest.skip(str(exc))
