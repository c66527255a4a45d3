"""A part of the crash matrix: every boundary of the steps once, and a few cells with a real Spark and a real Airflow.

The whole of it is `make faults`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.folder import REPOSITORY

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("tier", "least"),
    [(["steps", "--ledger", "sqlite"], 100), (["spark"], 3), (["airflow"], 3)],
    ids=["steps", "spark", "airflow"],
)
def test_whatever_is_killed_wherever_every_record_is_there_once(tier: list[str], least: int, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "support.faults", "--part", "--results", str(results), "--tier", *tier]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in ("include", "tests"))}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, text=True, capture_output=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-4000:]
    assert ", 0 failed, 0 not run" in done.stdout
    assert len(results.read_text(encoding="utf-8").splitlines()) >= least
