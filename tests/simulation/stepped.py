"""A ledger whose every call is an effect, and can stay without an answer."""

from __future__ import annotations

from collections import deque
from typing import Any

from shardlake.errors import UnavailableError
from shardlake.ledger import Ledger
from simulation.tasks import Scheduler

LEDGER_FAULTS = ("away", "lost answer")


class SteppedLedger:
    """Stands before a ledger; what is asked of it is an effect each."""

    def __init__(self, ledger: Ledger, scheduler: Scheduler) -> None:
        self._ledger, self._scheduler = ledger, scheduler
        self.faults = deque[str]()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        return self._stepped(name, found) if callable(found) else found

    def _stepped(self, name: str, call: Any) -> Any:
        def stepped(*arguments: Any, **named: Any) -> Any:
            self._scheduler.effect(f"ledger {name}")
            fault = self.faults.popleft() if self.faults else "none"
            if fault == "away":
                raise UnavailableError("the ledger is away, as the simulation wants it")
            self._scheduler.atomic = True
            try:
                answer = call(*arguments, **named)
            finally:
                self._scheduler.atomic = False
            if fault == "lost answer":
                raise UnavailableError("the ledger's answer is lost, as the simulation wants it")
            return answer

        return stepped
