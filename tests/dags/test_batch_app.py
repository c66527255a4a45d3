"""The page of a batch as the API server answers; with a login: `e2e/test_airflow.py`."""

from __future__ import annotations

import airflow.api_fastapi.core_api.security as security
import pytest
from fastapi.testclient import TestClient

from shardlake.airflow import links
from shardlake.errors import UnavailableError


def test_a_dataset_that_does_not_answer_is_said_so_and_not_an_error_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kills: an error of ours that ends as HTTP 500 without a word."""

    def unavailable(*_: object) -> dict[str, str]:
        raise UnavailableError("bucket <lake> does not answer", todo="Try again")

    monkeypatch.setattr(security, "requires_access_dag", lambda method: lambda: None)
    monkeypatch.setattr(links, "_form", lambda *_: {})
    monkeypatch.setattr(links, "batch_files", unavailable)
    answer = TestClient(links.batch_app(), raise_server_exceptions=False).get("/dag/run")
    assert answer.status_code == 503
    assert "bucket &lt;lake&gt; does not answer. Try again" in answer.text
    assert answer.headers["Cache-Control"] == "no-store"
