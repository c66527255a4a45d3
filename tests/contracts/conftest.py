"""The stores that contract suites run over, PostgreSQL a real server among them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.background import Background
from demo.postgres import NoPostgresError, Postgres, postgres
from shardlake.ledger import Ledger, open_ledger
from shardlake.ledger.memory import MemoryLedger

ON_POSTGRES = pytest.param("postgres", marks=pytest.mark.slow)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A running server; a laptop without PostgreSQL skips, CI fails."""
    with Background(tmp_path_factory.mktemp("postgres") / "processes.json") as background, ExitStack() as stack:
        try:
            server = stack.enter_context(postgres(background))
        except NoPostgresError as exc:
            if os.environ.get("CI") == "true":
                pytest.fail(str(exc))
            pytest.skip(str(exc))
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> str:
    return postgres_server.url(postgres_server.new_database())


@pytest.fixture(params=["sqlite", ON_POSTGRES])
def sql_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, once of each kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["memory", "sqlite", ON_POSTGRES])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """An empty ledger, once of each store."""
    if request.param == "memory":
        return MemoryLedger()
    return open_ledger(request.getfixturevalue(f"{request.param}_url"))
