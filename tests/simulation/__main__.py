"""`make simulate`: worlds of new seeds for SIMULATION_MINUTES (1); or those of SIMULATION_SEED.

SIMULATION_SHRINK=1 makes what is found as short as it can be. SIMULATION_BUG seeds one of `bugs.BUGS`, or `all` of
them, each in the worlds of as many seeds as it takes.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import count
from multiprocessing import get_context

import pytest
from hypothesis import Phase

from simulation.bugs import BUGS, found
from simulation.campaign import Campaign, campaign


def main() -> None:
    """Simulate until the time is over, or something is found."""
    logging.disable()  # what is left out of a batch, thousands of times
    seed, bug = os.environ.get("SIMULATION_SEED"), os.environ.get("SIMULATION_BUG")
    if bug == "all":
        with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=logging.disable) as pool:
            for name, told in zip(BUGS, pool.map(found, BUGS), strict=True):
                print(json.dumps({"bug": name, **(asdict(told) if told else {})}), flush=True)
        return
    with pytest.MonkeyPatch.context() as patch:
        if bug:
            BUGS[bug].bug(patch)
        if seed:
            phases = [Phase.shrink] if os.environ.get("SIMULATION_SHRINK") else []
            print(f"seed {seed}: {campaign(int(seed), *phases)}")
        else:
            _simulate(60 * float(os.environ.get("SIMULATION_MINUTES", "1")))


def _simulate(seconds: float) -> None:
    until_s, first = time.monotonic() + seconds, time.time_ns() // 1_000_000_000
    every = Campaign(0, 0, Counter(), "")
    for seed in count(first):
        done = campaign(seed)
        every = Campaign(every.worlds + done.worlds, every.seconds + done.seconds, every.counts + done.counts, "")
        print(f"seed {seed}: {done.short()}", flush=True)
        if time.monotonic() > until_s:
            print(f"nothing was found by {seed - first + 1} seeds: {every}")
            return


if __name__ == "__main__":
    main()
