"""Spark's classes as its JVM has them in memory, in a file that later JVMs start from: Java's class data sharing.

It belongs to one Java and one Spark. Java checks that, and starts as without where it does not fit.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path


def jvm_option(archive: Path, draft: Path) -> str:
    """Start from the archive; where there is none, or one from before Java or Spark was installed, write a draft.

    Java writes it when it ends, which takes some seconds.
    """
    try:
        current = archive.stat().st_ctime > max(path.stat().st_ctime for path in _installed())
    except OSError:
        current = False
    return f"-XX:SharedArchiveFile={archive}" if current else f"-XX:ArchiveClassesAtExit={draft}"


def keep(draft: Path, archive: Path, log: Callable[[str], None]) -> None:
    """Make the archive of a draft, if one was written; whatever hinders that is told in the log, and no more.

    An archive appears whole.
    """
    if not draft.exists():
        return
    beside = archive.with_name(f".{archive.name}-{os.getpid()}")
    try:
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(draft, beside)
        beside.replace(archive)
        log(f"shardlake: the next jobs start from Spark's classes in {archive}")
    except OSError as exc:
        log(f"shardlake: Spark's classes cannot be kept in {archive} ({exc.strerror})")
        with suppress(OSError):
            beside.unlink()


def _installed() -> Iterator[Path]:
    """The Java and the Spark that spark-submit starts."""
    java_home, spark_home = os.environ.get("JAVA_HOME"), os.environ.get("SPARK_HOME")
    if java := shutil.which("java", path=f"{java_home}/bin" if java_home else None):
        yield Path(java).resolve()
    if spark_home:
        yield Path(spark_home, "jars")
    elif (pyspark := find_spec("pyspark")) and pyspark.origin:
        yield Path(pyspark.origin).with_name("jars")
