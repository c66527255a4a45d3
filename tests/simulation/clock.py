"""The one clock of a simulation: the service's, this machine's, and what sleeping takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

EPOCH_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


class SimulatedClock:
    """Milliseconds since the epoch; they pass only where something says so. Stands in for the local Kinesis' clock.

    Attributes:
        passed: called when time has passed.
    """

    def __init__(self) -> None:
        self._now_ms = EPOCH_MS
        self.passed: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        """The time."""
        return self._now_ms

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_ms += round(seconds * 1000)
        self.passed()


class SimulatedTime:
    """What the product asks of the module `time`; anything else it would ask fails."""

    def __init__(self, clock: SimulatedClock, slept: Callable[[], None]) -> None:
        self._clock, self._slept = clock, slept

    def time(self) -> float:
        return self._clock.now_ms() / 1000

    def monotonic(self) -> float:
        return self._clock.now_ms() / 1000

    def time_ns(self) -> int:
        return self._clock.now_ms() * 1_000_000

    def sleep(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self._slept()


class LongestWait:
    """Stands in for the module `random`, of which the product asks jitter: the longest one."""

    @staticmethod
    def uniform(low: float, high: float) -> float:
        return high

    @staticmethod
    def random() -> float:
        return 0.999


class OneAfterTheOther:
    """Stands in for an executor: the same calls in their order, in the caller's thread."""

    def __init__(self, max_workers: int) -> None:
        pass

    def __enter__(self) -> OneAfterTheOther:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, call: Callable[..., Any], *items: Any) -> list[Any]:
        return [call(*each) for each in zip(*items, strict=False)]


def install(patch: pytest.MonkeyPatch, clock: SimulatedClock, slept: Callable[[], None]) -> None:
    """Let every module of the product have this time, no chance and no threads."""
    import random

    stand_ins = {"time": (time, SimulatedTime(clock, slept)), "random": (random, LongestWait())}
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] != "shardlake":
            continue
        for attribute, (real, stand_in) in stand_ins.items():
            if getattr(module, attribute, None) is real:
                patch.setattr(module, attribute, stand_in)
        if hasattr(module, "ThreadPoolExecutor"):
            patch.setattr(module, "ThreadPoolExecutor", OneAfterTheOther)
