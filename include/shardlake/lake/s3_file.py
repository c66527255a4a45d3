"""An object of S3 as a file for random access, read by ranges, for pyarrow to read Parquet from.

Not pyarrow's own S3 file: that one has no credentials that renew themselves, tries and names errors in its own way, and
cannot tell a service that does not answer from bytes that do not hold. Here both reading and writing are botocore's.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from botocore.exceptions import ClientError

from shardlake.lake.positioned import Positioned
from shardlake.lake.s3_failures import NO_REPLY, code_of, translated

TAIL_BYTES = 2**16
"""Read with the opening: a footer and its length are usually in there."""

READS = 4
"""Tries at a stretch whose body breaks off: botocore tries calls again, not bodies."""


class S3File(Positioned):
    """The object as it is when opened; replaced while it is read, it can be read no further.

    Raises:
        FileNotFoundError: it is not there.
        ConfigError, UnavailableError: as `translated`; also from every method.
    """

    def __init__(self, client: Any, bucket: str, key: str) -> None:
        self._client, self._url = client, f"s3://{bucket}/{key}"
        self._object = {"Bucket": bucket, "Key": key}
        try:
            with translated(self._url):
                reply, self._tail = _get(client, {**self._object, "Range": f"bytes=-{TAIL_BYTES}"})
        except Exception as exc:
            code = code_of(exc.__cause__) if isinstance(exc.__cause__, ClientError) else None
            if code == "NoSuchKey":
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._url) from exc
            if code != "InvalidRange":
                raise
            size, self._tail = 0, b""  # an empty object has no range at all
        else:
            self._object["IfMatch"] = reply["ETag"]
            size = int(reply["ContentRange"].rpartition("/")[2]) if "ContentRange" in reply else len(self._tail)
        super().__init__(size)

    def readinto(self, buffer: Any) -> int:
        content = self._stretch(self._at, min(self._at + len(buffer), self._size))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def _stretch(self, begin: int, end: int) -> bytes:
        if begin >= end:
            return b""
        tail_at = self._size - len(self._tail)
        if begin >= tail_at:
            return self._tail[begin - tail_at : end - tail_at]
        with translated(self._url):
            return _get(self._client, {**self._object, "Range": f"bytes={begin}-{end - 1}"})[1]


def read_object(client: Any, bucket: str, key: str) -> bytes:
    """All of an object. Raises botocore's errors."""
    return _get(client, {"Bucket": bucket, "Key": key})[1]


def _get(client: Any, request: dict[str, str]) -> tuple[dict[str, Any], bytes]:
    for attempt in range(READS):
        reply = client.get_object(**request)
        try:
            return reply, reply["Body"].read()
        except NO_REPLY:
            if attempt == READS - 1:
                raise
    raise AssertionError
