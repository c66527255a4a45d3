"""What runs in the background of the demo: the local Kinesis, and an Airflow with the repository's DAGs on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import yaml

from demo.airflow_home import Airflow, AirflowHome, start_airflow
from demo.background import Background
from demo.folder import REPOSITORY, DemoFolder
from demo.java import java_home
from demo.setting import Setting

PIPELINE = "flights"
DAG_ID = f"kinesis_ingest__{PIPELINE}"
STREAM = "flights"
REGION = "us-east-1"

SHARDLAKE = Path(sys.executable).with_name("shardlake")
"""The command of this Python's environment."""

_SCHEDULE = "10s"
_READY = "local_kinesis listening on "
_INCLUDE = REPOSITORY / "include"


def start_kinesis(folder: DemoFolder, background: Background) -> str:
    """Starts the local Kinesis on a free port; its endpoint URL."""
    log = folder.root / "kinesis.log"
    kinesis = background.start(
        "local Kinesis",
        [sys.executable, "-m", "local_kinesis", "--port", "0"],
        log=log,
        folder=folder.root,
        environment={**os.environ, "PYTHONPATH": str(_INCLUDE), "PYTHONUNBUFFERED": "1"},
    )
    kinesis.wait_until(lambda: _READY in log.read_text(encoding="utf-8"), within_s=30)
    return log.read_text(encoding="utf-8").split(_READY)[1].split()[0]


def write_config(folder: DemoFolder, endpoint_url: str, setting: Setting) -> None:
    """Writes the configuration of the demo's pipeline, as a user would."""
    pipeline = {"stream": STREAM, "endpoint_url": endpoint_url, **setting.entry}
    defaults = {"region": REGION, "start": "trim_horizon", "schedule": _SCHEDULE}
    text = yaml.safe_dump({"defaults": defaults, "pipelines": {PIPELINE: pipeline}}, sort_keys=False)
    folder.config.write_text(text, encoding="utf-8")


def product_environment(folder: DemoFolder, setting: Setting) -> dict[str, str]:
    """What Airflow's tasks, and the `shardlake` command, find in their environment."""
    return {
        "SHARDLAKE_CONFIG": str(folder.config),
        "PYTHONPATH": str(_INCLUDE),
        "JAVA_HOME": str(java_home()),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        **setting.environment,
    }


def start_product(folder: DemoFolder, background: Background, setting: Setting) -> Airflow:
    """Starts an Airflow that runs the repository's DAGs with the demo's configuration."""
    environment = product_environment(folder, setting)
    home = AirflowHome(folder.airflow, REPOSITORY / "dags", REPOSITORY / "plugins", environment)
    return start_airflow(home, background)
