"""Starting processes and ending all that they started."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from demo.background import Background
from demo.processes import Process, ProcessError, end, start

# A child in the session, one in a session of its own, and one that has lost its parent: each writes its pid.
_FAMILY = """\
import subprocess, sys, time
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
children = [subprocess.Popen(SLEEP), subprocess.Popen(SLEEP, start_new_session=True)]
orphan = "import subprocess, sys; print(subprocess.Popen(%r, stdout=-3, start_new_session=True).pid)" % (SLEEP,)
print(*[child.pid for child in children], subprocess.check_output([sys.executable, "-c", orphan], text=True).strip())
sys.stdout.flush()
time.sleep(600)
"""
_STUBBORN = """\
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


def _start(folder: Path, program: str) -> Process:
    return start("it", [sys.executable, "-c", program], log=folder / "it.log", folder=folder, environment=os.environ)


def _wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def _running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.fixture
def family(tmp_path: Path) -> Iterator[tuple[Process, list[int]]]:
    process = _start(tmp_path, _FAMILY)
    log = tmp_path / "it.log"
    try:
        process.wait_until(lambda: log.read_text().endswith("\n"), within_s=20)
        yield process, [process.pid, *map(int, log.read_text().split())]
    finally:
        end([process])


def test_end_leaves_nothing_of_children_grandchildren_and_other_sessions(family: tuple[Process, list[int]]) -> None:
    process, pids = family
    assert sorted(member.pid for member in process.members()) == sorted(pids)

    end([process])

    assert [pid for pid in pids if _running(pid)] == []
    assert process.members() == []


def test_end_finds_what_a_dead_process_left(family: tuple[Process, list[int]]) -> None:
    process, pids = family
    os.kill(process.pid, signal.SIGKILL)
    _wait_for(lambda: not process.alive())

    end([process])

    assert [pid for pid in pids if _running(pid)] == []


def test_end_kills_what_does_not_listen(tmp_path: Path) -> None:
    process = _start(tmp_path, _STUBBORN)
    process.wait_until(lambda: "ready" in (tmp_path / "it.log").read_text(), within_s=20)

    end([process], grace_s=0.5)

    assert not process.alive()


def test_a_reused_process_id_is_not_taken_for_the_process(family: tuple[Process, list[int]]) -> None:
    process, _ = family

    of_long_ago = replace(process, started=process.started - 3600, mark="another")

    assert process.alive()
    assert not of_long_ago.alive()
    assert of_long_ago.members() == []


def test_a_process_that_ends_while_waited_for_shows_its_log(tmp_path: Path) -> None:
    process = _start(tmp_path, "raise SystemExit('no port left')")

    with pytest.raises(ProcessError, match=r"(?s)it ended by itself\. Its log, .*it\.log, ends with:\nno port left"):
        process.wait_until(lambda: False, within_s=20)


def test_a_process_that_does_not_get_ready_says_so(tmp_path: Path) -> None:
    process = _start(tmp_path, "import time; time.sleep(600)")
    try:
        with pytest.raises(ProcessError, match="it was not ready in 0 s"):
            process.wait_until(lambda: False, within_s=0.2)
    finally:
        end([process])


def test_what_is_written_down_is_ended_by_another_program(tmp_path: Path) -> None:
    record = tmp_path / "processes.json"
    with Background(record) as first:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        process = first.start("it", command, log=tmp_path / "it.log", folder=tmp_path, environment=os.environ)
        first.release()
    assert process.alive()

    Background(record).end()

    assert not process.alive()
    assert not record.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_program_ends_what_it_started(tmp_path: Path, number: signal.Signals) -> None:
    program = f"""\
import os, sys, time
from pathlib import Path
from demo.background import Background
from demo.interruption import unwind_on_signals
unwind_on_signals()
folder = Path({str(tmp_path)!r})
with Background(folder / "processes.json") as background:
    child = background.start("it", [sys.executable, "-c", "import time; time.sleep(600)"],
                             log=folder / "it.log", folder=folder, environment=os.environ)
    print(child.pid, flush=True)
    time.sleep(600)
"""
    include = Path(__file__).parents[2] / "include"
    environment = {**os.environ, "PYTHONPATH": str(include)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _running(child)
        parent.send_signal(number)
        assert parent.wait(timeout=30) == 128 + number

    assert not _running(child)
    assert not (tmp_path / "processes.json").exists()
