"""Explicit credentials travel by an environment, under names that the default chain does not read."""

from __future__ import annotations

import boto3
import pytest

from shardlake.aws import credentials_of, session_of, take_credentials
from shardlake.engines import IngestJob

SECRET = "hunter2"


def test_the_default_chain_has_none() -> None:
    assert credentials_of(None) == {}
    assert session_of({}) is None
    assert take_credentials({"AWS_ACCESS_KEY_ID": "other"}) == {}


@pytest.mark.parametrize("token", [None, "token"])
def test_a_sessions_come_out_as_they_went_in(token: str | None) -> None:
    credentials = credentials_of(boto3.Session("key", SECRET, token))
    assert all(name.startswith("SHARDLAKE_AWS_") for name in credentials)
    session = session_of(credentials)
    assert session is not None
    frozen = session.get_credentials().get_frozen_credentials()
    assert (frozen.access_key, frozen.secret_key, frozen.token) == ("key", SECRET, token)
    assert session_of(dict(credentials)) is session
    assert session_of({**credentials, "SHARDLAKE_AWS_ACCESS_KEY_ID": "other"}) is not session


def test_what_is_taken_from_an_environment_is_gone_from_it() -> None:
    credentials = credentials_of(boto3.Session("key", SECRET, "token"))
    environment = {"AWS_ACCESS_KEY_ID": "other", **credentials}
    assert take_credentials(environment) == credentials
    assert environment == {"AWS_ACCESS_KEY_ID": "other"}


def test_a_session_without_any_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    session = boto3.Session()
    monkeypatch.setattr(session, "get_credentials", lambda: None)
    assert credentials_of(session) == {}


def test_no_secret_is_in_a_jobs_representation() -> None:
    job = IngestJob("job", "{}", "abc", [0], "report.json", credentials_of(boto3.Session("key", SECRET)))
    assert SECRET not in f"{job!r} {job}"
