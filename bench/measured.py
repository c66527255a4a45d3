"""Runs one command and reports what it and everything that it started took: `python -m bench.measured REPORT COMMAND…`.

A process whose parent has gone becomes a child of this one, so that none is lost (`PR_SET_CHILD_SUBREAPER`, Linux).
Spark's daemon does not wait for its workers, though, so the system's sums leave them out. The report is JSON:

    code        the command's exit code
    wall_s      from its start to its end
    cpu_s       user and system time of all processes: as seen of each every 0.1 s, or the sums where they are more
    python_peak_bytes   the most memory that one Python process had at a time (VmHWM, looked at every 0.1 s)
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 0.1
LEFTOVERS_S = 10.0
"""How long processes may outlive the command before they are killed."""


def main(arguments: list[str]) -> int:
    """Run the command, write the report; the command's exit code."""
    report, command = Path(arguments[0]), arguments[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    begun_s = time.monotonic()
    head = subprocess.Popen(command)
    watch = _Watch()
    watch.start()
    code, wall_s, cpu_s = 0, 0.0, 0.0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        cpu_s += usage.ru_utime + usage.ru_stime
        if pid == head.pid:
            code, wall_s = os.waitstatus_to_exitcode(status), time.monotonic() - begun_s
            threading.Timer(LEFTOVERS_S, _kill_leftovers).start()
    facts = {"code": code, "wall_s": wall_s, "cpu_s": max(cpu_s, watch.cpu_s), "python_peak_bytes": watch.peak_bytes}
    report.write_text(json.dumps(facts), encoding="utf-8")
    os._exit(abs(code))  # the timer may still wait


class _Watch(threading.Thread):
    """Looks at every process below this one, for as long as there is one."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._cpu_s: dict[psutil.Process, float] = {}

    @property
    def cpu_s(self) -> float:
        """What all processes took by themselves, as last seen of each."""
        return sum(self._cpu_s.values())

    def run(self) -> None:
        while True:
            for each in psutil.Process().children(recursive=True):
                try:
                    times = each.cpu_times()
                    self._cpu_s[each] = times.user + times.system
                    if each.name().startswith("python"):
                        self.peak_bytes = max(self.peak_bytes, peak_bytes_of(each.pid))
                except (psutil.Error, OSError):
                    continue
            time.sleep(LOOK_S)


def peak_bytes_of(pid: int) -> int:
    """The most memory that a process has had."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _kill_leftovers() -> None:
    for each in psutil.Process().children(recursive=True):
        each.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
