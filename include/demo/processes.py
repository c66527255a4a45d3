"""Starting a process with its log in a file, and ending it together with everything that it started.

A child gets a session of its own and a mark in its environment, and whatever descends from it keeps one of the two: a
program that makes a session of its own (spark-submit under an operator) keeps the environment; one that writes over
its environment to rename itself (Airflow's workers) keeps the session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_MARK = "SHARDLAKE_DEMO_PROCESS"
_POLL_S = 0.1
_KILL_PATIENCE_S = 10
_CLOCK_TOLERANCE_S = 2
"""What the system says about a start time may change by this much when its clock is set."""


class ProcessError(Exception):
    """A process ended by itself, did not get ready in time, or could not be ended."""


@dataclass(frozen=True, slots=True)
class Process:
    """A started process, in words that another program can use to find it again.

    Attributes:
        name: what to call it in messages.
        pid: its process id, which is its session's id too.
        started: when it started, in seconds since the epoch: a reused process id is not taken for it.
        mark: what stands in its environment and in that of its descendants.
        log: the file with what it prints.
    """

    name: str
    pid: int
    started: float
    mark: str
    log: str

    def members(self) -> list[psutil.Process]:
        """The process and everything that it started, as far as it still runs."""
        return [candidate for candidate in psutil.process_iter() if self._owns(candidate)]

    def alive(self) -> bool:
        """Whether the process itself still runs."""
        return psutil.pid_exists(self.pid) and self._owns(psutil.Process(self.pid))

    def _owns(self, candidate: psutil.Process) -> bool:
        try:
            if candidate.status() == psutil.STATUS_ZOMBIE:
                return False
            if candidate.pid == self.pid:
                return self._is_head(candidate)
            if os.getsid(candidate.pid) == self.pid and self._session_is_its_own():
                return True
            return candidate.environ().get(_MARK) == self.mark
        except (psutil.Error, OSError):
            return False

    def _session_is_its_own(self) -> bool:
        # A session's number is not given out again while a process is in it, whether or not its head still lives.
        return not psutil.pid_exists(self.pid) or self._is_head(psutil.Process(self.pid))

    def _is_head(self, candidate: psutil.Process) -> bool:
        return abs(candidate.create_time() - self.started) < _CLOCK_TOLERANCE_S

    def wait_until(self, ready: Callable[[], bool], *, within_s: float) -> None:
        """Waits until it is ready.

        Raises:
            ProcessError: it ended, or `within_s` seconds went by; the message has the end of its log.
        """
        until = time.monotonic() + within_s
        while not ready():
            if not self.alive():
                raise ProcessError(f"{self.name} ended by itself. {self._log_end()}")
            if time.monotonic() > until:
                raise ProcessError(f"{self.name} was not ready in {within_s:.0f} s. {self._log_end()}")
            time.sleep(_POLL_S)

    def _log_end(self, lines: int = 20) -> str:
        text = Path(self.log).read_text(encoding="utf-8", errors="replace")
        return "\n".join([f"Its log, {self.log}, ends with:", *text.splitlines()[-lines:]])


def start(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    folder: Path,
    environment: Mapping[str, str],
    user: str | None = None,
) -> Process:
    """Starts a command in a folder, in a session of its own, with its output appended to the file `log`.

    Args:
        user: whom it runs as, if not as the caller.
    """
    for place in (log.parent, folder):
        place.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex
    with log.open("ab") as output:
        child = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env={**environment, _MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=user,
        )
    # An ended child is a zombie until somebody waits for it.
    threading.Thread(target=child.wait, name=f"wait for {name}", daemon=True).start()
    return Process(name, child.pid, time.time(), mark, str(log))


def end(processes: Iterable[Process], grace_s: float = 5) -> None:
    """Ends processes and everything that they started.

    Each is asked to end (SIGTERM), so that it can end its own children in its own way; what it leaves is asked then;
    what is there after `grace_s` seconds is killed.

    Raises:
        ProcessError: something of them outlived its being killed.
    """
    families = list(processes)
    asked: set[psutil.Process] = set()
    until = time.monotonic() + grace_s
    while time.monotonic() < until and any(members := [family.members() for family in families]):
        for family, left in zip(families, members, strict=True):
            heads = [member for member in left if member.pid == family.pid]
            _signal(signal.SIGTERM, set(heads or left) - asked)
            asked.update(heads or left)
        time.sleep(_POLL_S)
    until = time.monotonic() + _KILL_PATIENCE_S
    while left := [member for family in families for member in family.members()]:
        if time.monotonic() > until:
            raise ProcessError(f"cannot be ended: {', '.join(map(str, left))}")
        _signal(signal.SIGKILL, left)
        time.sleep(_POLL_S)


def _signal(number: signal.Signals, targets: Iterable[psutil.Process]) -> None:
    for target in targets:
        with suppress(psutil.NoSuchProcess):
            target.send_signal(number)
