"""Shardlake as its users run it: a configuration and `shardlake run`, with Spark on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.runs import REPOSITORY, BenchError, Taken, run
from bench.source import REGION, Source
from demo.java import java_home

NAME = "bench"


def configure(source: Source, folder: Path, **settings: Any) -> Path:
    """The configuration of a new pipeline with everything below a folder: the file's path.

    All pipelines beside each other have one archive of Spark's classes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entry = {
        "stream": source.stream,
        "region": REGION,
        "endpoint_url": source.server.endpoint_url,
        "dataset": str(folder / "lake"),
        "ledger": f"sqlite:///{folder / 'ledger.db'}",
        "engine": {"kind": "spark", "master": "local[2]", "class_archive": str(folder.parent / "spark.jsa")},
        **settings,
    }
    config = folder / "pipelines.yaml"
    config.write_text(json.dumps({"pipelines": {NAME: entry}}), encoding="utf-8")  # JSON is YAML
    return config


def spark_environment() -> Mapping[str, str]:
    """What `shardlake run` needs beside the common things."""
    return {"JAVA_HOME": str(java_home()), "PYTHONPATH": str(REPOSITORY / "include")}


def ingest(source: Source, folder: Path, *, rows: int | None = None, **settings: Any) -> Taken:
    """One batch of a new pipeline: plan, Spark job, verify, commit.

    Args:
        rows: how many user records there are, where that is not the number of records.

    Raises:
        BenchError: it failed, or did not commit every record.
    """
    config = configure(source, folder, **settings)
    command: list[str | Path] = [sys.executable, "-m", "shardlake", "--config", config, "run", NAME, "--json"]
    taken = run(command, source, folder / "run", environment=spark_environment())
    batches = json.loads((folder / "run" / "out").read_text(encoding="utf-8"))
    committed = [batch["rows"] for batch in batches]
    if committed != [source.records if rows is None else rows]:
        raise BenchError(f"one batch should have committed {rows or source.records} rows, found {committed}")
    return taken
