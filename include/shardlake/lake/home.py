"""Where a dataset lives: a folder of a local or mounted file system.

Files become visible whole or not at all. A data file is created once and never changes; control files (plans, reports)
are replaced whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from shardlake.errors import ConfigError, ShardlakeError, UnavailableError
from shardlake.names import CONTROL


class LocalHome:
    """A dataset in a folder. Keys are paths relative to it, as `names` makes them.

    Every method raises `ConfigError` where the folder cannot be written or read, `UnavailableError` where the disk
    does not do its part (full, input/output error).
    """

    def __init__(self, root: str) -> None:
        self.root = Path(root)

    def path(self, key: str) -> Path:
        """Where a key lies."""
        return self.root / key

    def prepare(self) -> None:
        """Make the folder, and find out that it can be written, before anything else is."""
        with self._errors():
            control = self.path(CONTROL)
            _make_directory(control)
            with tempfile.TemporaryFile(dir=control):
                pass

    def read(self, key: str) -> str | None:
        """A control file's text, or None where there is none."""
        with self._errors():
            try:
                return self.path(key).read_text(encoding="utf-8")
            except FileNotFoundError:
                return None

    def replace(self, key: str, text: str) -> None:
        """Write a control file, whole, in place of the one that may be there."""
        with self._errors(), self._written(key, text) as temporary:
            temporary.replace(self.path(key))
            _sync(self.path(key).parent)

    def create(self, key: str, text: str) -> bool:
        """Write a control file if its name is free; whether it was."""
        with self._errors(), self._written(key, text) as temporary:
            return _link(temporary, self.path(key))

    def remove(self, key: str) -> None:
        """Remove a control file, if it is there."""
        with self._errors():
            self.path(key).unlink(missing_ok=True)

    @contextlib.contextmanager
    def temporary(self, directory_key: str) -> Iterator[Path]:
        """A new, empty file on the dataset's own disk, to be written and then published; gone afterwards."""
        with self._errors():
            directory = self.path(directory_key)
            _make_directory(directory)
            handle, name = tempfile.mkstemp(dir=directory, suffix=".parquet")
            os.close(handle)
            temporary = Path(name)
            temporary.chmod(_READABLE)
            try:
                yield temporary
            finally:
                temporary.unlink(missing_ok=True)

    def publish(self, temporary: Path, key: str) -> bool:
        """Make a finished file visible under its name, if that is free; whether it was.

        File and folder are on disk when this returns, so that a commit in the ledger never outlives the file.
        """
        with self._errors():
            target = self.path(key)
            _sync(temporary)
            _make_directory(target.parent)
            return _link(temporary, target)

    def size(self, key: str) -> int:
        """A file's size in bytes."""
        with self._errors():
            return self.path(key).stat().st_size

    def names(self, directory_key: str) -> list[str]:
        """The file names in a folder, sorted; none where the folder is not there."""
        with self._errors():
            try:
                return sorted(os.listdir(self.path(directory_key)))
            except FileNotFoundError:
                return []

    def remove_directory(self, directory_key: str) -> None:
        """Remove a folder of temporary files, if it is there."""
        shutil.rmtree(self.path(directory_key), ignore_errors=True)

    @contextlib.contextmanager
    def _written(self, key: str, text: str) -> Iterator[Path]:
        _make_directory(self.path(key).parent)
        handle, name = tempfile.mkstemp(dir=self.path(CONTROL), prefix=".writing-")
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

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise self._translated(exc) from exc

    def _translated(self, exc: OSError) -> ShardlakeError:
        said = f"dataset {self.root}: {exc.strerror or exc}" + (f" ({exc.filename})" if exc.filename else "")
        if isinstance(exc, PermissionError | NotADirectoryError | FileExistsError | IsADirectoryError) or (
            exc.errno in _NOT_WRITABLE
        ):
            return ConfigError(said, todo="Give the dataset a folder that Airflow's and Spark's users can write")
        return UnavailableError(said, todo="Free the disk or mend it, then run the step again")


_READABLE = 0o644
"""Mode of published files: a lake is read by others than its writer (temporary files are made private)."""

_NOT_WRITABLE = (errno.EROFS, errno.ENAMETOOLONG, errno.EOPNOTSUPP)  # the last: no hard links


def _link(temporary: Path, target: Path) -> bool:
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    _sync(target.parent)
    return True


def _make_directory(directory: Path) -> None:
    """Make a folder and those above it, each on disk before the next."""
    if directory.is_dir():
        return
    _make_directory(directory.parent)
    with contextlib.suppress(FileExistsError):
        directory.mkdir()
    _sync(directory.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
