"""Being interrupted in good order: the first signal unwinds the program, later ones do not cut its tidying short."""

from __future__ import annotations

import signal
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptionError(SystemExit):
    """A signal asked the program to end; the exit code is the shell's, 128 and the signal's number."""


def unwind_on_signals() -> None:
    """Makes SIGINT, SIGTERM and SIGHUP raise once, so that every `with` block is left as after an error."""
    for number in _SIGNALS:
        signal.signal(number, _unwind)


def _unwind(number: int, _frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise InterruptionError(128 + number)
