"""Boundaries between two effects: where a process is stopped by the tap, and then killed from outside."""

from __future__ import annotations

import json
import os
import posixpath
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TAP = Path(__file__).parent / "tap"
"""What PYTHONPATH has to name for a process to tell its effects."""

_POLL_S = 0.01
_TEMPORARY = "_shardlake/tmp"


@dataclass(frozen=True, slots=True)
class Boundary:
    """The moment before an effect.

    Attributes:
        name: who is at work, and what comes next: `commit: COMMIT ranges positions`.
        count: the how manieth of its name it is, over all processes of a scope.
    """

    name: str
    count: int

    def __str__(self) -> str:
        return self.name if self.count == 1 else f"{self.name} ({self.count})"

    @property
    def role(self) -> str:
        """Who is at work."""
        return self.name.partition(": ")[0]


@dataclass(frozen=True, slots=True)
class Tap:
    """What processes of a scope tell, and where the next of them is to stop.

    Attributes:
        scope: an Airflow DAG, or `all`.
    """

    folder: Path
    scope: str = "all"

    def environment(self, place: Path) -> dict[str, str]:
        """What a process needs in its environment, beside `TAP` on its PYTHONPATH, to tell its effects.

        Args:
            place: the folder that datasets lie in.
        """
        return {"SHARDLAKE_TAP": str(self.folder), "SHARDLAKE_TAP_PLACE": str(place)}

    def order(self, boundary: Boundary) -> None:
        """Forget what was told; the next process that comes to the boundary is to stop there."""
        self.forget()
        draft = self._order.with_suffix(".draft")
        draft.write_text(json.dumps([boundary.name, boundary.count]), encoding="utf-8")
        draft.replace(self._order)

    def forget(self) -> None:
        """Forget what was told and ordered."""
        self._order.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)

    def told(self) -> list[Boundary]:
        """What was told, in the order in which it took place."""
        return [Boundary(line["name"], line["count"]) for line in self._lines()]

    def not_on_disk(self) -> list[str]:
        """What a loss of power would have taken although something that counts on it was there: nothing, it should be.

        A file's content has to be on disk before the file gets its name; the names in a folder, before the ledger's
        next COMMIT. Not those of temporary files and their folders.
        """
        content, names, found = set[str](), set[str](), list[str]()
        opened = defaultdict[int, set[str]](set)  # by thread: each writes the files of one range
        for line in (line for line in self._lines() if not line["stopped"]):  # did not take place, or not then
            effect, keys = str(line["name"]).split(": ", 1)[1].split()[0], list(line["keys"])
            if effect == "open":
                content.add(keys[-1])
                opened[line["thread"]].add(keys[-1])
            elif effect == "write":  # to which of them is not told
                content |= {key for key in opened[line["thread"]] if key.endswith(".parquet")}
            elif effect == "sync":
                content.discard(keys[-1])
                names.discard(keys[-1])
            elif effect in ("link", "rename", "mkdir"):
                if keys[-1] != "." and not keys[-1].startswith(_TEMPORARY):  # what is above is not told
                    names.add(posixpath.dirname(keys[-1]) or ".")
                found += [f"the content of {keys[-1]}" for source in keys[:-1] if source in content]
            elif effect == "COMMIT":
                found += [f"names in {folder} at {line['name']}" for folder in sorted(names)]
        return found

    def stopped(self) -> int | None:
        """The process that stands still at the boundary; None: nobody was there yet.

        Its line comes a moment before it stops: it is waited for.
        """
        pid = next((int(line["pid"]) for line in self._lines() if line["stopped"]), None)
        if pid is None:
            return None
        wait_until(lambda: state_of(pid) in ("T", ""), 10, f"process {pid} does not stop")
        return pid if state_of(pid) == "T" else None

    def _lines(self) -> list[dict[str, Any]]:
        text = self._log.read_text(encoding="utf-8") if self._log.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    @property
    def _log(self) -> Path:
        return self.folder / f"{self.scope}.log"

    @property
    def _order(self) -> Path:
        return self.folder / f"{self.scope}.order"


def state_of(pid: int) -> str:
    """The state of a process as /proc has it, `T` where it stands still; empty where there is none, or a zombie."""
    with suppress(FileNotFoundError, ProcessLookupError):
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
        return "" if state in "ZX" else state
    return ""


def kill(pid: int) -> None:
    """SIGKILL, and the process is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: state_of(pid) == "", 10, f"process {pid} outlives SIGKILL")


def let_go_on(pid: int) -> None:
    """SIGCONT, for a process that stands still."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def wait_until(condition: Callable[[], object], within_s: float, otherwise: str, every_s: float = _POLL_S) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: it does not, in that time.
    """
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, f"{otherwise} within {within_s:.0f} s"
        time.sleep(every_s)
