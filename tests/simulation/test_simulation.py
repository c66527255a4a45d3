"""The whole protocol in one process, whatever happens in whatever order: each record once, and every loss told."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.bugs import BUGS

pytestmark = pytest.mark.slow

REACHED = (
    *("S3 worlds", "disk worlds", "crashes", "power losses", "zombies", "take-overs", "reshards", "expired iterators"),
    *("losses", "rests", "losses told as errors", "losses that nobody can tell"),
    *("abandoned", "repairs", "rebuilt ledgers", "backfills", "backfills completed", "runs of a second pipeline"),
    *("retention raised", "retention lowered", "records in quarantine"),
    *("worlds that start at time", "worlds that start at at", "worlds that start at after"),
)
"""What the worlds of one seed have to come to, each at least once."""


def simulate(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: hypothesis draws on the modules that are loaded, so pytest's draws differ."""
    tests = Path(__file__).parents[1]
    return subprocess.run(
        [sys.executable, *(command or ("-m", "simulation"))],
        env={"PYTHONPATH": f"{tests}:{tests.parent / 'include'}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_record_is_there_once_whatever_happens(capsys: pytest.CaptureFixture[str]) -> None:
    """A failure tells what led to it, and comes again with `SIMULATION_SEED=2 make simulate`."""
    done = simulate(SIMULATION_SEED="2")
    assert done.returncode == 0, done.stderr
    with capsys.disabled():
        print(f" {done.stdout.strip()} ", end="")
    did, _, happened = done.stdout.partition("; ")
    assert int(re.findall(r"(\d+) effects", did)[0]) > 10_000
    counts = {what: int(count) for count, _, what in (each.partition(" ") for each in happened.strip().split(", "))}
    assert [what for what in REACHED if not counts.get(what)] == []


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    code = "from simulation.campaign import campaign; print(campaign(0, worlds=4).digest)"
    one, other = (simulate("-c", code, PYTHONHASHSEED=hash_seed).stdout for hash_seed in ("1", "2"))
    assert one == other
    assert len(one.strip()) == 64


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    """What the simulation says of each bug, and the seed of the worlds in which it found it."""
    told = [json.loads(line) for line in simulate(SIMULATION_BUG="all").stdout.splitlines()]
    return {each["bug"]: each for each in told}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found(name: str, found: dict[str, dict[str, str]]) -> None:
    assert re.search(BUGS[name].said, found[name].get("said", "nothing was found"))


def test_the_seed_that_a_failure_prints_shows_it_again(found: dict[str, dict[str, str]]) -> None:
    name = "publish by rename"
    again = simulate(SIMULATION_BUG=name, SIMULATION_SEED=str(found[name]["seed"]))
    assert again.returncode == 1
    first, note = found[name]["said"].splitlines()[0], f"SIMULATION_SEED={found[name]['seed']} make simulate"
    assert first in again.stderr
    assert note in again.stderr
