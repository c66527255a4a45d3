"""A disk that forgets what was not synced when its power fails: contents of files, and names in folders.

The files are real ones, in a folder of their own; what is remembered beside is what the disk surely holds.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulation.clock import SimulatedClock

FOLDER = -1
"""In place of a file's number, where a name is a folder's."""


class SimulatedDisk:
    """The folder `root` and all below it; what is done elsewhere is none of its business.

    Args:
        effect: called before each change of a name, and before each sync.
    """

    def __init__(self, root: Path, clock: SimulatedClock, effect: Callable[[str], None]) -> None:
        self.root, self._clock, self._effect = root, clock, effect
        self._names: dict[Path, dict[str, int]] = {root: {}}
        self._contents: dict[int, bytes] = {}
        self._temporaries: set[Path] = set()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """See to it that what happens to names and syncs goes through here."""
        for name in ("link", "replace", "unlink", "mkdir"):
            patch.setattr(os, name, self._told(name, getattr(os, name)))
        patch.setattr(os, "fsync", self._synced(os.fsync))
        patch.setattr(shutil, "rmtree", self._removed(shutil.rmtree))
        patch.setattr(tempfile, "mkstemp", self._made(tempfile.mkstemp))

    def files(self, folder: str) -> dict[str, int]:
        """The keys below a folder, each with a number that another file of the same name would not have."""
        return {
            f"{place[len(str(self.root)) + 1 :]}/{name}": os.lstat(f"{place}/{name}").st_ino
            for place, _, names in os.walk(self.root / folder)
            for name in names
        }

    def read(self, key: str) -> bytes:
        """The content of a file."""
        return (self.root / key).read_bytes()

    def write(self, key: str, content: bytes | None) -> None:
        """Put a file in place, or take it away, from outside of the simulation: as if it had always been so."""
        path = self.root / key
        path.unlink(missing_ok=True)
        names = self._names.setdefault(path.parent, {})
        names.pop(path.name, None)
        if content is not None:
            path.write_bytes(content)
            number = path.stat().st_ino
            names[path.name] = number
            self._contents[number] = content

    def date_what_is_left(self) -> None:
        """Let files that were being written have the simulation's time: to be called when a process is gone.

        What holds such a file may write to it once more when it is collected, so it is dated each time.
        """
        self._temporaries = {path for path in self._temporaries if path.exists()}
        for path in self._temporaries:
            self._date(path)

    def _date(self, path: Path) -> None:
        now_s = self._clock.now_ms() / 1000
        os.utime(path, (now_s, now_s))

    def lose_power(self, seed: int) -> None:
        """What was synced is there when the power is back; of all else each thing is or is not.

        Args:
            seed: 0: nothing else is there.
        """
        chance = random.Random(seed)
        kept = self._kept(self.root, lambda: seed != 0 and chance.random() < 0.5)
        for path in self.root.iterdir():
            _rmtree(path) if path.is_dir() else path.unlink()
        self._names, self._contents = {self.root: {}}, {}
        for path, content in kept:
            if content is None:
                path.mkdir()
                self._names[path] = {}
            else:
                path.write_bytes(content)
                self._date(path)
                self._contents[path.stat().st_ino] = content
            self._names[path.parent][path.name] = FOLDER if content is None else path.stat().st_ino

    def _kept(self, folder: Path, by_chance: Callable[[], bool]) -> list[tuple[Path, bytes | None]]:
        """What a folder holds after the loss, folders before what is in them; None is the content of a folder."""
        synced, there = self._names.get(folder, {}), _listing(folder)
        kept: list[tuple[Path, bytes | None]] = []
        for name in sorted(synced.keys() | there.keys()):
            number = synced.get(name)
            if number != there.get(name) and by_chance():
                number = there.get(name)
            path = folder / name
            if number == FOLDER:
                kept += [(path, None), *self._kept(path, by_chance)]
            elif number is not None:
                kept.append((path, self._content(path, number, by_chance)))
        return kept

    def _content(self, path: Path, number: int, by_chance: Callable[[], bool]) -> bytes:
        synced = self._contents.get(number, b"")
        return path.read_bytes() if _listing(path.parent).get(path.name) == number and by_chance() else synced

    def _told(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def told(*arguments: Any, **named: Any) -> Any:
            path = Path(os.fspath(arguments[-1] if name in ("link", "replace") else arguments[0]))
            if not named.get("dir_fd") and path.is_relative_to(self.root):
                self._effect(f"{name} {'*' if path in self._temporaries else path.relative_to(self.root)}")
            return real(*arguments, **named)

        return told

    def _synced(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def synced(handle: int) -> None:
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if not path.is_relative_to(self.root):
                return real(handle)
            self._effect(f"fsync {'*' if path in self._temporaries else path.relative_to(self.root)}")
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                self._names[path] = _listing(path)
            else:
                self._contents[os.fstat(handle).st_ino] = path.read_bytes()
            return None

        return synced

    def _removed(self, real: Callable[..., None]) -> Callable[..., None]:
        def removed(path: Any, *arguments: Any, **named: Any) -> None:
            if Path(path).is_relative_to(self.root):
                self._effect(f"rmtree {Path(path).relative_to(self.root)}")
            real(path, *arguments, **named)

        return removed

    def _made(self, real: Callable[..., tuple[int, str]]) -> Callable[..., tuple[int, str]]:
        def made(*arguments: Any, **named: Any) -> tuple[int, str]:
            if (folder := named.get("dir")) is not None and Path(folder).is_relative_to(self.root):
                self._effect(f"mkstemp {Path(folder).relative_to(self.root)}")
            handle, name = real(*arguments, **named)
            self._contents.pop(os.fstat(handle).st_ino, None)
            self._temporaries.add(Path(name))
            return handle, name

        return made


_rmtree = shutil.rmtree


def _listing(folder: Path) -> dict[str, int]:
    if not folder.is_dir():
        return {}
    return {path.name: FOLDER if path.is_dir() else path.stat().st_ino for path in folder.iterdir()}
