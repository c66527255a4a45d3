"""The Spark job on a dataset on S3: explicit credentials reach its tasks, and readers see what it published."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import polars
import psutil
import pyarrow.parquet as pq
import pytest

from demo.object_store import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY
from shardlake.batch import Steps
from shardlake.config import SparkEngine
from shardlake.engines.spark_submit import SparkSubmit
from shardlake.errors import ConfigError, IngestError
from shardlake.plan import Run
from support.lakes import Bucket, BucketLake

pytestmark = pytest.mark.slow

ITEMS = [(f"plane-{n % 50}", b'{"n": %d}' % n) for n in range(3000)]


@pytest.fixture
def lake(object_store: Bucket) -> BucketLake:
    return object_store.lake(f"a b/{uuid.uuid4()}")


@pytest.fixture
def made(steps: Callable[..., Steps], lake: BucketLake, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Steps with credentials of their own; those of the default chain may not do anything."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    session = boto3.Session(ACCESS_KEY_ID, SECRET_ACCESS_KEY)
    return steps(ITEMS, session=session, dataset=lake.dataset, storage=lake.storage)


def test_a_batch_goes_through_spark_submit_to_its_commit_and_readers_see_its_rows(
    made: Steps, lake: BucketLake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    plan, committed = made.run(Run("dag", "run"), SparkSubmit(SparkEngine()), print)
    assert committed is not None
    assert (committed.rows, len(committed.ranges)) == (3000, 2)
    report = json.loads(lake.read(f"_shardlake/batches/{plan.batch_id}/report-0000.json"))
    assert [row["error"] for row in report] == [None, None]
    assert len(lake.keys("data/")) == 2
    assert lake.uploads() == []
    assert list((tmp_path / "temporary").glob("shardlake-*.parquet")) == []

    path, files = lake.place("data")
    expected = {(key, data) for key, data in ITEMS}
    with_pyarrow = pq.read_table(path, filesystem=files)
    assert set(with_pyarrow.column_names) == {*with_polars(lake).columns}
    for rows in (with_pyarrow.to_pylist(), with_polars(lake).to_dicts()):
        assert len(rows) == 3000
        assert {(row["partition_key"], row["data"]) for row in rows} == expected
        assert {row["shard_id"] for row in rows} == {f"shardId-{n:012}" for n in range(2)}


def with_polars(lake: BucketLake) -> polars.DataFrame:
    options = {
        "aws_access_key_id": ACCESS_KEY_ID,
        "aws_secret_access_key": SECRET_ACCESS_KEY,
        "aws_endpoint_url": lake.bucket.endpoint_url,
        "aws_region": REGION,
    }
    return polars.read_parquet(f"{lake.dataset}/data/", storage_options=options, hive_partitioning=True)


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_the_secret_is_in_the_drivers_environment_alone(
    made: Steps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = f"hunter2-{uuid.uuid4()}"
    for name in ("TMPDIR", "SPARK_LOCAL_DIRS"):
        monkeypatch.setenv(name, str(tmp_path))
    plan = made.plan(Run("dag", "run"))
    made._session = boto3.Session("AKIAWRONG", secret)
    lines, words, leaks = list[str](), set[str](), list[Path]()

    def log(line: str) -> None:
        lines.append(line)
        if len(lines) % 40 == 1:
            family = psutil.Process().children(recursive=True)
            words.update(word for child in family for word in command_of(child))
            leaks.extend(path for path in tmp_path.rglob("*") if secret.encode() in content_of(path))

    with pytest.raises((ConfigError, IngestError)):
        made.ingest(plan.batch_id, 0, SparkSubmit(SparkEngine()), log)
    assert any("InvalidAccessKeyId" in line for line in lines)  # the tasks had these credentials, not other ones
    assert any("SparkSubmit" in word for word in words)
    assert any(tmp_path.rglob("blockmgr-*")) or any("blockmgr" in line for line in lines)  # Spark's files lie there
    assert [word for word in [*words, *lines] if secret in word] == []
    assert leaks == []


def content_of(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def test_nothing_of_the_default_chain_is_used_instead(steps: Callable[..., Steps], lake: BucketLake) -> None:
    session: Any = boto3.Session("AKIAWRONG", "wrong")
    made = steps(ITEMS[:10], session=session, dataset=lake.dataset, storage=lake.storage)
    with pytest.raises(ConfigError, match="no access: .*InvalidAccessKeyId"):
        made.plan(Run("dag", "run"))
