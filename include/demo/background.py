"""What runs in the background, written down, so that another program, or the same one after a crash, can end it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from demo.processes import Process, end, start


class Background:
    """The processes of one file of records.

    In a `with` block it ends them all, whichever way the block is left, unless they were released before.

    Args:
        record: the file; processes that it names already are among those to end.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._released = False
        noted = json.loads(record.read_text(encoding="utf-8")) if record.exists() else []
        self._processes = [Process(**each) for each in noted]

    @property
    def processes(self) -> tuple[Process, ...]:
        """What was started and not ended, the oldest first."""
        return tuple(self._processes)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        folder: Path,
        environment: Mapping[str, str],
        user: str | None = None,
    ) -> Process:
        """Starts a command, see `processes.start`, and writes it down."""
        process = start(name, command, log=log, folder=folder, environment=environment, user=user)
        self._processes.append(process)
        self._write_down()
        return process

    def kill(self, process: Process) -> None:
        """Kills one of them, and what it started; it is not among them any more."""
        self._processes.remove(process)
        end([process], grace_s=0)
        self._write_down()

    def end(self) -> None:
        """Ends all of them, and what they started; a second time it does nothing."""
        end(self._processes)
        self._processes.clear()
        self._record.unlink(missing_ok=True)

    def _write_down(self) -> None:
        self._record.write_text(json.dumps([asdict(each) for each in self._processes], indent=1), encoding="utf-8")

    def release(self) -> None:
        """Lets them run on after the `with` block."""
        self._released = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._released:
            self.end()
