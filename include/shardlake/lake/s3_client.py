"""The client of a dataset's bucket: whose credentials, which endpoint, how often a call is tried."""

from __future__ import annotations

import functools
from typing import Any

import boto3
from botocore.config import Config

from shardlake.plan import Role, Storage
from shardlake.roles import assumed

ATTEMPTS = 6
"""Tries per call, by botocore's standard retry mode: half a minute of 5xx, SlowDown and lost connections."""

CONNECTIONS = 32
"""Calls under way at once from one client, at most."""

SESSION_NAME = "shardlake"
"""What the logs of a role's account call us."""


@functools.lru_cache(maxsize=16)
def s3_client(storage: Storage, session: boto3.Session | None) -> Any:
    """A client, kept for the process: making one takes longer than most that it is used for.

    Args:
        session: a boto3 session with other credentials than the default chain's.
    """
    # S3 verifies every upload: botocore sends a CRC32 with it, and checks that of what it gets (`when_supported`).
    config = Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=CONNECTIONS,
        connect_timeout=5,
        read_timeout=60,
        request_checksum_calculation="when_supported",
        response_checksum_validation="when_supported",
    )
    if storage.role_arn:
        session = assumed(session, Role(storage.role_arn, storage.external_id, SESSION_NAME), storage.region)
    session = session or boto3.Session()
    return session.client("s3", region_name=storage.region, endpoint_url=storage.endpoint_url, config=config)
