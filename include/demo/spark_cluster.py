"""A Spark standalone cluster on the loopback interface: one master and workers, as the pyspark wheel brings them.

Its daemons and executors find none of the caller's environment, as on machines of their own: neither AWS credentials
nor a PYTHONPATH, but what they are given. Nothing of it listens beyond this machine; whoever is on this machine can use
it.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.request import ProxyHandler, build_opener

from demo.background import Background
from demo.java import java_home
from demo.ports import LOOPBACK, free_ports
from demo.processes import Process

_HOSTS = (LOOPBACK, "localhost")
"""Where workers say they are, half of them each: Spark starts no second attempt of a task on a host that has one, and
knows hosts by name."""

_READY_WITHIN_S = 120
_ANSWER_WITHIN_S = 5

# Serial collection and the first compiler only, as daemons do little; and no REST server, which has one port for all.
_DAEMON_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dspark.master.rest.enabled=false"


@dataclass
class SparkCluster:
    """A master and its workers, with one core each; `start_cluster` makes one.

    Attributes:
        master_url: what `spark-submit --master` is given.
        workers: those that were started and not killed, and the host that each is on.
    """

    master_url: str
    _status_url: str
    _folder: Path
    _start: Callable[[str, Sequence[str]], Process]
    _kill: Callable[[Process], None]
    _master: Process
    _memory_mib: int
    workers: dict[Process, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def start_worker(self) -> Process:
        """Starts one more worker; see `wait_until_ready`."""
        name, host = f"worker-{next(self._numbers)}", min(_HOSTS, key=list(self.workers.values()).count)
        size = ["--cores", "1", "--memory", f"{self._memory_mib}m", "--work-dir", str(self._folder / name)]
        place = ["--host", host, "--webui-port", "0", self.master_url]
        worker = self._start(name, ["org.apache.spark.deploy.worker.Worker", *size, *place])
        self.workers[worker] = host
        return worker

    def wait_until_ready(self) -> None:
        """Waits until the master knows of every worker that lives, and of no other.

        Raises:
            ProcessError: it did not come to that; the message has the end of a log.
        """
        for process in (self._master, *self.workers):
            process.wait_until(lambda: self._alive_workers() == len(self.workers), within_s=_READY_WITHIN_S)

    def kill(self, worker: Process) -> None:
        """Kills a worker with all that it runs, as when its machine dies."""
        del self.workers[worker]
        self._kill(worker)

    def _alive_workers(self) -> int | None:
        try:
            with build_opener(ProxyHandler({})).open(self._status_url, timeout=_ANSWER_WITHIN_S) as reply:
                status: dict[str, Any] = json.load(reply)
        except (OSError, ValueError):
            return None
        return int(status["aliveworkers"])


def start_cluster(
    folder: Path,
    background: Background,
    *,
    workers: int = 2,
    memory_mib: int = 1024,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> SparkCluster:
    """Starts a cluster and waits until it is ready.

    Args:
        folder: where everything of it lies: logs, the workers' folders, Spark's scratch files.
        background: what its processes belong to.
        workers: how many.
        memory_mib: what each worker has for executors.
        environment: what executors find in their environment, like the AWS credentials that a machine may have.

    Raises:
        NoJavaError: there is no Java for it.
        ProcessError: it did not get ready; the message has the end of a log.
    """
    complete = {**_environment(folder), **environment}
    port, status_port = free_ports(2)

    def start(name: str, arguments: Sequence[str]) -> Process:
        command = [f"{complete['SPARK_HOME']}/bin/spark-class", *arguments]
        log = folder / f"{name}.log"
        return background.start(f"Spark {name}", command, log=log, folder=folder, environment=complete)

    place = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(status_port)]
    master = start("master", ["org.apache.spark.deploy.master.Master", *place])
    urls = f"spark://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{status_port}/json/"
    cluster = SparkCluster(*urls, folder, start, background.kill, master, memory_mib)
    for _ in range(workers):
        cluster.start_worker()
    cluster.wait_until_ready()
    return cluster


def _environment(folder: Path) -> Mapping[str, str]:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the PyPI package pyspark is not installed: make setup")
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),  # no ~/.aws there
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(spec.origin).parent),
        "SPARK_LOCAL_IP": LOOPBACK,  # where the web pages listen
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": _DAEMON_OPTIONS,
    }
