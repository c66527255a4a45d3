"""One Airflow and one local Kinesis for a file of tests, with the repository's DAGs on a configuration of its own."""

from __future__ import annotations

import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pyarrow.parquet as pq
import pytest
import yaml

from demo.airflow_home import Airflow, AirflowHome, start_airflow
from demo.background import Background
from demo.folder import REPOSITORY
from demo.java import java_home
from local_kinesis.process import LocalKinesis, running
from local_kinesis.produce import Acknowledged, put_all
from shardlake.ledger import LedgerRange, open_ledger
from shardlake.names import LIVE

REGION = "us-east-1"
_OPENER = build_opener(ProxyHandler({}))  # a proxy of the environment has no business with the loopback interface


@dataclass
class Deployment:
    """A configuration file on one stream a pipeline, the producer's log of each, and the Airflow that runs them."""

    root: Path
    kinesis: LocalKinesis
    background: Background
    acknowledged: dict[str, list[Acknowledged]] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.root / "pipelines.yaml"

    def add(self, pipeline: str, shards: int = 2, **settings: Any) -> None:
        """Make a pipeline's stream, and append its entry to the configuration file."""
        self.kinesis.client().create_stream(StreamName=pipeline, ShardCount=shards)
        entry = {
            "stream": pipeline,
            "region": REGION,
            "endpoint_url": self.kinesis.endpoint_url,
            "dataset": str(self.dataset(pipeline)),
            "ledger": f"sqlite:///{self.root / pipeline}.db",
            **settings,
        }
        pipelines = yaml.safe_load(self.config.read_text())["pipelines"] if self.config.exists() else {}
        draft = self.config.with_suffix(".draft")
        draft.write_text(yaml.safe_dump({"pipelines": {**pipelines, pipeline: entry}}, sort_keys=False))
        draft.replace(self.config)  # Airflow may be reading it
        self.acknowledged[pipeline] = []

    def put(self, pipeline: str, count: int) -> None:
        """Put records on a pipeline's stream, and log what was acknowledged."""
        begin = len(self.acknowledged[pipeline])
        items = ((f"key-{n % 31}", b"record %d" % n) for n in range(begin, begin + count))
        self.acknowledged[pipeline] += put_all(self.kinesis.client(), pipeline, items)

    def start_airflow(self, **settings: str) -> Airflow:
        """Start an Airflow with the repository's DAGs and plugin; `settings` as for `AirflowHome`."""
        environment = {
            "SHARDLAKE_CONFIG": str(self.config),
            "PYTHONPATH": str(REPOSITORY / "include"),
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        home = AirflowHome(self.root / "airflow", REPOSITORY / "dags", REPOSITORY / "plugins", environment, settings)
        return start_airflow(home, self.background)

    def dataset(self, pipeline: str) -> Path:
        """The folder of a pipeline's dataset."""
        return self.root / "lake" / pipeline

    def batches(self, pipeline: str) -> list[str]:
        """The batches that have control files, by name."""
        return sorted(each.name for each in (self.dataset(pipeline) / "_shardlake" / "batches").glob("*"))

    def checksums(self, pipeline: str) -> dict[str, str]:
        """The SHA-256 of every published file, by path."""
        files = sorted((self.dataset(pipeline) / "data").rglob("*.parquet"))
        return {str(file.relative_to(self.root)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def ledger_rows(self, pipeline: str) -> list[LedgerRange]:
        """Every range that the ledger has."""
        return list(open_ledger(f"sqlite:///{self.root / pipeline}.db").ranges(pipeline, LIVE))

    def assert_every_record_is_there_once(self, pipeline: str) -> None:
        """Compare a dataset with the producer's log."""
        columns = ["shard_id", "sequence_number", "partition_key", "data"]
        rows = pq.read_table(self.dataset(pipeline) / "data", columns=columns).to_pylist()
        found = Counter(
            (row["shard_id"], row["sequence_number"], row["partition_key"], hashlib.sha256(row["data"]).hexdigest())
            for row in rows
        )
        assert found == Counter(
            (each.shard_id, each.sequence_number, each.partition_key, each.data_sha256)
            for each in self.acknowledged[pipeline]
        )


def wait_for(condition: Callable[[], object], within_s: float) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, f"not within {within_s} s"
        time.sleep(0.3)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    root = tmp_path_factory.mktemp("deployment")
    with running() as kinesis, Background(root / "processes.json") as background:
        yield Deployment(root, kinesis, background)


_PRINTED = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def print_at_end(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Print a text when all tests are done, also when their output is captured."""
    return pytestconfig.stash.setdefault(_PRINTED, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what `print_at_end` was given."""
    for text in config.stash.get(_PRINTED, []):
        terminalreporter.write_line("")
        terminalreporter.write(text)


@pytest.fixture(scope="session")
def wait() -> Callable[[Callable[[], object], float], None]:
    return wait_for


@pytest.fixture(scope="session")
def get() -> Callable[..., tuple[int, str]]:
    """GET a URL with a bearer token, if one is given: the status and the body."""

    def get(url: str, token: str = "") -> tuple[int, str]:
        request = Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310 -- always http
        try:
            with _OPENER.open(request, timeout=30) as response:
                return response.status, response.read().decode()
        except HTTPError as exc:
            return exc.code, exc.read().decode()

    return get
