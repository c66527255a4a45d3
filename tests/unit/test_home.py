"""A dataset in a folder: what is visible is on disk, what the disk says is told. All else: `contracts/test_home.py`."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlake.errors import ConfigError, ShardlakeError, UnavailableError
from shardlake.lake.local import LocalHome

KEY = "data/shard_id=shardId-0/1-2.parquet"
TEMPORARY = "_shardlake/tmp/batch"


@pytest.fixture
def home(tmp_path: Path) -> LocalHome:
    return LocalHome(str(tmp_path / "deep" / "lake"))


def publish(home: LocalHome, content: bytes, key: str = KEY) -> bool:
    with home.temporary(TEMPORARY) as temporary:
        temporary.write_bytes(content)
        return home.publish(temporary, key)


def files(home: LocalHome) -> list[str]:
    return sorted(str(path.relative_to(home.root)) for path in home.root.rglob("*") if path.is_file())


class TestPublish:
    def test_others_may_read_what_is_published(self, home: LocalHome) -> None:
        publish(home, b"one")
        home.replace("_shardlake/plan.json", "{}")
        for key in (KEY, "_shardlake/plan.json"):
            assert stat.S_IMODE(home.path(key).stat().st_mode) == 0o644


@pytest.fixture
def effects(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is done to the disk, in order: ("sync", path), ("link", path), ("rename", path), ("mkdir", path)."""
    done: list[tuple[str, str]] = []
    link, fsync, replace, mkdir = os.link, os.fsync, Path.replace, Path.mkdir

    def recorded(kind: str, path: Path, act: Callable[[], object]) -> object:
        result = act()
        done.append((kind, path.suffix or path.name))
        return result

    def linked(source: Path, target: Path) -> None:
        recorded("link", Path(target), lambda: link(source, target))

    def synced(handle: int) -> None:
        recorded("sync", Path(f"/proc/self/fd/{handle}").readlink(), lambda: fsync(handle))

    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", lambda p, target: recorded("rename", target, lambda: replace(p, target)))
    monkeypatch.setattr(Path, "mkdir", lambda p, *a, **k: recorded("mkdir", p, lambda: mkdir(p, *a, **k)))
    return done


FOLDERS_OF_DATA = [("sync", "lake"), ("sync", "data")]
"""Whoever made them may have been killed before their names were on disk."""


