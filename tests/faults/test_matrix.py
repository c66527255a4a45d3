"""A part of the crash matrix: every boundary of the steps once, on an object store every request that writes, and a few
cells with a real Spark and a real Airflow.

The whole of it is `make faults`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.folder import REPOSITORY
from local_kinesis.process import running
from support.faults.airflow.cells import PART
from support.faults.steps import StepsTier

pytestmark = pytest.mark.slow

OF_THE_PROTOCOL = {
    "plan: COMMIT ranges batches",
    "plan: rename _shardlake/batches/*/plan.json",
    "ingest: ask GetRecords (2)",
    "ingest: write footer",
    "ingest: link data/shard_id=*/*.parquet",
    "ingest: sync data/shard_id=*",
    "ingest: rename _shardlake/batches/*/report-*.json",
    "verify: rename _shardlake/batches/*/verified.json",
    "commit: COMMIT ranges",
    "commit: end",
}
"""Boundaries that a clean run has to have: else it is the recorder that misses some."""


def boundaries_of_part(tier: str, folder: Path) -> list[str]:
    """Run the part of a tier, all cells of which have to come out well; their boundaries."""
    results = folder / "results.jsonl"
    ledger = ["--ledger", "sqlite"] if tier == "steps" else []
    command = [sys.executable, "-m", "support.faults", "--part", "--results", str(results), "--tier", tier, *ledger]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in ("include", "tests"))}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, text=True, capture_output=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-4000:]
    assert ", 0 failed, 0 not run" in done.stdout
    return [json.loads(line)["cell"]["boundary"] for line in results.read_text(encoding="utf-8").splitlines()]


def test_every_boundary_of_the_steps_is_one_to_be_killed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with running() as kinesis:
        recorded = [str(each) for each in StepsTier(tmp_path, kinesis).boundaries()]
    assert set(recorded) >= OF_THE_PROTOCOL
    assert sorted(boundaries_of_part("steps", tmp_path)) == sorted(recorded)  # shards are asked side by side


def test_every_request_that_writes_to_an_object_store_is_one_to_be_killed_at(tmp_path: Path) -> None:
    boundaries = boundaries_of_part("s3", tmp_path)
    kinds = {boundary.rpartition("/")[0] for boundary in boundaries if "data/" in boundary}
    requests = ("PUT", "POST?uploads", "PUT?uploadId", "POST?uploadId")
    assert kinds == {f"ingest: {request} data/shard_id=*" for request in requests}


def test_whoever_of_spark_is_killed_every_record_is_there_once(tmp_path: Path) -> None:
    assert len(boundaries_of_part("spark", tmp_path)) == 3


def test_whatever_airflow_does_then_every_record_is_there_once(tmp_path: Path) -> None:
    assert sorted(boundaries_of_part("airflow", tmp_path)) == sorted(boundary for boundary, _ in PART)
