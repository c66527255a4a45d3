"""The processes of a soak: workers that can be killed and begun again, and what they take of the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, cast

import psutil

import shardlake

END_S = 60
FEW_FILES = 2
"""A worker has three or four files open, by the moment at which one looks: so few more are no growth."""


class Worker:
    """A worker, started.

    Attributes:
        batches: how many had something to read.
        failures: how many runs failed and were followed by another.
        runs: how many ended well.
        idle: how many plans in a row found nothing at all.
    """

    def __init__(self, config: Path, log: Path) -> None:
        self.batches = self.failures = self.runs = self.idle = 0
        self._log = log
        paths = (Path(shardlake.__file__).parents[1], Path(__file__).parents[1])
        credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        with log.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "soak.worker", str(config)],
                env={**os.environ, **credentials, "PYTHONPATH": os.pathsep.join(map(str, paths))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in cast(IO[str], self.process.stdout):
            told = json.loads(line)
            self.batches += told.get("rows") is not None
            self.failures += "error" in told
            self.runs += "error" not in told
            self.idle = self.idle + 1 if told == {"rows": None, "behind": False} else 0

    def check_alive(self) -> None:
        """Check that it has not ended by itself."""
        assert self.process.poll() is None, f"a worker has ended with {self.process.returncode}: {self._said()}"

    def kill(self) -> None:
        """End it where it stands; nothing where it has ended."""
        if self.process.returncode is None:
            self.process.kill()
            self._gone()

    def end(self) -> None:
        """Let it finish its batch."""
        self.check_alive()
        cast(IO[str], self.process.stdin).close()
        code = self.process.wait(END_S)
        self._gone()
        assert code == 0, f"a worker has ended with {code}: {self._said()}"

    def _gone(self) -> None:
        self.process.wait(END_S)
        self._listener.join(END_S)
        for pipe in (self.process.stdin, self.process.stdout):
            cast(IO[str], pipe).close()

    def _said(self) -> str:
        return self._log.read_text()[-2000:]


@dataclass
class Usage:
    """What a process takes of the machine, from time to time."""

    name: str
    pid: int
    rss_bytes: list[int] = field(default_factory=list)
    open_files: list[int] = field(default_factory=list)

    def look(self) -> None:
        """One more look."""
        process = psutil.Process(self.pid)
        self.rss_bytes.append(process.memory_info().rss)
        self.open_files.append(process.num_fds())

    def check_flat(self, most: float) -> None:
        """Check that neither has grown by more than a factor, from the second quarter of the time to the last one."""
        second, last = _quarters(self.rss_bytes)
        assert last <= most * second, f"{self}: more than by {most}"
        second, last = _quarters(self.open_files)
        assert last <= max(most * second, second + FEW_FILES), f"{self}: more than by {most}"

    def __str__(self) -> str:
        (second, last), files = _quarters(self.rss_bytes), _quarters(self.open_files)
        return (
            f"{self.name} {second / 2**20:.1f} → {last / 2**20:.1f} MiB ({last / second:.3f} times),"
            f" {files[0]:g} → {files[1]:g} open files"
        )


def _quarters(seen: Sequence[int]) -> tuple[float, float]:
    """The medians of the second and of the last quarter."""
    quarter = len(seen) // 4
    return median(seen[quarter : 2 * quarter]), median(seen[-quarter:])
