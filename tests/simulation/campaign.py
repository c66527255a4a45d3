"""Simulations by the dozen, from one seed: the same seed gives the same ones, wherever and whenever it is sown."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test

from simulation import machine

WORLDS = 16
"""Worlds of one seed: as many as CI simulates, within which every bug of `bugs.BUGS` is found."""

STEPS = 40
"""What happens in one world, at most; most are a run, or many effects of several."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What a campaign that found nothing did.

    Attributes:
        effects: of all processes.
        digest: SHA-256 of all that they did, in order.
    """

    worlds: int
    effects: int
    seconds: float
    digest: str

    def __str__(self) -> str:
        rate = self.effects / self.seconds
        return f"{self.worlds} worlds, {self.effects} effects in {self.seconds:.1f} s: {rate:.0f} effects/s"


def campaign(seed: int, *phases: Phase, worlds: int = WORLDS) -> Campaign:
    """Simulate the worlds of a seed.

    Args:
        phases: `Phase.shrink` looks for a shorter way to what was found.

    Raises:
        Exception: what was found, with what led to it; a note says how to see it again.
    """

    @seeded(seed)
    class Simulation(machine.Simulation):  # type: ignore[misc]
        pass

    began_s = time.perf_counter()
    machine.traces.clear()
    try:
        run_state_machine_as_test(
            Simulation,
            settings=settings(
                max_examples=worlds,
                stateful_step_count=STEPS,
                phases=[Phase.generate, *phases],
                deadline=None,
                database=None,
                print_blob=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    except Exception as exc:
        exc.add_note(f"\nTo see it again, and as short as it can be made: SIMULATION_SEED={seed} make simulate")
        raise
    digest = hashlib.sha256("\n".join(line for trace in machine.traces for line in trace).encode()).hexdigest()
    effects = sum(map(len, machine.traces))
    return Campaign(len(machine.traces), effects, time.perf_counter() - began_s, digest)
