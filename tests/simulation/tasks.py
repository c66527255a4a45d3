"""Processes of a simulation: each runs in a greenlet, one at a time, from one effect to the next.

An effect is whatever others can see, or what shows what others did: a call to stream or ledger, a name on the disk. A
process that is never gone on with is one that hangs; one that is gone on with late is a zombie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from greenlet import greenlet

Scope = tuple[str, str]
"""A pipeline and a namespace of it."""


class Killed(BaseException):
    """The process is gone: nothing in it can hold this up."""


class Task:
    """A process that stands before its next effect, or is over.

    Args:
        scope: what it works on.

    Attributes:
        before: the effect that it stands before; None: it is over.
        failure: what it ended with; None: it ended well, or is under way.
        began_at: the key of each shard's position when it began; `began_ms`: when that was.
        seen_over: how many processes were over when it last went on.
    """

    def __init__(self, name: str, scope: Scope, body: Callable[[], object]) -> None:
        self.name, self.scope, self._body = name, scope, body
        self.before: str | None = "its first"
        self.failure: BaseException | None = None
        self.began_at: dict[str, str] = {}
        self.began_ms = self.seen_over = 0
        self.killed = False
        self._greenlet = greenlet(self._run)

    def go_on(self) -> None:
        """Do the effect it stands before, and all up to the next."""
        self._greenlet.switch()

    def kill(self) -> None:
        """End it where it stands: none of its effects comes after this."""
        self.killed = True
        if self.before is not None:
            self.go_on()

    def pause(self, effect: str) -> None:
        """Called in the process itself, before each effect."""
        if not self.killed:
            self.before = effect
            self._greenlet.parent.switch()
        if self.killed:
            raise Killed(effect)

    def _run(self) -> None:
        try:
            if not self.killed:
                self._body()
        except BaseException as exc:
            self.failure = exc
        self.before = None


class Scheduler:
    """Lets tasks go on, one at a time, and writes down what they do.

    Attributes:
        trace: one line an effect.
        counts: how often what happened that the simulation is there for.
        atomic: effects happen at once, since a transaction is under way that nobody else could come into.
    """

    def __init__(self) -> None:
        self.trace: list[str] = []
        self.counts = Counter[str]()
        self.atomic = False
        self._running: Task | None = None

    def effect(self, label: str) -> None:
        """Called before each effect; what the simulation itself does is none."""
        if self._running and not self.atomic:
            self._running.pause(label)

    def slept(self) -> None:
        """Called after a process has slept."""
        self.effect("wake up")

    def go_on(self, task: Task) -> None:
        """Let a task do its next effect."""
        self.counts["effects"] += 1
        self.trace.append(f"{task.name}: {task.before}")
        self._running = task
        try:
            task.go_on()
        finally:
            self._running = None

    def kill(self, task: Task) -> None:
        """End a task where it stands."""
        self.counts["crashes"] += 1
        self.trace.append(f"{task.name} killed before {task.before}")
        self._running = task
        try:
            task.kill()
        finally:
            self._running = None
