"""Spark through `spark-submit`, in a process group of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from shardlake.config import SparkEngine
from shardlake.engines import IngestJob
from shardlake.engines.class_archive import jvm_option, keep
from shardlake.errors import ConfigError, IngestError

PACKAGE = Path(__file__).parents[1]
JOB = PACKAGE.parents[1] / "jobs" / "ingest.py"
PACKAGE_ZIP, PLAN, CLASSES = "shardlake.zip", "plan.json", "classes.jsa"

MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "33554432",
}
"""Environment of Spark's processes: what one thread of a worker frees serves the others, without the kernel's help."""

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Spark's JVMs only start Python workers and wait for them: so they start a quarter sooner, and with less CPU."""

TERM_S = 10.0
"""How long Spark may take to end on its own before its process group is killed."""


class SparkSubmit:
    """Runs `jobs/ingest.py` on a Spark master; the package goes along as a zip."""

    def __init__(self, config: SparkEngine) -> None:
        self._config = config
        self._process: subprocess.Popen[str] | None = None

    def run(self, job: IngestJob, log: Callable[[str], None]) -> None:
        """Submit and wait, giving Spark's log line by line.

        Raises:
            ConfigError: there is no `spark-submit`.
            IngestError: Spark ended with another exit code than 0.
        """
        with tempfile.TemporaryDirectory(prefix="shardlake-") as scratch:
            given = Path(scratch)
            zip_package(given / PACKAGE_ZIP)
            (given / PLAN).write_text(job.plan_text, encoding="utf-8")
            environment = {"PYSPARK_PYTHON": sys.executable, **MEMORY, **os.environ, **job.credentials}
            process = self._process = subprocess.Popen(
                self.arguments(job, given),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            try:
                for line in process.stdout or ():
                    log(line.rstrip("\n"))
                code = process.wait()
            finally:
                self.cancel()
            if code != 0:
                raise IngestError(f"spark-submit ended with exit code {code}", todo="Its log is above")
            if self._config.class_archive:
                keep(given / CLASSES, Path(self._config.class_archive), log)

    def arguments(self, job: IngestJob, given: Path) -> list[str]:
        """The whole command line; no shell sees it, and it holds no secret.

        Args:
            given: the folder of what the job is given.

        Raises:
            ConfigError: there is no `spark-submit`.
        """
        submit = shutil.which("spark-submit", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        if submit is None:
            raise ConfigError("there is no spark-submit", todo="Install pyspark beside shardlake, or put Spark on PATH")
        conf = {
            "spark.driver.extraJavaOptions": JVM,
            "spark.executor.extraJavaOptions": JVM,
            "spark.ui.showConsoleProgress": "false",
            "spark.ui.enabled": "false",
            **{f"spark.executorEnv.{name}": value for name, value in MEMORY.items()},
            **self._config.conf,
        }
        if self._config.class_archive:
            conf["spark.driver.extraJavaOptions"] += " " + jvm_option(Path(self._config.class_archive), given / CLASSES)
        on_this_machine = ("local", "spark://127.0.0.1:", "spark://localhost:")
        if self._config.master.startswith(on_this_machine):  # nothing of it listens beyond it
            conf = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **conf}
        settings = [part for key, value in sorted(conf.items()) for part in ("--conf", f"{key}={value}")]
        return [
            *(submit, "--master", self._config.master, "--name", job.name, "--py-files", str(given / PACKAGE_ZIP)),
            *(*settings, str(JOB), "--plan", str(given / PLAN), "--digest", job.digest),
            *("--ranges", ",".join(map(str, job.ranges)), "--report", job.report_key),
        ]

    def cancel(self) -> None:
        """End the whole process group: first asked to, then killed."""
        process = self._process
        if process is None:
            return
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, sign)
                process.wait(TERM_S)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


def zip_package(target: Path) -> None:
    """The package as a zip for `--py-files`."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(PACKAGE.rglob("*.py")):
            archive.write(source, source.relative_to(PACKAGE.parent))
