"""A whole Airflow (SQLite, LocalExecutor) in a folder of its own, on the loopback interface only.

It runs what `airflow standalone` runs, each part with a log of its own and watched, less the triggerer (nothing here
defers) and the servers of task logs: those listen on every interface, and beside a LocalExecutor the API server reads
the files itself. Fourteen seconds to healthy on two cores instead of eighteen. Its one port is a free one, so that
several can run side by side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from demo.airflow_api import AirflowApi
from demo.background import Background
from demo.ports import LOOPBACK, free_ports
from demo.processes import Process, ProcessError

DATABASE = "airflow.db"
"""The name of Airflow's database in its home."""

_USER = "admin"
_PASSWORDS = "simple_auth_manager_passwords.json.generated"
_HEALTHY_WITHIN_S = 180
# What the caller's shell says about these would reach into the new Airflow, or send it to a real AWS account.
_LEFT_OUT = ("AIRFLOW", "AWS_", "PYSPARK_", "PYTHON", "SHARDLAKE_", "SPARK_")


@dataclass(frozen=True)
class AirflowHome:
    """What an Airflow is to run, and where.

    Attributes:
        home: AIRFLOW_HOME: its database, logs and generated password.
        dags: the folder of DAG files.
        plugins: the folder of plugins.
        environment: what its tasks find in their environment, beside what this process has.
        settings: more of Airflow's settings, by name, like `AIRFLOW__CORE__PARALLELISM`.
    """

    home: Path
    dags: Path
    plugins: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def environment_on(self, port: int) -> dict[str, str]:
        """The environment of all its parts, and of any `airflow` command about it, with the API on this port."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
        return {
            **inherited,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)]),
            "NO_PROXY": f"{LOOPBACK},localhost",
            "no_proxy": f"{LOOPBACK},localhost",
            "PYTHONUNBUFFERED": "1",
            **self.environment,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.plugins),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",  # a full name may need a DNS that is not there
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / DATABASE}",
            "AIRFLOW__API__HOST": LOOPBACK,
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": f"http://{LOOPBACK}:{port}",  # the workers' way to the execution API follows it
            "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            # A run of four small tasks takes 4 s with the defaults of these two, and less than 1 s so.
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            # After a run that was triggered, only a parse works out anew when the next scheduled one is due.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
            **self.settings,
        }


@dataclass(frozen=True)
class Airflow:
    """An Airflow that runs.

    Attributes:
        home: what it runs.
        url: the address of its UI and API.
        user: the name to log in with.
        password: the password to log in with.
        api: its API, for this user.
        environment: what its parts find in their environment: an `airflow` command with it is about this Airflow.
    """

    home: AirflowHome
    url: str
    user: str
    password: str
    api: AirflowApi
    environment: Mapping[str, str]

    @property
    def login(self) -> str:
        """How to log in, for people."""
        return f"user {self.user}, password {self.password}"


def start_airflow(home: AirflowHome, background: Background) -> Airflow:
    """Starts an Airflow and waits until it is healthy.

    Args:
        home: what to run; its database is made where there is none.
        background: what its processes belong to.

    Raises:
        ProcessError: it did not get healthy; the message has the end of a log.
    """
    (port,) = free_ports(1)
    environment = home.environment_on(port)

    def part(name: str, *arguments: str) -> Process:
        command = [sys.executable, "-m", "airflow", *arguments]
        log = home.home / "logs" / f"{name}.log"
        return background.start(f"airflow {name}", command, log=log, folder=home.home, environment=environment)

    _make_database(home, environment)
    api_server = part("api-server", "api-server")
    scheduler = part("scheduler", "scheduler", "--skip-serve-logs")
    dag_processor = part("dag-processor", "dag-processor")

    api = AirflowApi(f"http://{LOOPBACK}:{port}")
    api_server.wait_until(api.healthy, within_s=_HEALTHY_WITHIN_S)
    scheduler.wait_until(lambda: api.healthy("scheduler"), within_s=_HEALTHY_WITHIN_S)
    dag_processor.wait_until(lambda: api.healthy("dag_processor"), within_s=_HEALTHY_WITHIN_S)
    password = json.loads((home.home / _PASSWORDS).read_text(encoding="utf-8"))[_USER]
    return Airflow(home, api.url, _USER, password, api.log_in(_USER, password), environment)


def _make_database(home: AirflowHome, environment: Mapping[str, str]) -> None:
    # Before the parts start: it also writes the secrets that they share, into airflow.cfg.
    home.home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    made = subprocess.run(command, cwd=home.home, env=environment, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise ProcessError(f"airflow db migrate failed:\n{made.stdout[-2000:]}{made.stderr[-2000:]}")
