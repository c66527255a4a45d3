"""A dataset on S3, below a prefix of a bucket: published by conditional writes, which never replace an object.

Needs a store with conditional writes and listings in order, both of which S3's directory buckets and old imitations
lack. A name that is published, and a file that was replaced, are seen by every later request (S3's strong consistency,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel): there is nothing to sync.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from botocore.exceptions import ClientError

from shardlake.errors import ConfigError, UnavailableError
from shardlake.lake.home import Home, text_of
from shardlake.lake.s3_client import s3_client
from shardlake.lake.s3_failures import code_of, translated
from shardlake.lake.s3_file import S3File, read_object
from shardlake.lake.s3_upload import ALWAYS, IF_FREE, Uploads
from shardlake.names import CONTROL
from shardlake.plan import Storage

if TYPE_CHECKING:
    import boto3

PAGE_KEYS = 1000
"""Names that one call lists, at most; S3 gives no more."""

BOUNDED_PAGE_KEYS = 50
"""The same where only a few are expected."""

ABANDONED = timedelta(hours=24)
PUBLISHED_ABANDONED = timedelta(hours=1)
"""Age of an upload under a published name that nobody can want any more; a repair may be replacing the file."""

_TEMPORARY = "shardlake-"


class S3Home(Home):
    """A dataset below a prefix.

    Args:
        dataset: `s3://<bucket>` or `s3://<bucket>/<prefix>`.
        storage: how the bucket is reached.
        session: a boto3 session with other credentials than the default chain's.
    """

    def __init__(self, dataset: str, storage: Storage, session: boto3.Session | None = None) -> None:
        self._dataset, self._storage, self._session = dataset, storage, session
        self._bucket, _, prefix = dataset.removeprefix("s3://").partition("/")
        self._prefix = prefix and f"{prefix}/"

    @cached_property
    def _client(self) -> Any:
        with translated(self._dataset):
            try:
                return s3_client(self._storage, self._session)
            except ValueError as exc:  # what botocore says of an endpoint
                raise ConfigError(f"dataset {self._dataset}: S3 cannot be asked: {exc}") from exc

    @cached_property
    def _uploads(self) -> Uploads:
        key_id = self._storage.kms_key_id
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key_id} if key_id else {}
        return Uploads(self._client, self._bucket, encryption)

    def url(self, key: str) -> str:
        return f"{self._dataset}/{key}"

    def check_writable(self) -> None:
        """Find out that the dataset can be written: an upload in parts is begun and ended.

        That takes the same permissions and the same KMS key as a file does.
        """
        with self.errors():
            self._uploads.check(self._key(f"{CONTROL}/writable"))

    def read(self, key: str) -> str | None:
        with self.errors():
            try:
                return text_of(read_object(self._client, self._bucket, self._key(key)), self.url(key))
            except ClientError as exc:
                if code_of(exc) == "NoSuchKey":
                    return None
                raise

    def replace(self, key: str, text: str) -> None:
        with self.errors():
            self._uploads.text(text, self._key(key), ALWAYS)

    def create(self, key: str, text: str) -> bool:
        with self.errors():
            return self._uploads.text(text, self._key(key), IF_FREE) or self.read(key) == text

    def remove(self, key: str) -> None:
        with self.errors():
            self._client.delete_object(Bucket=self._bucket, Key=self._key(key))

    @contextlib.contextmanager
    def temporary(self, directory_key: str) -> Iterator[Path]:
        """A file in the machine's temporary folder: workers share no disk with the dataset, nor with each other."""
        with self._errors_of_disk():
            _remove_left_behind()
            handle, name = tempfile.mkstemp(prefix=_TEMPORARY, suffix=".parquet")
            os.close(handle)
            temporary = Path(name)
            try:
                yield temporary
            finally:
                temporary.unlink(missing_ok=True)

    def publish(self, temporary: Path, key: str) -> bool:
        with self.errors():
            try:
                return self._uploads.file(temporary, self._key(key), IF_FREE)
            except ClientError as exc:
                # A completion tried again after its reply was lost; or somebody ended the upload.
                if code_of(exc) == "NoSuchUpload" and self.exists(key):
                    return False
                raise

    def overwrite(self, temporary: Path, key: str) -> None:
        with self.errors():
            self._uploads.file(temporary, self._key(key), ALWAYS)

    def sync(self, directory_key: str) -> None:
        """Nothing: what S3 has acknowledged lasts."""

    def open(self, key: str) -> pa.NativeFile:
        with translated(self._dataset):
            return pa.PythonFile(S3File(self._client, self._bucket, self._key(key)), mode="r")

    def exists(self, key: str) -> bool:
        return self._listed(key) is not None

    def size(self, key: str) -> int:
        found = self._listed(key)
        if found is None:
            raise UnavailableError(f"{self.url(key)} is not there any more", todo="Run the step again")
        return int(found["Size"])

    def names(self, directory_key: str, *, after: str = "", before: str | None = None) -> list[str]:
        directory = self._key(f"{directory_key.rstrip('/')}/")
        request: dict[str, Any] = {"Delimiter": "/", "MaxKeys": BOUNDED_PAGE_KEYS if before else PAGE_KEYS}
        if after:
            request["StartAfter"] = f"{directory}{after}"
        names: set[str] = set()
        with self.errors():
            for page in self._pages("list_objects_v2", Prefix=directory, **request):
                keys = [item["Key"] for item in page.get("Contents", [])]
                keys += [item["Prefix"].rstrip("/") for item in page.get("CommonPrefixes", [])]
                names.update(key.removeprefix(directory) for key in keys)
                if before is not None and any(name >= before for name in names):
                    break
        # A folder's own marker, which consoles make, has an empty name.
        return sorted(name for name in names if after < name and (before is None or name < before))

    def remove_directory(self, directory_key: str) -> None:
        """Nothing: temporary files lie elsewhere."""

    def remove_abandoned(self) -> None:
        """End uploads that killed processes left behind: their parts are stored, and paid for, until then."""
        with self.errors():
            for page in self._pages("list_multipart_uploads", Prefix=self._prefix):
                now = parsedate_to_datetime(page["ResponseMetadata"]["HTTPHeaders"]["date"])
                for upload in page.get("Uploads", []):
                    age = now - upload["Initiated"]
                    key = upload["Key"].removeprefix(self._prefix)
                    if age > ABANDONED or (age > PUBLISHED_ABANDONED and self.exists(key)):
                        self._uploads.abort(upload["Key"], upload["UploadId"])

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        with self._errors_of_disk(), translated(self._dataset):
            yield

    @contextlib.contextmanager
    def _errors_of_disk(self) -> Iterator[None]:
        """For what has to do with temporary files; botocore's errors are no `OSError`, nor are those of `S3File`."""
        try:
            yield
        except OSError as exc:
            said = f"dataset {self._dataset}, temporary files in {tempfile.gettempdir()}: {exc.strerror or exc}"
            raise UnavailableError(said, todo="Free this machine's disk, or name another folder in TMPDIR") from exc

    def _key(self, key: str) -> str:
        return f"{self._prefix}{key}"

    def _listed(self, key: str) -> dict[str, Any] | None:
        """An object as a listing tells of it: unlike HEAD, that says what is wrong where something is.

        A key sorts before all that it is the beginning of.
        """
        with self.errors():
            reply = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._key(key), MaxKeys=1)
        found: list[dict[str, Any]] = reply.get("Contents", [])
        return found[0] if found and found[0]["Key"] == self._key(key) else None

    def _pages(self, operation: str, **request: Any) -> Iterator[dict[str, Any]]:
        pages: Iterator[dict[str, Any]] = self._client.get_paginator(operation).paginate(Bucket=self._bucket, **request)
        return pages


def _remove_left_behind() -> None:
    """Remove the temporary files of killed processes, which nobody has written to for a day."""
    for file in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*.parquet"):
        with contextlib.suppress(OSError):  # another one removed it, or it is another user's
            if time.time() - file.stat().st_mtime > ABANDONED.total_seconds():
                file.unlink()
