"""A local file to an object of S3: whole or not at all, under a free name if so asked, with checksums S3 verifies.

An object becomes visible with the reply to its put, or to its multipart upload's completion, and only when both the
parts and the name hold (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html). An upload is
completed here and nowhere else: pyarrow's S3 stream completes its upload also when whoever wrote to it failed.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any, BinaryIO

from botocore.exceptions import BotoCoreError, ClientError

from shardlake.lake.positioned import Positioned
from shardlake.lake.s3_failures import code_of

MULTIPART_BYTES = 64 * 2**20
"""Files larger than this go up in parts; S3 takes 5 GiB as one."""

PART_BYTES = 32 * 2**20
MAX_PARTS = 10_000
"""Most parts of one upload (https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html)."""

CONFLICT_ATTEMPTS = 6
CONFLICT_WAIT_S = 0.2
"""Doubled with each try: S3 answers 409 while another request for the same name is under way."""

IF_FREE: Mapping[str, str] = {"IfNoneMatch": "*"}
ALWAYS: Mapping[str, str] = {}
"""The two conditions of a write."""


class Uploads:
    """The writes to one bucket. They raise botocore's errors.

    Args:
        encryption: arguments that every new object is made with.
    """

    def __init__(self, client: Any, bucket: str, encryption: Mapping[str, str]) -> None:
        self._client, self._bucket, self._encryption = client, bucket, encryption

    def text(self, text: str, key: str, condition: Mapping[str, str]) -> bool:
        """Write a small object; whether its name was free, where that is the condition."""
        return self._unless_taken(lambda: self._put(text.encode(), key, condition))

    def file(self, file: Path, key: str, condition: Mapping[str, str]) -> bool:
        """Write a finished file; whether its name was free, where that is the condition.

        A retry whose first try came through without anybody hearing of it finds the name taken.
        """
        size = file.stat().st_size
        with file.open("rb") as opened:
            if size > MULTIPART_BYTES:
                return self._unless_taken(lambda: self._in_parts(opened, size, key, condition))
            return self._unless_taken(lambda: self._put(opened, key, condition))

    def check(self, key: str) -> None:
        """Find out that objects can be written, leaving nothing behind."""
        self._abort(key, self._create(key))

    def abort(self, key: str, upload_id: str) -> None:
        """End an upload; one that is over already is left as it is."""
        try:
            self._abort(key, upload_id)
        except ClientError as exc:
            if code_of(exc) != "NoSuchUpload":
                raise

    def _unless_taken(self, write: Callable[[], None]) -> bool:
        """Write; again while S3 says that another write of the same name is under way.

        After a 409 an upload in parts has to begin anew (CompleteMultipartUpload, API reference).
        """
        for attempt in range(CONFLICT_ATTEMPTS):
            try:
                write()
            except ClientError as exc:
                if code_of(exc) == "PreconditionFailed":
                    return False
                if code_of(exc) != "ConditionalRequestConflict" or attempt == CONFLICT_ATTEMPTS - 1:
                    raise
                time.sleep(CONFLICT_WAIT_S * 2**attempt * random.uniform(0.5, 1))  # noqa: S311 (jitter)
            else:
                return True
        raise AssertionError

    def _put(self, body: bytes | BinaryIO, key: str, condition: Mapping[str, str]) -> None:
        if not isinstance(body, bytes):
            body.seek(0)
        self._client.put_object(Bucket=self._bucket, Key=key, Body=body, **condition, **self._encryption)

    def _in_parts(self, file: BinaryIO, size: int, key: str, condition: Mapping[str, str]) -> None:
        upload_id = self._create(key)
        upload = {"Bucket": self._bucket, "Key": key, "UploadId": upload_id}
        try:
            parts = [
                self._part(upload, number, Part(file, begin, length))
                for number, (begin, length) in enumerate(cuts(size), 1)
            ]
            self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **condition)
        except BaseException:
            with contextlib.suppress(BotoCoreError, ClientError):  # what is left is cleared away later
                self._abort(key, upload_id)
            raise

    def _part(self, upload: Mapping[str, str], number: int, part: Part) -> dict[str, Any]:
        reply = self._client.upload_part(**upload, PartNumber=number, Body=part, ChecksumAlgorithm="CRC32")
        return {"PartNumber": number, "ETag": reply["ETag"], "ChecksumCRC32": reply["ChecksumCRC32"]}

    def _create(self, key: str) -> str:
        upload = {"Bucket": self._bucket, "Key": key, "ChecksumAlgorithm": "CRC32"}
        return str(self._client.create_multipart_upload(**upload, **self._encryption)["UploadId"])

    def _abort(self, key: str, upload_id: str) -> None:
        self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload_id)


def cuts(size: int) -> Iterator[tuple[int, int]]:
    """Where the parts of a file begin and how long they are: all but the last alike, at most `MAX_PARTS`."""
    part = max(PART_BYTES, ceil(size / MAX_PARTS))
    return ((begin, min(part, size - begin)) for begin in range(0, size, part))


class Part(Positioned):
    """A stretch of an open file, read as a file of its own, as often as a call is tried."""

    def __init__(self, file: BinaryIO, begin: int, length: int) -> None:
        super().__init__(length)
        self._file, self._begin = file, begin

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._begin + self._at)
        count = self._file.readinto(memoryview(buffer)[: max(0, self._size - self._at)])  # type: ignore[attr-defined]
        self._at += count
        return int(count)
