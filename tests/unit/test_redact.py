"""No password of a URL is printed, whatever it is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlake.redact import has_password, redact


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("postgresql+psycopg://me:hunter2@host/db", "postgresql+psycopg://me:***@host/db"),
        ("postgresql+psycopg://me:hun@ter2@host/db", "postgresql+psycopg://me:***@host/db"),
        ("postgresql+psycopg://me:hun/ter?2#@host/db", "postgresql+psycopg://me:***@host/db"),
        ("postgresql+psycopg://me:hun ter2@host/db", "postgresql+psycopg://me:***@host/db"),
        ("postgresql+psycopg://:hunter2@host/db", "postgresql+psycopg://:***@host/db"),
        ("postgresql+psycopg://me@host/db?password=hunter2&x=1", "postgresql+psycopg://me@host/db?password=***&x=1"),
        ("postgresql+psycopg://me@host/db?x=1&PASSWORD=hunter2", "postgresql+psycopg://me@host/db?x=1&PASSWORD=***"),
        ("two: http://a:b@c and http://d:e@f.", "two: http://a:***@c and http://d:***@f."),
        ("line http://127.0.0.1:4567 one\nof me@host", "line http://127.0.0.1:4567 one\nof me@host"),
        ("http://127.0.0.1:4567/x", "http://127.0.0.1:4567/x"),
        ("sqlite:////lake/ledger.db", "sqlite:////lake/ledger.db"),
        ("postgresql+psycopg://me@host:5432/db", "postgresql+psycopg://me@host:5432/db"),
        ("no URL: me:hunter2@host", "no URL: me:hunter2@host"),
    ],
)
def test_passwords_become_stars_and_nothing_else_changes(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"]), min_size=1).map(lambda text: f"<{text}>"))
def test_no_password_without_spaces_survives(password: str) -> None:
    assert password not in redact(f"the ledger postgresql+psycopg://me:{password}@host/db cannot be used")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:hunter2@host/db",
        "postgresql+psycopg://me:hun ter2@host/db",
        "postgresql+psycopg://me:a@b@host/db",
        "postgresql+psycopg://host/db?password=hunter2",
        "postgresql+psycopg://host/db?x=1&SSLpassword=hunter2",
        "postgresql+psycopg://host/db?pass%77ord=hunter2",
    ],
)
def test_a_password_is_seen(url: str) -> None:
    assert has_password(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me@host:5432/db",
        "postgresql+psycopg://me:@host/db",
        "postgresql+psycopg://host:5432/db?password=",
        "postgresql+psycopg://host:5432/db",
        "sqlite:////lake/a:b@c/ledger.db",
        "airflow://ledger",
        "",
    ],
)
def test_no_password_is_seen_where_there_is_none(url: str) -> None:
    assert not has_password(url)
