"""Bugs of publishing that the product does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardlake.lake import local, s3
from shardlake.lake.home import Home
from shardlake.lake.local import LocalHome
from shardlake.lake.s3 import S3Home
from shardlake.lake.s3_upload import ALWAYS
from shardlake.sinks.parquet import ParquetSink


def rename_over(patch: pytest.MonkeyPatch) -> None:
    def publish(self: Home, temporary: Path, key: str) -> bool:
        self.overwrite(temporary, key)
        temporary.touch()
        return True

    for home in (LocalHome, S3Home):
        patch.setattr(home, "publish", publish)


def put_unconditionally(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(s3, "IF_FREE", ALWAYS)


def visible_before_it_is_whole(patch: pytest.MonkeyPatch) -> None:
    def link(temporary: Path, target: Path) -> bool:
        content = temporary.read_bytes()
        for part in (content[: len(content) // 2], content):
            target.write_bytes(part)
            local._sync(target)
        local._sync(target.parent)
        return True

    patch.setattr(local, "_link", link)


def file_not_synced(patch: pytest.MonkeyPatch) -> None:
    right = local._sync
    patch.setattr(local, "_sync", lambda path: right(path) if path.is_dir() else None)


def folder_not_synced(patch: pytest.MonkeyPatch) -> None:
    right = local._sync
    patch.setattr(local, "_sync", lambda path: None if "shard_id=" in path.name else right(path))


def written_again(patch: pytest.MonkeyPatch) -> None:
    """That a file is there is not looked at, and publishing would not replace it: so it does."""
    right = ParquetSink.write

    def write(self: ParquetSink, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(self, "_is_published", lambda range_: False)
            return right(self, *arguments)

    rename_over(patch)
    patch.setattr(ParquetSink, "write", write)


def quarantine_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The data's footer says that a quarantine has to be there, and that is checked: so it is not, either."""
    for home in (LocalHome, S3Home):
        patch.setattr(home, "publish", _but_quarantine(home.publish))
    from shardlake.sinks import parquet

    patch.setattr(parquet, "check_quarantine", lambda *_: None)
    patch.setattr(LocalHome, "sync", lambda self, key: None)


def _but_quarantine(publish: Any) -> Any:
    return lambda self, temporary, key: key.startswith("quarantine/") or publish(self, temporary, key)


def temporary_files_left(patch: pytest.MonkeyPatch) -> None:
    from shardlake import planning
    from shardlake.sinks import parquet

    patch.setattr(LocalHome, "remove_directory", lambda self, key: None)
    for module in (planning, parquet):
        patch.setattr(module, "clear_away", lambda *_: None)
