"""One local Kinesis and one Spark for all of these tests; a dataset and a pinned plan for each."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from pyspark.sql import SparkSession

from demo.java import java_home
from local_kinesis.process import running
from local_kinesis.produce import put_all
from shardlake.batch import Steps
from shardlake.config import Pipeline
from shardlake.engines.spark_submit import MEMORY
from shardlake.ledger.memory import MemoryLedger

INCLUDE = Path(__file__).parents[2] / "include"


@pytest.fixture(scope="session")
def kinesis() -> Iterator[Any]:
    with running() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(java_home()))
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(INCLUDE))
        for name, value in MEMORY.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def spark(environment: None) -> Iterator[SparkSession]:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it says goodbye when pytest's streams are closed
    yield session
    session.stop()


@pytest.fixture
def steps(kinesis: Any, tmp_path: Path) -> Callable[..., Steps]:
    """Steps of a new pipeline on a new stream that holds `items`."""

    def make(
        items: list[tuple[str, bytes]], shards: int = 2, session: boto3.Session | None = None, **settings: Any
    ) -> Steps:
        client, stream = kinesis.client(), f"s{uuid4().hex}"
        client.create_stream(StreamName=stream, ShardCount=shards)
        put_all(client, stream, items)
        place = {"stream": stream, "region": "us-east-1", "endpoint_url": kinesis.endpoint_url}
        unless_told = {"dataset": str(tmp_path / "lake"), "ledger": "sqlite:///unused.db"}
        pipeline = Pipeline(**{"name": "flights", **place, **unless_told, **settings})
        return Steps(pipeline, MemoryLedger(), session)

    return make
