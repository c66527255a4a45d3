"""AWS sessions of explicit credentials, and their way to a job.

`aws_conn_id` gives a session, a Spark job only gets what its environment carries. So a session's credentials travel to
the job's driver under names of their own, which the default chain does not read, and from there to the tasks in their
closure.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, MutableMapping

import boto3

_KEY_ID = "SHARDLAKE_AWS_ACCESS_KEY_ID"
_SECRET = "SHARDLAKE_AWS_SECRET_ACCESS_KEY"  # noqa: S105 (the name of a variable)
_TOKEN = "SHARDLAKE_AWS_SESSION_TOKEN"  # noqa: S105


def credentials_of(session: boto3.Session | None) -> dict[str, str]:
    """A session's credentials as environment variables; empty for the default chain, which is no session."""
    found = session and session.get_credentials()
    if not found:
        return {}
    frozen = found.get_frozen_credentials()
    return {_KEY_ID: frozen.access_key, _SECRET: frozen.secret_key, **({_TOKEN: frozen.token} if frozen.token else {})}


def take_credentials(environment: MutableMapping[str, str]) -> dict[str, str]:
    """What `credentials_of` put into an environment, taken out of it, so that no child finds it there."""
    return {name: environment.pop(name) for name in (_KEY_ID, _SECRET, _TOKEN) if name in environment}


def session_of(credentials: Mapping[str, str]) -> boto3.Session | None:
    """The session of what `credentials_of` gave; None, which means the default chain, for nothing.

    The same credentials give the same session within a process, and so the clients that are kept for it.
    """
    return _session(tuple(sorted(credentials.items()))) if credentials else None


@functools.lru_cache(maxsize=4)
def _session(credentials: tuple[tuple[str, str], ...]) -> boto3.Session:
    found = dict(credentials)
    return boto3.Session(found[_KEY_ID], found[_SECRET], found.get(_TOKEN))
