"""Every place of a dataset: files become visible whole or not at all, once, and are found, read and listed alike."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.object_store import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from shardlake.lake.home import Home, open_home
from shardlake.plan import Storage
from support.lakes import BucketLake, Folder, Lake

DIRECTORY = "data/shard_id=shardId-0"
KEY = f"{DIRECTORY}/1-2.parquet"
OWNER = "_shardlake/owner.json"
TEMPORARY = "_shardlake/tmp/batch"
SESSION = boto3.Session(ACCESS_KEY_ID, SECRET_ACCESS_KEY)


@pytest.fixture(params=["folder", *(pytest.param(name, marks=pytest.mark.slow) for name in ("seaweedfs", "moto"))])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """An empty dataset, once in each place."""
    if request.param == "folder":
        return Folder(tmp_path / "deep" / "lake")
    bucket = request.getfixturevalue("object_store" if request.param == "seaweedfs" else "moto_store")
    lake: BucketLake = bucket.lake(f"deep/{uuid.uuid4()}")
    return lake


@pytest.fixture
def home(lake: Lake) -> Home:
    return open_home(lake.dataset, Storage(**lake.storage) if lake.storage else None, SESSION)


def publish(home: Home, content: bytes, key: str = KEY) -> bool:
    with home.temporary(TEMPORARY) as temporary:
        temporary.write_bytes(content)
        return home.publish(temporary, key)


def overwrite(home: Home, content: bytes, key: str = KEY) -> None:
    with home.temporary(TEMPORARY) as temporary:
        temporary.write_bytes(content)
        home.overwrite(temporary, key)


def fail_half_written(home: Home) -> None:
    with home.temporary(TEMPORARY) as temporary:
        temporary.write_bytes(b"half")
        raise RuntimeError


class TestPublish:
    def test_a_free_name_is_taken_and_the_temporary_file_gone(self, home: Home, lake: Lake) -> None:
        with home.temporary(TEMPORARY) as temporary:
            temporary.write_bytes(b"one")
            assert home.publish(temporary, KEY)
        assert not temporary.exists()
        assert lake.read(KEY) == b"one"
        assert lake.keys("") == [KEY]

    def test_a_taken_name_keeps_its_file(self, home: Home, lake: Lake) -> None:
        assert publish(home, b"one")
        assert not publish(home, b"two")
        assert lake.read(KEY) == b"one"
        assert lake.keys("") == [KEY]

    def test_a_name_is_free_again_once_its_file_is_removed(self, home: Home, lake: Lake) -> None:
        publish(home, b"one")
        home.remove(KEY)
        assert publish(home, b"two")
        assert lake.read(KEY) == b"two"

    @pytest.mark.parametrize("lake", ["folder", "seaweedfs"], indirect=True)  # moto's conditions are not atomic
    def test_of_many_at_once_one_takes_the_name(self, home: Home, lake: Lake) -> None:
        contents = [b"%d" % n * 1000 for n in range(16)]
        with ThreadPoolExecutor(16) as pool:
            taken = list(pool.map(lambda content: publish(home, content), contents))
        assert taken.count(True) == 1
        assert lake.read(KEY) == contents[taken.index(True)]
        assert lake.keys("") == [KEY]

    def test_an_error_while_writing_publishes_nothing_and_leaves_nothing(self, home: Home, lake: Lake) -> None:
        with pytest.raises(RuntimeError):
            fail_half_written(home)
        assert lake.keys("") == []

    def test_an_empty_file_is_a_file(self, home: Home) -> None:
        assert publish(home, b"")
        assert (home.exists(KEY), home.size(KEY)) == (True, 0)
        with home.open(KEY) as file:
            assert file.read() == b""


class TestOverwrite:
    def test_replaces_a_file_whole(self, home: Home, lake: Lake) -> None:
        publish(home, b"one, which is longer")
        overwrite(home, b"two")
        assert lake.read(KEY) == b"two"
        assert lake.keys("") == [KEY]

    def test_makes_a_file_that_is_not_there(self, home: Home, lake: Lake) -> None:
        overwrite(home, b"two")
        assert lake.read(KEY) == b"two"
        assert lake.keys("") == [KEY]

    def test_leaves_the_file_when_the_new_one_is_not_finished(self, home: Home, lake: Lake) -> None:
        publish(home, b"one")
        with pytest.raises(RuntimeError):
            fail_half_written(home)
        assert lake.read(KEY) == b"one"


class TestControlFiles:
    def test_replace_writes_and_writes_again(self, home: Home, lake: Lake) -> None:
        home.replace("_shardlake/a/plan.json", "one ö")
        home.replace("_shardlake/a/plan.json", "two ö")
        assert home.read("_shardlake/a/plan.json") == "two ö"
        assert lake.keys("") == ["_shardlake/a/plan.json"]

    def test_create_writes_once(self, home: Home, lake: Lake) -> None:
        assert home.create(OWNER, "one")
        assert not home.create(OWNER, "two")
        assert home.read(OWNER) == "one"
        assert lake.keys("") == [OWNER]

    def test_a_missing_one_reads_as_none_and_is_removed_without_a_word(self, home: Home) -> None:
        assert home.read(OWNER) is None
        home.remove(OWNER)

    def test_remove_removes(self, home: Home) -> None:
        home.replace(OWNER, "{}")
        home.remove(OWNER)
        assert home.read(OWNER) is None
        assert not home.exists(OWNER)

    def test_check_writable_leaves_nothing_behind(self, home: Home, lake: Lake) -> None:
        home.check_writable()
        home.check_writable()
        assert lake.keys("") == []
        assert home.names("_shardlake") == []
        assert not isinstance(lake, BucketLake) or lake.uploads() == []


class TestFinding:
    def test_exists_is_of_the_whole_name(self, home: Home) -> None:
        publish(home, b"one")
        assert home.exists(KEY)
        assert not home.exists(KEY[:-1])
        assert not home.exists(f"{KEY}x")

    def test_size_is_in_bytes(self, home: Home) -> None:
        publish(home, b"one".ljust(1000))
        assert home.size(KEY) == 1000

    def test_url_says_where_a_key_lies(self, home: Home, lake: Lake) -> None:
        assert home.url(KEY) == f"{lake.dataset}/{KEY}"

    def test_a_file_is_read_at_random(self, home: Home, lake: Lake) -> None:
        content = bytes(itertools.islice(itertools.cycle(range(251)), 200_000))
        lake.write(KEY, content)
        with home.open(KEY) as file:
            assert file.size() == 200_000
            for begin, length in (
                (199_990, 10),
                (199_990, 20),
                (0, 5),
                (134_460, 9),
                (134_463, 1),
                (134_464, 5),
                (134_470, 70_000),
                (200_000, 1),
            ):
                file.seek(begin)
                assert file.read(length) == content[begin : begin + length]
            file.seek(10)
            assert file.read() == content[10:]

    def test_parquet_is_read_from_it(self, home: Home) -> None:
        table = pa.table({"n": range(100_000), "text": [f"{n * 7919 % 100_003}" for n in range(100_000)]})
        with home.temporary(TEMPORARY) as temporary:
            pq.write_table(table, temporary, row_group_size=10_000)
            assert temporary.stat().st_size > 2**17
            home.publish(temporary, KEY)
        with home.open(KEY) as file:
            assert pq.read_metadata(file).num_rows == 100_000
        with home.open(KEY) as file:
            assert pq.ParquetFile(file).read() == table

    def test_a_missing_file_is_told_by_its_own_error(self, home: Home) -> None:
        with pytest.raises(FileNotFoundError) as caught:
            home.open(KEY)
        assert caught.value.errno is not None  # other `OSError`s of Arrow's tell of bytes that it cannot decode


@pytest.fixture
def listed(home: Home, lake: Lake) -> Home:
    """A folder of five files and two folders, beside others whose names begin alike."""
    for name in ("1-2", "2-4", "4-5", "5-9", "9-END", "sub/x", "sub/y", "tail/deep/x"):
        lake.write(f"{DIRECTORY}/{name}", b"")
    lake.write(f"{DIRECTORY}0/3-4", b"")
    lake.write("data/3-4", b"")
    return home


class TestNames:
    def test_of_a_missing_folder_are_none(self, home: Home) -> None:
        assert home.names("data") == []

    def test_are_those_of_files_and_folders_sorted(self, listed: Home) -> None:
        assert listed.names(DIRECTORY) == ["1-2", "2-4", "4-5", "5-9", "9-END", "sub", "tail"]
        assert listed.names("data") == ["3-4", "shard_id=shardId-0", "shard_id=shardId-00"]
        assert listed.names(f"{DIRECTORY}/") == listed.names(DIRECTORY)

    @pytest.mark.parametrize(
        ("after", "before", "names"),
        [
            ("2", "5", ["2-4", "4-5"]),
            ("2-4", "5-9", ["4-5"]),
            ("2", "4-5", ["2-4"]),
            ("5", "END", ["5-9", "9-END"]),
            ("0", "1", []),
            ("x", "y", []),
            ("", "2", ["1-2"]),
            ("9", None, ["9-END", "sub", "tail"]),
            ("sub", None, ["tail"]),
        ],
    )
    @pytest.mark.parametrize("page_keys", [1, 2, 50])
    def test_between_two_others(
        self,
        listed: Home,
        monkeypatch: pytest.MonkeyPatch,
        after: str,
        before: str | None,
        names: list[str],
        page_keys: int,
    ) -> None:
        monkeypatch.setattr("shardlake.lake.s3.BOUNDED_PAGE_KEYS", page_keys)
        assert listed.names(DIRECTORY, after=after, before=before) == names

    def test_are_all_of_them_over_all_pages(self, listed: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shardlake.lake.s3.PAGE_KEYS", 2)
        assert listed.names(DIRECTORY) == ["1-2", "2-4", "4-5", "5-9", "9-END", "sub", "tail"]


@pytest.mark.parametrize("odd", ["a b", "ümläut 😀", "per%20cent%", "plus+&=;'\"<>", "[glob]*{x}", "~.-_!()@:,$"])
@pytest.mark.parametrize("lake", ["folder", "seaweedfs", "moto"], indirect=True)
def test_odd_characters_in_the_datasets_name_change_nothing(lake: Lake, tmp_path: Path, odd: str) -> None:
    named: Lake = lake.bucket.lake(f"{lake.prefix}/{odd}") if isinstance(lake, BucketLake) else Folder(tmp_path / odd)
    home = open_home(named.dataset, Storage(**named.storage) if named.storage else None, SESSION)
    assert (publish(home, b"one"), publish(home, b"two")) == (True, False)
    assert home.create(OWNER, "ö")
    assert (home.read(OWNER), home.names("data"), home.names(DIRECTORY)) == ("ö", [DIRECTORY[5:]], [KEY[-11:]])
    assert (home.exists(KEY), home.size(KEY)) == (True, 3)
    with home.open(KEY) as file:
        assert file.read() == b"one"
    assert named.keys("") == [OWNER, KEY]
    home.remove_abandoned()


@pytest.fixture(autouse=True)
def _nothing_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test does, the machine's temporary folder is as it was."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []
