"""A dataset in a folder of a local or mounted file system: published by hard links, which never replace a file."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from shardlake.errors import ConfigError, ShardlakeError, UnavailableError
from shardlake.lake.home import Home, text_of
from shardlake.names import CONTROL


class LocalHome(Home):
    """A dataset in a folder."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)

    def path(self, key: str) -> Path:
        """Where a key lies."""
        return self.root / key

    def url(self, key: str) -> str:
        return str(self.path(key))

    def check_writable(self) -> None:
        """Find out that the dataset can be written, leaving nothing behind: not even its folder is made."""
        with self.errors():
            control = self.path(CONTROL)
            there = next(folder for folder in (control, *control.parents) if folder.exists())
            try:
                with tempfile.TemporaryFile(dir=there):
                    pass
            except FileNotFoundError as exc:  # the folder is there, but takes no files: /proc and its like
                raise PermissionError(errno.EPERM, "takes no files", str(there)) from exc

    def read(self, key: str) -> str | None:
        with self.errors():
            try:
                return text_of(self.path(key).read_bytes(), self.url(key))
            except FileNotFoundError:
                return None

    def replace(self, key: str, text: str) -> None:
        with self.errors(), self._written(key, text) as temporary:
            temporary.replace(self.path(key))
            _sync(self.path(key).parent)

    def create(self, key: str, text: str) -> bool:
        with self.errors(), self._written(key, text) as temporary:
            return _link(temporary, self.path(key))

    def remove(self, key: str) -> None:
        with self.errors():
            self.path(key).unlink(missing_ok=True)

    @contextlib.contextmanager
    def temporary(self, directory_key: str) -> Iterator[Path]:
        with self.errors():
            directory = self.path(directory_key)
            if not directory.is_dir():
                directory.mkdir(parents=True, exist_ok=True)  # needs not outlive a loss of power
            handle, name = tempfile.mkstemp(dir=directory, prefix=_WRITING, suffix=".parquet")
            os.close(handle)
            temporary = Path(name)
            temporary.chmod(_READABLE)
            try:
                yield temporary
            finally:
                temporary.unlink(missing_ok=True)

    def publish(self, temporary: Path, key: str) -> bool:
        with self.errors():
            target = self.path(key)
            _sync(temporary)
            _make_directory(target.parent, self.root)
            return _link(temporary, target)

    def overwrite(self, temporary: Path, key: str) -> None:
        with self.errors():
            target = self.path(key)
            _sync(temporary)
            _make_directory(target.parent, self.root)
            temporary.replace(target)
            _sync(target.parent)

    def sync(self, directory_key: str) -> None:
        """Bring the names in a folder to disk, so that a commit in the ledger never outlives a file.

        Whoever published a file may have died between giving it its name and this.
        """
        with self.errors(), contextlib.suppress(FileNotFoundError):
            _sync(self.path(directory_key))

    def open(self, key: str) -> pa.NativeFile:
        return pa.OSFile(str(self.path(key)), "rb")

    def exists(self, key: str) -> bool:
        with self.errors():
            return self.path(key).exists()

    def size(self, key: str) -> int:
        with self.errors():
            return self.path(key).stat().st_size

    def names(self, directory_key: str, *, after: str = "", before: str | None = None) -> list[str]:
        with self.errors():
            try:
                names = [entry.name for entry in self.path(directory_key).iterdir()]
            except FileNotFoundError:
                return []
        return sorted(name for name in names if after < name and (before is None or name < before))

    def remove_directory(self, directory_key: str) -> None:
        shutil.rmtree(self.path(directory_key), ignore_errors=True)

    def remove_abandoned(self) -> None:
        """Remove files that a killed process left half written beside the control files, an hour ago or more."""
        with self.errors():
            for temporary in self.path(CONTROL).glob(f"{_WRITING}*"):
                with contextlib.suppress(FileNotFoundError):  # another one removed it
                    if time.time() - temporary.stat().st_mtime > _ABANDONED_S:
                        temporary.unlink()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise self._translated(exc) from exc

    @contextlib.contextmanager
    def _written(self, key: str, text: str) -> Iterator[Path]:
        _make_directory(self.path(key).parent, self.root)
        handle, name = tempfile.mkstemp(dir=self.path(CONTROL), prefix=_WRITING)
        temporary = Path(name)
        try:
            temporary.chmod(_READABLE)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _translated(self, exc: OSError) -> ShardlakeError:
        said = f"dataset {self.root}: {exc.strerror or exc}" + (f" ({exc.filename})" if exc.filename else "")
        if isinstance(exc, PermissionError | NotADirectoryError | FileExistsError | IsADirectoryError) or (
            exc.errno in _NOT_WRITABLE
        ):
            return ConfigError(said, todo="Give the dataset a folder that Airflow's and Spark's users can write")
        return UnavailableError(said, todo="Free the disk or mend it, then run the step again")


_READABLE = 0o644
"""Mode of published files: a lake is read by others than its writer (temporary files are made private)."""

_WRITING = ".writing-"
_ABANDONED_S = 3600

_NOT_WRITABLE = (errno.EROFS, errno.ENAMETOOLONG, errno.EOPNOTSUPP)  # the last: no hard links


def _link(temporary: Path, target: Path) -> bool:
    try:
        os.link(temporary, target)
        created = True
    except FileExistsError:
        created = False
    _sync(target.parent)  # also for another's file: it may be given as there from now on
    return created


def _make_directory(directory: Path, root: Path) -> None:
    """Make a folder of a dataset and those above it, each on disk before the next.

    Those within the dataset also where they are there: whoever made them may have died before they were on disk.
    """
    if root not in directory.parents and directory.is_dir():
        return
    _make_directory(directory.parent, root)
    if not directory.is_dir():
        directory.mkdir(exist_ok=True)
    _sync(directory.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
