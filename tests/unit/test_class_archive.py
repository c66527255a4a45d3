"""When Spark's JVM starts from an archive of its classes, and what becomes of one that it wrote."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from shardlake.engines.class_archive import jvm_option, keep


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that spark-submit would start, beside a Spark."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    return java


def a_moment_later() -> None:
    """Until files that are touched now are later than those before."""
    time.sleep(0.02)


def test_it_is_written_where_there_is_none_and_started_from_afterwards(java: Path, tmp_path: Path) -> None:
    archive, draft = tmp_path / "kept" / "spark.jsa", tmp_path / "draft"
    assert jvm_option(archive, draft) == f"-XX:ArchiveClassesAtExit={draft}"
    a_moment_later()
    draft.write_bytes(b"classes")
    lines: list[str] = []
    keep(draft, archive, lines.append)
    assert jvm_option(archive, draft) == f"-XX:SharedArchiveFile={archive}"
    assert [path.name for path in archive.parent.iterdir()] == ["spark.jsa"]
    assert archive.read_bytes() == b"classes"
    assert archive.parent.stat().st_mode & 0o777 == 0o700
    assert lines == [f"shardlake: the next jobs start from Spark's classes in {archive}"]


@pytest.mark.parametrize("installed", ["java/bin/java", "spark/jars/spark.jar"])
def test_one_from_before_java_or_spark_was_installed_is_written_anew(
    java: Path, tmp_path: Path, installed: str
) -> None:
    archive = tmp_path / "spark.jsa"
    a_moment_later()
    archive.touch()
    assert jvm_option(archive, tmp_path / "draft").startswith("-XX:SharedArchiveFile=")
    a_moment_later()
    (tmp_path / installed).unlink(missing_ok=True)
    (tmp_path / installed).touch(mode=0o755)
    os.utime(tmp_path / installed, (0, 0))  # packages bring old times along
    assert jvm_option(archive, tmp_path / "draft").startswith("-XX:ArchiveClassesAtExit=")


def test_a_java_that_wrote_none_leaves_things_as_they_are(tmp_path: Path) -> None:
    keep(tmp_path / "draft", tmp_path / "kept" / "spark.jsa", pytest.fail)
    assert list(tmp_path.iterdir()) == []


def test_what_hinders_it_is_told_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "draft").touch()
    lines: list[str] = []
    keep(tmp_path / "draft", tmp_path / "file" / "spark.jsa", lines.append)
    assert lines == [f"shardlake: Spark's classes cannot be kept in {tmp_path}/file/spark.jsa (File exists)"]
