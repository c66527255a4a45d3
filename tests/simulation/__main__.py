"""`make simulate`: campaigns of new seeds for SIMULATION_MINUTES (1); or one of SIMULATION_SEED, as short as can be."""

from __future__ import annotations

import logging
import os
import time
from itertools import count

from hypothesis import Phase

from simulation.campaign import campaign


def main() -> None:
    """Simulate until the time is over, or something is found."""
    logging.disable()  # what is left out of a batch, thousands of times
    if seed := os.environ.get("SIMULATION_SEED"):
        print(f"seed {seed}: {campaign(int(seed), Phase.shrink)}")
        return
    until_s = time.monotonic() + 60 * float(os.environ.get("SIMULATION_MINUTES", "1"))
    first = time.time_ns() // 1_000_000_000
    for seed_ in count(first):
        print(f"seed {seed_}: {campaign(seed_)}", flush=True)
        if time.monotonic() > until_s:
            print(f"nothing was found by {seed_ - first + 1} seeds")
            return


if __name__ == "__main__":
    main()
