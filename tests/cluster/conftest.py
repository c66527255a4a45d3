"""One Spark cluster and one local Kinesis for the folder; for each test a stream, a ledger and a dataset of its own.

The workers have neither this process' environment nor this project: executors run a Python that has the installed
libraries only.
"""

from __future__ import annotations

import sysconfig
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest

from demo.background import Background
from demo.java import java_home
from demo.spark_cluster import SparkCluster, start_cluster
from local_kinesis.process import LocalKinesis, running
from shardlake.config import Pipeline
from shardlake.engines.spark_submit import SparkSubmit
from shardlake.plan import BatchPlan
from support.spark_lake import SparkLake

WORKERS = 2


@pytest.fixture(scope="session")
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="session")
def started_cluster(cluster_folder: Path) -> Iterator[SparkCluster]:
    with Background(cluster_folder / "processes.json") as background:
        yield start_cluster(cluster_folder, background, workers=WORKERS)


@pytest.fixture
def cluster(started_cluster: SparkCluster) -> SparkCluster:
    """The cluster with all its workers, whatever the test before did to them."""
    for _ in range(WORKERS - len(started_cluster.workers)):
        started_cluster.start_worker()
    started_cluster.wait_until_ready()
    return started_cluster


@pytest.fixture(scope="session")
def kinesis() -> Iterator[LocalKinesis]:
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def worker_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the installed libraries, but without this project: what a worker elsewhere has."""
    home = tmp_path_factory.mktemp("worker-python")
    venv.create(home, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return home / "bin" / "python"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The submitting side: a Java, and no AWS credentials but those that Steps are given."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("JAVA_HOME", str(java_home()))


@pytest.fixture
def lake(
    kinesis: LocalKinesis, cluster: SparkCluster, worker_python: Path, tmp_path: Path
) -> Iterator[Callable[..., SparkLake]]:
    """Makes a pipeline on a new stream, with settings of Spark beside those that every user of the cluster needs."""

    def make(shards: int = 2, **conf: str) -> SparkLake:
        pipeline = Pipeline(
            name="flights",
            stream=f"s{uuid4().hex}",
            region="us-east-1",
            endpoint_url=kinesis.endpoint_url,
            dataset=str(tmp_path / "lake"),
            ledger="sqlite:///unused.db",
            engine={
                "master": cluster.master_url,
                "conf": {
                    "spark.driver.memory": "512m",
                    "spark.executor.memory": "512m",
                    "spark.pyspark.python": str(worker_python),
                    **{f"spark.{name}": value for name, value in conf.items()},
                },
            },
        )
        client: Any = kinesis.client()
        client.create_stream(StreamName=pipeline.stream, ShardCount=shards)
        session = boto3.Session(aws_access_key_id="key", aws_secret_access_key=f"secret-{uuid4().hex}")
        return SparkLake(kinesis, cluster, pipeline, session)

    yield make
    kinesis.control({"page_limit": None, "empty_pages": 0, "reset_stats": True})


@pytest.fixture
def ingest(lake: Callable[..., SparkLake]) -> Iterator[Callable[[SparkLake, BatchPlan], Future[None]]]:
    """Starts the ingest step of a batch on the cluster; a job that still runs when the test is over is ended."""
    engines: list[SparkSubmit] = []
    with ThreadPoolExecutor() as pool:

        def ingest(lake: SparkLake, plan: BatchPlan) -> Future[None]:
            engine = SparkSubmit(lake.pipeline.engine)
            engines.append(engine)
            return pool.submit(lake.steps.ingest, plan.batch_id, 0, engine, lake.listen)

        yield ingest
        for engine in engines:
            engine.cancel()