def but_mkdir(effects: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [effect for effect in effects if effect[0] != "mkdir"]


class TestPowerLoss:
    def test_the_file_is_on_disk_before_it_has_its_name_and_the_name_before_publish_returns(
        self, home: LocalHome, effects: list[tuple[str, str]]
    ) -> None:
        publish(home, b"one")
        effects.clear()
        publish(home, b"two", KEY.replace("1-2", "2-3"))
        named = [("link", ".parquet"), ("sync", "shard_id=shardId-0")]
        assert but_mkdir(effects) == [("sync", ".parquet"), *FOLDERS_OF_DATA, *named]

    def test_a_new_folder_is_on_disk_before_a_file_is_in_it(
        self, home: LocalHome, effects: list[tuple[str, str]]
    ) -> None:
        publish(home, b"one")
        begin = effects.index(("mkdir", "data"))
        assert effects[begin:] == [
            *(("mkdir", "data"), ("sync", "lake")),
            *(("mkdir", "shard_id=shardId-0"), ("sync", "data")),
            *(("link", ".parquet"), ("sync", "shard_id=shardId-0")),
        ]

    def test_folders_that_another_one_made_are_on_disk_before_a_file_is_in_them(
        self, home: LocalHome, effects: list[tuple[str, str]]
    ) -> None:
        """Kills: a folder that is there taken for one that a loss of power leaves."""
        home.path(KEY).parent.mkdir(parents=True)
        effects.clear()
        publish(home, b"one")
        done = but_mkdir(effects)
        assert [effect for effect in done if effect in FOLDERS_OF_DATA] == FOLDERS_OF_DATA
        assert done.index(("sync", "data")) < done.index(("link", ".parquet"))

    def test_another_ones_name_is_on_disk_too_before_it_is_adopted(
        self, home: LocalHome, effects: list[tuple[str, str]]
    ) -> None:
        home.path(KEY).parent.mkdir(parents=True)
        home.path(KEY).touch()
        effects.clear()
        assert not publish(home, b"two")
        assert effects[-1] == ("sync", "shard_id=shardId-0")

    def test_a_control_file_is_on_disk_before_it_takes_the_others_place(
        self, home: LocalHome, effects: list[tuple[str, str]]
    ) -> None:
        home.replace("_shardlake/plan.json", "1")
        effects.clear()
        home.replace("_shardlake/plan.json", "2")
        folder, (kind, _), *named = but_mkdir(effects)
        assert folder == ("sync", "lake")
        assert kind == "sync"
        assert named == [("rename", ".json"), ("sync", "_shardlake")]

    def test_a_file_that_takes_anothers_place_is_on_disk_before_and_its_name_after(
        self, home: LocalHome, effects: list[tuple[str, str]]
    ) -> None:
        publish(home, b"one")
        effects.clear()
        with home.temporary(TEMPORARY) as temporary:
            temporary.write_bytes(b"two")
            home.overwrite(temporary, KEY)
        named = [("rename", ".parquet"), ("sync", "shard_id=shardId-0")]
        assert but_mkdir(effects) == [("sync", ".parquet"), *FOLDERS_OF_DATA, *named]


class TestControlFiles:
    def test_half_written_ones_of_killed_processes_are_removed_after_an_hour(self, home: LocalHome) -> None:
        home.replace("_shardlake/owner.json", "{}")
        for name, age_s in (("old", 4000), ("young", 0)):
            half_written = home.path(f"_shardlake/.writing-{name}")
            half_written.touch()
            os.utime(half_written, (time.time() - age_s,) * 2)
        home.remove_abandoned()
        assert files(home) == ["_shardlake/.writing-young", "_shardlake/owner.json"]


class TestWhatTheDiskSays:
    @pytest.mark.parametrize(
        ("number", "error", "todo"),
        [
            (errno.ENOSPC, UnavailableError, "Free the disk or mend it"),
            (errno.EDQUOT, UnavailableError, "Free the disk or mend it"),
            (errno.EIO, UnavailableError, "Free the disk or mend it"),
            (errno.ESTALE, UnavailableError, "Free the disk or mend it"),
            (errno.EROFS, ConfigError, "Give the dataset a folder"),
            (errno.EACCES, ConfigError, "Give the dataset a folder"),
            (errno.EPERM, ConfigError, "Give the dataset a folder"),
            (errno.EOPNOTSUPP, ConfigError, "Give the dataset a folder"),
        ],
    )
    def test_becomes_an_error_that_says_what_to_do_and_nothing_is_published(
        self,
        home: LocalHome,
        monkeypatch: pytest.MonkeyPatch,
        number: int,
        error: type[ShardlakeError],
        todo: str,
    ) -> None:
        def refuse(source: Path, target: Path) -> None:
            raise OSError(number, os.strerror(number), str(target))

        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(error, match=f"dataset {home.root}: {os.strerror(number)}.*{todo}"):
            publish(home, b"one")
        assert files(home) == []

    def test_a_full_disk_while_the_file_is_brought_to_it_publishes_nothing(
        self, home: LocalHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(home, b"one")

        def full(handle: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UnavailableError, match="No space left on device"):
            publish(home, b"two", KEY.replace("1-2", "2-3"))
        assert files(home) == [KEY]

    def test_an_error_of_the_writer_is_one_of_the_disk(self, home: LocalHome) -> None:
        with pytest.raises(UnavailableError, match="No space left on device"), home.temporary(TEMPORARY):
            raise OSError(errno.ENOSPC, "No space left on device")

    @pytest.mark.parametrize("there", ["deep", "deep/lake", "deep/lake/_shardlake"])
    def test_a_file_in_a_folders_place_is_a_configuration_error(
        self, home: LocalHome, tmp_path: Path, there: str
    ) -> None:
        (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / there).touch()
        with pytest.raises(ConfigError, match="Give the dataset a folder"):
            home.check_writable()
        with pytest.raises(ConfigError, match="Give the dataset a folder"):
            home.replace("_shardlake/plan.json", "{}")


class TestCheckWritable:
    def test_leaves_nothing_behind(self, home: LocalHome, tmp_path: Path) -> None:
        home.check_writable()
        assert list(tmp_path.iterdir()) == []
        home.root.mkdir(parents=True)
        home.check_writable()
        assert list(home.root.iterdir()) == []

    @pytest.mark.parametrize("made", ["deep", "deep/lake/_shardlake"])
    def test_a_folder_of_others_is_refused(self, tmp_path: Path, made: str) -> None:
        (tmp_path / made).mkdir(parents=True)
        for folder in (tmp_path / made, *(tmp_path / made).parents):
            if folder == tmp_path.parents[2]:
                break
            folder.chmod(0o755)
        assert refused_as_nobody(tmp_path / "deep" / "lake")


def refused_as_nobody(root: Path) -> bool:
    """Whether a process without rights is refused; root would be let everywhere."""
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            else:
                for folder in (root, root.parent):
                    if folder.exists():
                        folder.chmod(0o555)
            LocalHome(str(root)).check_writable()
        except ConfigError:
            os._exit(3)
        finally:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
