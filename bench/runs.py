"""A command in a process of its own, and what it took."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.source import ENVIRONMENT, Source

REPOSITORY = Path(__file__).parents[1]
LOG_LINES = 15


class BenchError(Exception):
    """Something that is measured did not do its work, or not all of it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What one run took.

    Attributes:
        wall_s: from the start of its process to its end.
        cpu_s: user and system time of the process and all that it started.
        server_cpu_s: that of the local Kinesis meanwhile.
        python_peak_bytes: the most memory of one Python process.
        said: the last line of its output, where that is a JSON object.
    """

    wall_s: float
    cpu_s: float
    server_cpu_s: float
    python_peak_bytes: int
    said: Mapping[str, Any]


def run(
    command: Sequence[str | Path],
    source: Source,
    folder: Path,
    *,
    timeout_s: float = 900,
    environment: Mapping[str, str] | None = None,
) -> Taken:
    """Run a command that reads from a source, and wait for it.

    Args:
        folder: where its log and report go; a new one.

    Raises:
        BenchError: it failed, or took too long; the message has the end of its log.
    """
    folder.mkdir(parents=True)
    report, out, log = folder / "report.json", folder / "out", folder / "log"
    before_s = server_cpu_s(source)
    with out.open("wb") as output, log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.measured", str(report), *map(str, command)],
            cwd=REPOSITORY,
            env={**os.environ, **ENVIRONMENT, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired as exc:
            raise BenchError(f"not done after {timeout_s:.0f} s. {_end_of(log)}") from exc
        finally:
            _end(process)
    if code:
        raise BenchError(f"exit code {code}. {_end_of(log)} {_end_of(out)}")
    facts = json.loads(report.read_text(encoding="utf-8"))
    server_s = server_cpu_s(source) - before_s
    return Taken(facts["wall_s"], facts["cpu_s"], server_s, facts["python_peak_bytes"], _said(out))


def server_cpu_s(source: Source) -> float:
    """The CPU that the source's server has taken so far, seconds."""
    times = psutil.Process(source.server.pid).cpu_times()
    return float(times.user + times.system)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a run, all that it started included; nothing where it ended by itself."""
    if process.poll() is not None:
        return
    family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for each in family:
        try:
            each.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.wait()


def _said(out: Path) -> Mapping[str, Any]:
    lines = out.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or not lines[-1].startswith("{"):
        return {}
    said: dict[str, Any] = json.loads(lines[-1])
    return said


def _end_of(log: Path) -> str:
    return " | ".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
