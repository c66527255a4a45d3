"""A ledger whose every call is an effect, and can stay without an answer."""

from __future__ import annotations

from collections import deque
from typing import Any

from shardlake.errors import UnavailableError
from shardlake.ledger import Ledger
from simulation.tasks import Scheduler

LEDGER_FAULTS = ("away", "lost answer")


class SteppedLedger:
    """Stands before a ledger; what is asked of it is an effect each.

    Attributes:
        store: the ledger; another one once that is lost.
    """

    def __init__(self, store: Ledger, scheduler: Scheduler) -> None:
        self.store, self._scheduler = store, scheduler
        self.faults = deque[str]()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        return self._stepped(name, found) if callable(found) else found

    def _stepped(self, name: str, call: Any) -> Any:
        def stepped(*arguments: Any, **named: Any) -> Any:
            self._scheduler.effect(f"ledger {name}")
            fault = self.faults.popleft() if self.faults else "none"
            if fault == "away":
                raise UnavailableError("the ledger is away, as the simulation wants it")
            self._scheduler.atomic = True
            self._count(name, *arguments)
            try:
                answer = call(*arguments, **named)
            finally:
                self._scheduler.atomic = False
            if fault == "lost answer":
                raise UnavailableError("the ledger's answer is lost, as the simulation wants it")
            return answer

        return stepped

    def _count(self, name: str, *arguments: Any) -> None:
        if name == "pin":
            draft, proposed, _ = arguments
            chains = self.store.chains(draft.pipeline, draft.namespace)
            self._scheduler.counts["take-overs"] += sum(
                chains[each.shard_id].open_range is not None for each in proposed
            )
