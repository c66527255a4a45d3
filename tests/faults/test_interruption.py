"""A matrix that is ended in the middle ends what it started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_matrix_that_is_told_to_end_leaves_no_process_behind(tmp_path: Path) -> None:
    """Kills: servers in a session of their own, which nobody ends where the signal ends the program at once."""
    results = str(tmp_path / "results.jsonl")
    command = [sys.executable, "-um", "support.faults", "--tier", "steps", "--ledger", "sqlite", "--jobs", "1"]
    command += ["--results", results]
    matrix = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'include'}:{ROOT / 'tests'}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert matrix.stdout is not None
    first = matrix.stdout.readline()
    started = psutil.Process(matrix.pid).children(recursive=True)
    matrix.terminate()
    gone, alive = psutil.wait_procs(started, timeout=30)
    for each in alive:
        each.kill()
    matrix.communicate(timeout=30)
    assert first.startswith("1/")
    assert len(started) > 1  # a local Kinesis, and who runs the cells
    assert (matrix.returncode, alive, len(gone)) == (143, [], len(started))
