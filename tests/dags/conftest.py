"""One Airflow database and one local Kinesis for all of these tests; a pipeline and its DAG for each."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from local_kinesis.process import LocalKinesis, running
from local_kinesis.produce import put_all
from support.inline_engine import InlineEngine

ROOT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="shardlake-airflow-"))

# Airflow reads these when it is imported, so they are set before any test module imports it.
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}


@pytest.fixture(autouse=True)
def no_context_is_left_behind() -> Iterator[None]:
    """Airflow tells a task of its run in the environment, and leaves it there."""
    yield
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CTX_")]:
        del os.environ[name]


@pytest.fixture(scope="session", autouse=True)
def airflow_database() -> Iterator[None]:
    from airflow.utils.db import initdb

    initdb()
    yield
    shutil.rmtree(HOME)


@pytest.fixture(scope="session")
def kinesis() -> Iterator[LocalKinesis]:
    with running() as server:
        yield server


class Engine:
    """The inline engine, counting its jobs; `failures` are raised first, one a job."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []
        self.failures: list[Exception] = []

    def run(self, job: Any, log: Callable[[str], None]) -> None:
        self.jobs.append(job)
        if self.failures:
            raise self.failures.pop()
        InlineEngine().run(job, log)

    def cancel(self) -> None:
        """Nothing runs beside this process."""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """What the DAG's ingest task submits to, in place of Spark."""
    engine = Engine()
    monkeypatch.setattr("shardlake.engines.spark_submit.SparkSubmit", lambda config: engine)
    return engine


class Pipeline:
    """A pipeline of its own in a configuration file of its own, with its stream and its DAG."""

    def __init__(self, kinesis: LocalKinesis, root: Path, shards: int, settings: dict[str, Any]) -> None:
        self.name = f"p{uuid4().hex[:12]}"
        self.kinesis, self.client, self.dataset = kinesis, kinesis.client(), root / "lake"
        self.client.create_stream(StreamName=self.name, ShardCount=shards)
        entry = {
            "stream": self.name,
            "region": "us-east-1",
            "endpoint_url": kinesis.endpoint_url,
            "dataset": str(self.dataset),
            "ledger": f"sqlite:///{root / 'ledger.db'}",
            **settings,
        }
        import yaml

        self.config = root / "pipelines.yaml"
        self.config.write_text(yaml.safe_dump({"pipelines": {self.name: entry}}))

    def put(self, count: int) -> None:
        """Put records with `count` different keys."""
        put_all(self.client, self.name, [(f"key-{n}", b'{"n": %d}' % n) for n in range(count)])

    def dag(self, retries: int = 0) -> Any:
        """The pipeline's DAG, freshly parsed, with retries that do not wait."""
        import importlib.util
        from datetime import timedelta

        spec = importlib.util.spec_from_file_location("kinesis_ingest", ROOT / "dags" / "kinesis_ingest.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        dag = getattr(module, f"kinesis_ingest__{self.name}")
        for task in dag.tasks:
            settings = task.partial_kwargs if hasattr(task, "partial_kwargs") else task.__dict__
            settings |= {"retries": retries, "retry_delay": timedelta(0), "retry_exponential_backoff": 0}
        return dag

    def run(self, retries: int = 0) -> tuple[str, dict[str, list[str]]]:
        """Run the DAG once: the run's state, and the states of each task's instances."""
        run = self.dag(retries).test()
        states: dict[str, list[str]] = {}
        for instance in sorted(run.get_task_instances(), key=lambda each: each.map_index):
            states.setdefault(instance.task_id, []).append(str(instance.state))
        return str(run.state), states


@pytest.fixture
def pipeline(kinesis: LocalKinesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pipeline]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")

    def make(shards: int = 2, **settings: Any) -> Pipeline:
        made = Pipeline(kinesis, tmp_path, shards, settings)
        monkeypatch.setenv("SHARDLAKE_CONFIG", str(made.config))
        return made

    return make


def query_airflow(query: str, *values: str) -> list[tuple[Any, ...]]:
    """What Airflow's own database says."""
    connection = sqlite3.connect(HOME / "airflow.db")
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.close()


@pytest.fixture
def airflow_rows() -> Callable[..., list[tuple[Any, ...]]]:
    return query_airflow
