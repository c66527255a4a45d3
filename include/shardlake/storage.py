"""What a pipeline's entry may say of a dataset on S3: its URL, and the key `storage`."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from shardlake.role_keys import RoleKeys

S3 = "s3://"
REGION = r"^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$"

MAX_PREFIX_BYTES = 512
"""Half of what S3 allows for a key; the rest is for what lies below the dataset."""

_BUCKET = re.compile(r"(?!xn--|sthree-|amzn-s3-demo-)[a-z0-9](?:[a-z0-9-]|\.(?!\.)){1,61}[a-z0-9]", re.ASCII)
"""https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""

_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", re.ASCII)
_DIRECTORY_BUCKET = "--x-s3"
"""Their listings have no order and begin nowhere but at the beginning (ListObjectsV2, API reference)."""

_NOT_IN_PREFIX = re.compile(r"[\x00-\x1f\x7f\\?#]")
"""Control characters; and what URLs, or some reader of them, take for something else."""


def endpoint(value: str) -> str:
    """An endpoint, checked.

    Raises:
        ValueError: it is none, or has a user or a path.
    """
    parts = urlsplit(value)  # a ValueError for a malformed one
    if not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+/?", value) or not parts.hostname or parts.port == 0:
        raise ValueError("not an endpoint")
    return value


def s3_dataset(value: str) -> str:
    """The URL of a dataset on S3, checked.

    Raises:
        ValueError: it is none.
    """
    bucket, slash, prefix = value.removeprefix(S3).partition("/")
    if not _BUCKET.fullmatch(bucket) or _ADDRESS.fullmatch(bucket) or bucket.endswith(_DIRECTORY_BUCKET):
        raise ValueError("not a bucket")
    segments = prefix.split("/") if slash else []
    if any(segment in ("", ".", "..") or segment != segment.strip() for segment in segments):
        raise ValueError("not a prefix")
    if _NOT_IN_PREFIX.search(prefix) or len(prefix.encode()) > MAX_PREFIX_BYTES:
        raise ValueError("not a prefix")
    return value


class StorageKeys(RoleKeys):
    """How a dataset on S3 is reached."""

    region: str | None = Field(None, pattern=REGION, description="a region's code, like eu-west-1")
    endpoint_url: Annotated[str, AfterValidator(endpoint)] | None = Field(
        None, description="http(s)://<host>[:<port>] without a user or a path, or null"
    )
    kms_key_id: str | None = Field(
        None, pattern=r"^[A-Za-z0-9:/_-]{1,2048}$", description="a KMS key's id, ARN or alias/<name>, or null"
    )
