"""Simulations by the dozen, from one seed: the same seed gives the same ones, wherever and whenever it is sown."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test

from simulation import events, machine

WORLDS = 16
"""Worlds of one seed: as many as CI simulates, within which every bug of `bugs.BUGS` is found."""

STEPS = 40
"""What happens in one world, at most; most are a run, or many effects of several."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What a campaign that found nothing did.

    Attributes:
        seconds: of this process at work.
        counts: how often what happened in its worlds.
        digest: SHA-256 of all that its processes did, in order.
    """

    worlds: int
    seconds: float
    counts: Counter[str]
    digest: str

    def __str__(self) -> str:
        rest = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()) if what != "effects")
        return f"{self.short()}; {rest}"

    def short(self) -> str:
        """How much was done, and how fast."""
        effects = self.counts["effects"]
        rate = effects / self.seconds if self.seconds else 0
        return f"{self.worlds} worlds, {effects} effects in {self.seconds:.1f} s of CPU: {rate:.0f} effects/s"


def campaign(seed: int, *phases: Phase, worlds: int = WORLDS) -> Campaign:
    """Simulate the worlds of a seed.

    Args:
        phases: `Phase.shrink` looks for a shorter way to what was found.

    Raises:
        Exception: what was found, with what led to it; a note says how to see it again.
    """

    @seeded(seed)
    class Simulation(events.Events):  # type: ignore[misc]
        pass

    began_s = time.process_time()
    machine.traces.clear()
    machine.counts.clear()
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
        exc.add_note(
            f"\nTo see it again: SIMULATION_SEED={seed} make simulate. As short as can be: SIMULATION_SHRINK=1"
        )
        raise
    digest = hashlib.sha256("\n".join(line for trace in machine.traces for line in trace).encode()).hexdigest()
    return Campaign(len(machine.traces), time.process_time() - began_s, Counter(machine.counts), digest)
