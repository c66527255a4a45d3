"""What tells effects, and stops the process that comes to the one ordered, holds up nobody else."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from demo.folder import REPOSITORY
from support.faults.boundaries import Boundary, Tap, wait_until

TELLING = """
import sys, threading
from support.faults.tap import sitecustomize as tap

def tell_many():
    for _ in range(50):
        tap.tell("effect")

folder, role, threads = sys.argv[1:]
tap.install(folder, folder, role)
for _ in range(int(threads)):
    threading.Thread(target=tell_many).start()
"""


def test_a_process_that_stands_still_keeps_no_other_from_telling(tmp_path: Path) -> None:
    """Kills: a thread that stands still with the log locked, as another one of its process was told to stop."""

    def telling(role: str, threads: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", TELLING, str(tmp_path), role, str(threads)]
        return subprocess.Popen(command, env={"PYTHONPATH": str(REPOSITORY / "tests")})

    tap = Tap(tmp_path)
    tap.order(Boundary("one: effect", 100))
    with ExitStack() as stack:
        one = stack.enter_context(telling("one", 8))
        stack.callback(one.kill)
        wait_until(tap.stopped, 10, "nobody stops")
        other = stack.enter_context(telling("other", 1))
        stack.callback(other.kill)
        assert other.wait(10) == 0
    assert tap.told()[-1] == Boundary("other: end", 1)
