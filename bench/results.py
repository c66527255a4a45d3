"""The results of a run as files: figures as JSON, one file for each set of sizes, and pictures of them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import shardlake
from bench.figures import Figure
from bench.sizes import Sizes

RESULTS = Path(__file__).parent / "results"


def draw(results: Path, python: Path) -> None:
    """Draw the pictures of a results file, by the peers' Python.

    Raises:
        CalledProcessError: it failed.
    """
    subprocess.run([python, Path(__file__).with_name("plots.py"), results], check=True)


def write_results(sizes: Sizes, figures: Iterable[Figure], folder: Path = RESULTS) -> Path:
    """Write `<sizes>.json`, in place of an earlier run's; its path."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{sizes.name}.json"
    told = {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "shardlake": shardlake.__version__,
        "python": platform.python_version(),
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "system": platform.system()},
        "load_before": os.getloadavg()[0],
        "sizes": asdict(sizes),
        "figures": [figure.to_json() for figure in figures],
    }
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
