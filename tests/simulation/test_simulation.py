"""The whole protocol in one process, whatever happens in whatever order: each record once, and every loss told."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.bugs import BUGS
from simulation.campaign import campaign

pytestmark = pytest.mark.slow


def simulate(*command: str, **environment: str) -> str:
    """What a process of its own prints: hypothesis draws on the modules that are loaded, so pytest's draws differ."""
    tests = Path(__file__).parents[1]
    return subprocess.run(
        [sys.executable, *command],
        env={"PYTHONPATH": f"{tests}:{tests.parent / 'include'}", **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def test_each_record_is_there_once_whatever_happens(capsys: pytest.CaptureFixture[str]) -> None:
    """A failure tells what led to it, and comes again with `SIMULATION_SEED=0 make simulate`."""
    done = simulate("-m", "simulation", SIMULATION_SEED="0")
    with capsys.disabled():
        print(f" {done.strip()} ", end="")
    effects = re.search(r"(\d+) effects in", done)
    assert effects
    assert int(effects[1]) > 10_000


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    code = "from simulation.campaign import campaign; print(campaign(0, worlds=4).digest)"
    one, other = (simulate("-c", code, PYTHONHASHSEED=hash_seed) for hash_seed in ("1", "2"))
    assert one == other


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, said = BUGS[name]
    bug(monkeypatch)
    with pytest.raises(Exception, match=said):
        campaign(0)
