"""A range has one name, names tell ranges, and no name leaves the dataset's folder."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlake.names import FileKey, batch_directory, batch_id, parse_file_name, temporary_directory
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start

numbers = st.integers(1, 10**56 - 2)
shard_ids = st.from_regex(r"[a-zA-Z0-9_.-]{1,128}", fullmatch=True)


def range_of(
    start: int, through: int | None, shard_id: str = "shardId-000000000000", kind: str = "AFTER"
) -> SequenceRange:
    number = SequenceNumber(str(start))
    end = SHARD_END if through is None else SequenceNumber(str(through))
    return SequenceRange(shard_id, Start("AT" if kind == "AT" else "AFTER", number), end, number)


class TestFileKey:
    def test_the_path_is_the_shard_the_exclusive_start_and_the_end(self) -> None:
        folder, zeros = "data/shard_id=shardId-000000000000", "0" * 53
        assert FileKey.of(range_of(100, 200)).path == f"{folder}/{zeros}100-{zeros}200.parquet"
        assert FileKey.of(range_of(100, 200, kind="AT")).path == f"{folder}/{zeros}099-{zeros}200.parquet"
        assert FileKey.of(range_of(100, None)).path == f"{folder}/{zeros}100-SHARD_END.parquet"

    def test_the_marker_of_a_lost_range_lies_outside_the_data(self) -> None:
        marker = FileKey.of(range_of(100, 200)).lost_marker
        assert marker == f"_shardlake/lost/shard_id=shardId-000000000000/{'0' * 53}100-{'0' * 53}200.json"

    def test_the_quarantine_has_the_same_names_in_a_folder_of_its_own(self) -> None:
        key = FileKey.of(range_of(100, 200))
        assert key.quarantine == key.path.replace("data/", "quarantine/", 1)
        assert key.quarantine.rpartition("/")[0] == key.quarantine_directory

    @given(shard_ids, numbers, st.integers(1, 10**30), st.booleans())
    def test_comes_back_from_the_file_name(self, shard_id: str, start: int, length: int, ends: bool) -> None:
        through = None if ends else min(start + length, 10**56 - 1)
        key = FileKey.of(range_of(start, through, shard_id))
        assert parse_file_name(shard_id, PurePosixPath(key.path).name) == key

    @given(st.lists(numbers, min_size=2, unique=True))
    def test_names_sort_in_sequence_order(self, starts: list[int]) -> None:
        paths = [FileKey.of(range_of(start, start + 1)).path for start in sorted(starts)]
        assert sorted(paths) == paths

    @pytest.mark.parametrize("shard_id", ["", "../x", "a/b", "a\nb", "shardId-1\n", "é", "a" * 129, "a=b", "a b", "\0"])
    def test_a_shard_id_that_could_leave_the_folder_is_refused(self, shard_id: str) -> None:
        key = FileKey(shard_id, "0" * 56, "1" * 56)
        for name in ("path", "directory", "lost_marker", "quarantine", "quarantine_directory"):
            with pytest.raises(ValueError, match="not a shard id: " + re.escape(repr(shard_id[:140]))):
                getattr(key, name)

    @given(shard_ids)
    def test_no_shard_id_leaves_the_folder(self, shard_id: str) -> None:
        assert PurePosixPath(FileKey(shard_id, "0" * 56, "1" * 56).path).parts[:2] == ("data", f"shard_id={shard_id}")

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "x.parquet",
            f"{'0' * 56}-{'1' * 56}.parquet.crc",
            f".{'0' * 56}-{'1' * 56}.parquet",
            f"{'0' * 55}-{'1' * 56}.parquet",
            f"{'0' * 56}-{'1' * 57}.parquet",
            f"{'0' * 56}-shard_end.parquet",
            f"SHARD_END-{'1' * 56}.parquet",
            f"{'0' * 56}-{'1' * 56}.parquet\n",
            "\u0660" * 56 + "-" + "1" * 56 + ".parquet",
        ],
    )
    def test_other_names_are_not_ours(self, name: str) -> None:
        assert parse_file_name("shardId-000000000000", name) is None


class TestBatch:
    def test_the_id_is_readable_and_the_same_each_time(self) -> None:
        made = [batch_id("p", "live", "dag", "scheduled__2026-01-31T00:00:00+00:00") for _ in range(2)]
        assert made[0] == made[1]
        assert re.fullmatch(r"scheduled__2026-01-31T00-00-00-00-00-[0-9a-f]{12}", made[0])

    @given(st.tuples(*[st.text(max_size=20)] * 4), st.tuples(*[st.text(max_size=20)] * 4))
    def test_ids_of_different_runs_differ(
        self, one: tuple[str, str, str, str], other: tuple[str, str, str, str]
    ) -> None:
        without_nul = [tuple(part.replace("\0", "") for part in run) for run in (one, other)]
        assert (batch_id(*without_nul[0]) == batch_id(*without_nul[1])) == (without_nul[0] == without_nul[1])

    @given(st.text())
    def test_no_run_id_leaves_the_folder(self, run_id: str) -> None:
        made = batch_id("p", "live", "dag", run_id)
        assert re.fullmatch(r"[A-Za-z0-9_-]{13,93}", made)
        assert batch_directory(made) == f"_shardlake/batches/{made}"
        assert temporary_directory(made) == f"_shardlake/tmp/{made}"
