"""Where a dataset lives: what planning, publishing and auditing ask of the place, whatever it is.

Files become visible whole or not at all. A data file is created once and never changes; control files (plans, reports)
are replaced whole. Keys are paths relative to the dataset, as `names` makes them.

Places: `local` (a folder of a local or mounted file system), `s3` (a prefix of a bucket). `open_home` picks one by the
dataset's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from shardlake.errors import ConflictError
from shardlake.plan import Storage

if TYPE_CHECKING:
    import boto3


class Home(ABC):
    """The contract. One suite of tests (`tests/contracts/test_home.py`) runs over every place.

    Every method but `open` raises `ConfigError` where the place cannot be read or written as configured, and
    `UnavailableError` where it does not do its part (disk full, service away): the same call again may help.
    """

    @abstractmethod
    def url(self, key: str) -> str:
        """Where a key lies, for people and other readers."""

    @abstractmethod
    def check_writable(self) -> None:
        """Find out that the dataset can be written, leaving nothing behind."""

    @abstractmethod
    def read(self, key: str) -> str | None:
        """A control file's text, or None where there is none.

        Raises:
            ConflictError: it is not text.
        """

    @abstractmethod
    def replace(self, key: str, text: str) -> None:
        """Write a control file, whole, in place of the one that may be there."""

    @abstractmethod
    def create(self, key: str, text: str) -> bool:
        """Write a control file if its name is free; whether it was.

        Where a reply can be lost, a file with the same text counts as written.
        """

    @abstractmethod
    def remove(self, key: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def temporary(self, directory_key: str) -> AbstractContextManager[Path]:
        """A new, empty local file, to be written and then published; gone afterwards.

        Args:
            directory_key: where it lies while it is written, if the dataset is on this machine's file system.
        """

    @abstractmethod
    def publish(self, temporary: Path, key: str) -> bool:
        """Make a finished file visible under its name, if that is free; whether it was.

        A write whose reply was lost finds its own file there: False, as where another one's is.
        """

    @abstractmethod
    def overwrite(self, temporary: Path, key: str) -> None:
        """Put a finished file in the place of the one that may be there: readers see the one or the other, whole.

        For repairs only; everybody else publishes.
        """

    @abstractmethod
    def sync(self, directory_key: str) -> None:
        """See to it that the names in a folder last, if it is there: no commit in the ledger outlives a file so."""

    @abstractmethod
    def open(self, key: str) -> pa.NativeFile:
        """A data file for random access; a context manager.

        Raises:
            FileNotFoundError: it is not there.
            OSError: it cannot be read; `errors` translates it.
            ConfigError, UnavailableError: the same, where the place tells the two apart.
        """

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Whether a name is taken."""

    @abstractmethod
    def size(self, key: str) -> int:
        """A file's size in bytes."""

    @abstractmethod
    def names(self, directory_key: str, *, after: str = "", before: str | None = None) -> list[str]:
        """The names of files and folders in a folder, sorted; none where the folder is not there.

        Args:
            after: only names that sort behind this one.
            before: only names that sort before this one. What is asked for is what is listed, where that costs calls.
        """

    @abstractmethod
    def remove_directory(self, directory_key: str) -> None:
        """Remove a folder of temporary files, if it is there."""

    @abstractmethod
    def remove_abandoned(self) -> None:
        """Remove what killed processes left half written, once nobody can be at work on it any more."""

    @abstractmethod
    def errors(self) -> AbstractContextManager[None]:
        """Translates what the place says while an opened file is read.

        Raises:
            ConfigError: the dataset cannot be written or read as configured.
            UnavailableError: the place does not do its part.
        """


def text_of(content: bytes, url: str) -> str:
    """The text of a control file.

    Raises:
        ConflictError: it is none.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise ConflictError(f"{url} is not text", todo="Restore it: something else wrote to the dataset") from exc


def files_of_shards(home: Home, place: str) -> Iterator[str]:
    """The keys of what lies in the folders of shards below a place, and of whatever lies beside these folders."""
    for folder in home.names(place):
        if folder.startswith("shard_id="):
            yield from (f"{place}/{folder}/{name}" for name in home.names(f"{place}/{folder}"))
        else:
            yield f"{place}/{folder}"


def open_home(dataset: str, storage: Storage | None = None, session: boto3.Session | None = None) -> Home:
    """The home of a dataset, by its name. Nothing is asked of the place yet.

    Args:
        storage: for a dataset on S3, how it is reached.
        session: a boto3 session with other credentials than the default chain's, for a dataset on S3.
    """
    if storage is None:
        from shardlake.lake.local import LocalHome

        return LocalHome(dataset)
    from shardlake.lake.s3 import S3Home

    return S3Home(dataset, storage, session)
