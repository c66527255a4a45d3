"""The bridge's own parts: Airflow's connections, the operator that is killed, the plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shardlake.config import config_file, load_pipeline
from shardlake.errors import ConfigError

Make = Callable[..., Any]


def ledger_url(made: Any) -> str:
    from shardlake.airflow.connections import ledger_url

    return ledger_url(load_pipeline(config_file(), made.name))


def test_a_ledgers_connection_is_looked_up_in_airflow(pipeline: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LEDGER", "postgres://user:p%40ss@db:5433/ledger")
    assert ledger_url(pipeline(ledger="airflow://ledger")) == "postgresql+psycopg://user:p%40ss@db:5433/ledger"


def test_a_ledgers_connection_that_is_not_there_is_a_config_error(pipeline: Make) -> None:
    with pytest.raises(ConfigError, match="Airflow has no connection nowhere"):
        ledger_url(pipeline(ledger="airflow://nowhere"))


def test_a_ledgers_connection_of_another_type_is_a_config_error(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LEDGER", "mysql://user:hidden@db/ledger")
    with pytest.raises(ConfigError, match="expected type postgres or sqlite, found type mysql") as raised:
        ledger_url(pipeline(ledger="airflow://ledger"))
    assert "hidden" not in str(raised.value)


@pytest.mark.slow
def test_credentials_of_a_connection_reach_the_engine_by_its_environment(
    pipeline: Make, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AWS_HERE", "aws://the-key:the-secret@/?region_name=us-east-1")
    made = pipeline(aws_conn_id="aws_here")
    made.put(10)
    state, _ = made.run()
    assert state == "success"
    (job,) = engine.jobs
    assert job.credentials == {
        "SHARDLAKE_AWS_ACCESS_KEY_ID": "the-key",
        "SHARDLAKE_AWS_SECRET_ACCESS_KEY": "the-secret",
    }


def test_a_killed_ingest_task_cancels_its_engine(pipeline: Make) -> None:
    from shardlake.airflow.operators import IngestOperator

    cancelled: list[bool] = []

    class Engine:
        def run(self, job: Any, log: Any) -> None: ...

        def cancel(self) -> None:
            cancelled.append(True)

    operator = IngestOperator(task_id="ingest", pipeline=pipeline().name, group=0)
    operator.on_kill()
    assert cancelled == []
    operator._engine = Engine()
    operator.on_kill()
    assert cancelled == [True]


def test_the_plugin_registers_the_batch_link_and_its_page() -> None:
    from airflow import plugins_manager

    plugins = {plugin.name: plugin for plugin in plugins_manager._get_plugins()[0]}
    shardlake: Any = plugins["shardlake"]
    assert [type(link).__name__ for link in shardlake.operator_extra_links] == ["BatchLink"]
    assert [app["url_prefix"] for app in shardlake.fastapi_apps] == ["/shardlake"]
