"""A range as a Parquet file: the same bytes however the pages come, and a footer that tells a complete file."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardlake
from shardlake.errors import ConflictError
from shardlake.kinesis.page import Page
from shardlake.kinesis.user_records import as_they_are
from shardlake.lake import parquet
from shardlake.lake.footer import Footer, checksum_of_file, read_footer
from shardlake.lake.local import LocalHome
from shardlake.lake.parquet import pieces, row_groups, write_range
from shardlake.lake.rows import SCHEMA
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start

FIRST = 49 * 10**54
STREAM = Stream("clicks", "arn:aws:kinesis:eu-west-1:123456789012:stream/clicks", 17, 86_400_000, "eu-west-1", None)


def range_of(count: int) -> SequenceRange:
    first = SequenceNumber(str(FIRST))
    return SequenceRange("shardId-0", Start("AT", first), first.plus(max(count, 1) - 1), first)


def plan_of(range_: SequenceRange) -> BatchPlan:
    return BatchPlan("b", "p", "live", Run("d", "r"), STREAM, "/lake", "ledger", 1, False, ((range_,),))


def pages_of(data: list[bytes], sizes: list[int]) -> Iterator[Page]:
    """The records as pages, whose sizes are taken in turn."""
    begin = turn = 0
    while begin < len(data):
        end = min(begin + sizes[turn % len(sizes)], len(data))
        rows = range(begin, end)
        numbers = [str(FIRST + row) for row in rows]
        yield Page(numbers, [f"k{row % 7}" for row in rows], list(rows), data[begin:end], "iterator", 1, 0)
        begin, turn = end, turn + 1


def write(path: Path, data: list[bytes], sizes: list[int]) -> bytes:
    with tempfile.NamedTemporaryFile() as aside:
        range_ = range_of(len(data))
        write_range(path, Path(aside.name), plan_of(range_), range_, pages_of(data, sizes))
    return path.read_bytes()


class TestTheSameBytes:
    def test_whatever_the_sizes_of_pages(self, tmp_path: Path) -> None:
        source = random.Random(1)
        data = [source.randbytes(source.randint(0, 1500)) for _ in range(5000)]
        whole = write(tmp_path / "whole", data, [5000])
        assert len(whole) > 3 * 2**20  # several data pages
        for sizes in ([1000], [333, 1], [7, 250, 41], [1]):
            assert write(tmp_path / "other", data, sizes) == whole

    def test_also_with_large_records_and_several_row_groups(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 3 * 2**20)
        source = random.Random(2)
        data = [source.randbytes(source.choice([10, 2**20, 4 * 2**20])) for _ in range(24)]
        whole = write(tmp_path / "whole", data, [24])
        assert pq.read_metadata(tmp_path / "whole").num_row_groups > 5
        for sizes in ([1], [5], [2, 3]):
            assert write(tmp_path / "other", data, sizes) == whole


class TestRowGroups:
    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.integers(0, 12), max_size=60), st.lists(st.integers(1, 9), min_size=1, max_size=5))
    def test_are_cut_by_the_rows_alone(self, lengths: list[int], sizes: list[int]) -> None:
        data = [b"x" * length for length in lengths]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parquet, "ROW_GROUP_ROWS", 8)
            patch.setattr(parquet, "ROW_GROUP_BYTES", 20)
            patch.setattr(parquet, "PIECE_ROWS", 3)
            patch.setattr(parquet, "PIECE_BYTES", 9)
            groups = list(row_groups_of(pages_of(data, sizes)))
        cuts = [[list(map(len, piece.to_pylist())) for piece in group["data"].iterchunks()] for group in groups]
        assert cuts == row_groups_by_hand(pieces_by_hand(lengths))
        numbers = [number for group in groups for number in group["sequence_number"].to_pylist()]
        assert numbers == [str(FIRST + row) for row in range(len(data))]

    def test_a_row_larger_than_a_row_group_has_one_of_its_own(self, tmp_path: Path) -> None:
        data = [b"a", b"x" * (parquet.ROW_GROUP_BYTES + 1), b"b"]
        write(tmp_path / "file", data, [3])
        metadata = pq.read_metadata(tmp_path / "file")
        assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [1, 1, 1]

    def test_pages_without_records_do_not_matter(self) -> None:
        empty = Page([], [], [], [], "iterator", 1, 0)
        (group,) = row_groups_of([empty, *pages_of([b"x"], [1]), empty])
        assert group.num_rows == 1

    def test_what_waits_leaves_no_file_and_no_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Kills: a file with a name, which a killed worker would leave behind; rows that wait in memory."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        waiting = row_groups_of(pages_of([b"x" * 1000] * 40_000, [1000]))
        before = pa.total_allocated_bytes()
        group = next(waiting)
        assert group.num_rows > 16_000
        assert pa.total_allocated_bytes() - before < 4 * 2**20
        assert list(tmp_path.iterdir()) == []
        rest = [each.num_rows for each in waiting]
        assert group.num_rows + sum(rest) == 40_000
        assert set(group["data"].to_pylist()) == {b"x" * 1000}  # while others came in

    def test_a_range_is_read_on_while_the_row_group_of_another_is_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Kills: waiting for another's row group with a page in hand, while shards give less than their limits."""
        data, begun = [b"x" * 100_000] * 600, []

        def pages() -> Iterator[Page]:
            for page in pages_of(data, [10]):
                begun.append(page)
                yield page

        lock, range_, until_s = threading.Lock(), range_of(len(data)), time.monotonic() + 20
        monkeypatch.setattr(parquet, "_ONE_AT_A_TIME", lock)
        with ThreadPoolExecutor(1) as pool:
            with lock:
                writing = pool.submit(
                    write_range, tmp_path / "file", tmp_path / "aside", plan_of(range_), range_, pages()
                )
                while len(begun) < 30:  # the first row group is of 16 pages, the second of as many
                    assert time.monotonic() < until_s
                    time.sleep(0.01)
                time.sleep(0.2)
                assert len(begun) < 40
            writing.result(30)
        assert (tmp_path / "file").read_bytes() == write(tmp_path / "alone", data, [10])

    def test_a_full_disk_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Kills: a message that names the dataset's disk only, which may have room."""
        monkeypatch.setattr(tempfile, "TemporaryFile", partial(open, "/dev/full", "w+b"))
        with pytest.raises(OSError, match=f"No space left on device: '{tempfile.gettempdir()}'"):
            write(tmp_path / "file", [b"x" * 100_000] * 100, [10])


def row_groups_of(pages: Iterable[Page]) -> Iterator[pa.Table]:
    groups = row_groups(pieces(map(as_they_are, pages), "clicks"))
    return (group for group in groups if group is not None)


def pieces_by_hand(lengths: list[int]) -> list[list[int]]:
    """Pieces of at most 3 rows and 9 bytes, but of at least one row."""
    pieces: list[list[int]] = []
    for length in lengths:
        if not pieces or len(pieces[-1]) == 3 or sum(pieces[-1]) + length > 9:
            pieces.append([])
        pieces[-1].append(length)
    return pieces


def row_groups_by_hand(pieces: list[list[int]]) -> list[list[list[int]]]:
    """Row groups of at most 8 rows and 20 bytes, but of at least one piece."""
    groups: list[list[list[int]]] = []
    for piece in pieces:
        rows = [*chain(*groups[-1]), *piece] if groups else []
        if not groups or len(rows) > 8 or sum(rows) > 20:
            groups.append([])
        groups[-1].append(piece)
    return groups


class TestFooter:
    def test_says_what_the_file_holds(self, tmp_path: Path) -> None:
        range_ = range_of(3)
        footer = write_range(
            tmp_path / "file", tmp_path / "aside", plan_of(range_), range_, pages_of([b"a", b"bb", b""], [2])
        )
        assert footer == Footer(
            pipeline="p",
            stream_arn=STREAM.arn,
            stream_created_at_ms=17,
            shard_id="shardId-0",
            start=f"AT {FIRST}",
            through=str(FIRST + 2),
            rows=3,
            data_bytes=3,
            checksum=checksum_of_file(LocalHome(str(tmp_path)), "file").hexdigest(),
            layout=1,
            version=shardlake.__version__,
            records=3,
        )
        assert read_footer(LocalHome(str(tmp_path)), "file") == footer

    def test_one_from_before_aggregates_were_unpacked_says_that_none_was(self, tmp_path: Path) -> None:
        """Kills: the new keys required of every file."""
        later = ("aggregates", "records", "quarantined", "dropped", "quarantine_checksum")
        write(tmp_path / "new", [b"x"] * 3, [3])
        stored = pq.read_metadata(tmp_path / "new").metadata
        old = {key: value for key, value in stored.items() if key.decode().removeprefix("shardlake.") not in later}
        pq.write_table(pq.read_table(tmp_path / "new").replace_schema_metadata(old), tmp_path / "old")
        footer = read_footer(LocalHome(str(tmp_path)), "old")
        found = [getattr(footer, name) for name in later]
        assert (footer.rows, found) == (3, [None, None, 0, 0, None])

    def test_one_with_only_some_of_the_later_keys_is_damage(self, tmp_path: Path) -> None:
        """Kills: each missing key taken for its default, so that a quarantine is forgotten with its key."""
        write(tmp_path / "new", [b"x"] * 3, [3])
        stored = pq.read_metadata(tmp_path / "new").metadata
        some = {key: value for key, value in stored.items() if key != b"shardlake.quarantined"}
        pq.write_table(pq.read_table(tmp_path / "new").replace_schema_metadata(some), tmp_path / "some")
        with pytest.raises(ConflictError, match="some is damaged"):
            read_footer(LocalHome(str(tmp_path)), "some")

    def test_a_range_without_records_is_a_file_without_rows(self, tmp_path: Path) -> None:
        range_ = SequenceRange("shardId-0", Start("AT", SequenceNumber("7")), SHARD_END, None)
        footer = write_range(tmp_path / "file", tmp_path / "aside", plan_of(range_), range_, [])
        assert (footer.rows, footer.through, footer.data_bytes) == (0, "SHARD_END", 0)
        assert read_footer(LocalHome(str(tmp_path)), "file") == footer
        assert pq.read_table(tmp_path / "file").schema.names == SCHEMA.names
        assert checksum_of_file(LocalHome(str(tmp_path)), "file").hexdigest() == footer.checksum

    def test_null_stays_null_and_columns_keep_their_kinds(self, tmp_path: Path) -> None:
        write(tmp_path / "file", [b"x"], [1])
        table = pq.read_table(tmp_path / "file", partitioning=None)
        assert table.schema.equals(SCHEMA)
        assert table.column("explicit_hash_key").null_count == 1

    @pytest.mark.parametrize("pages", [0, 1, 3])
    def test_an_error_from_the_pages_leaves_none(self, tmp_path: Path, pages: int) -> None:
        data = [random.Random(3).randbytes(1000)] * 3000

        def broken() -> Iterator[Page]:
            for number, page in enumerate(pages_of(data, [1000])):
                if number == pages:
                    break
                yield page
            raise RuntimeError("the stream broke")

        path = tmp_path / "file"
        with pytest.raises(RuntimeError, match="the stream broke"):
            write_range(path, tmp_path / "aside", plan_of(range_of(3000)), range_of(3000), broken())
        with pytest.raises(pa.ArrowInvalid):
            pq.read_metadata(path)
        with pytest.raises(ConflictError, match="is damaged, or was not written by Shardlake"):
            read_footer(LocalHome(str(path.parent)), path.name)

    def test_a_full_disk_is_an_error_of_the_system(self) -> None:
        with pytest.raises(OSError, match="No space left on device"):
            write(Path("/dev/full"), [b"x"], [1])

    def test_a_file_cut_short_anywhere_has_none(self, tmp_path: Path) -> None:
        whole = write(tmp_path / "file", [b"x" * 100] * 50, [50])
        for size in [*range(0, len(whole), 97), len(whole) - 1]:
            (tmp_path / "short").write_bytes(whole[:size])
            with pytest.raises(ConflictError, match="short is damaged, or was not written by Shardlake"):
                read_footer(LocalHome(str(tmp_path)), "short")

    def test_flipped_bits_are_damage_or_do_not_reach_it(self, tmp_path: Path) -> None:
        whole = write(tmp_path / "file", [b"x"] * 3, [3])
        footer, source = read_footer(LocalHome(str(tmp_path)), "file"), random.Random(4)
        damaged = 0
        for _ in range(200):
            flipped = bytearray(whole)
            flipped[source.randrange(len(whole) - 2000, len(whole))] ^= source.randint(1, 255)
            (tmp_path / "flipped").write_bytes(flipped)
            try:
                assert isinstance(read_footer(LocalHome(str(tmp_path)), "flipped"), type(footer))
            except ConflictError:
                damaged += 1
        assert damaged > 50

    def test_a_foreign_parquet_file_has_none(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign")
        with pytest.raises(ConflictError, match="foreign is damaged, or was not written by Shardlake"):
            read_footer(LocalHome(str(tmp_path)), "foreign")

    def test_one_that_counts_other_rows_than_the_file_has_is_damage(self, tmp_path: Path) -> None:
        write(tmp_path / "file", [b"x"] * 3, [3])
        stored = pq.read_metadata(tmp_path / "file").metadata
        pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(stored), tmp_path / "other")
        with pytest.raises(ConflictError, match="other is damaged: expected 3 rows, found 1 rows"):
            read_footer(LocalHome(str(tmp_path)), "other")

    def test_a_missing_file_is_an_error_of_the_system(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            read_footer(LocalHome(str(tmp_path)), "missing")


def test_rows_that_cannot_be_read_are_damage(tmp_path: Path) -> None:
    whole = bytearray(write(tmp_path / "file", [random.Random(5).randbytes(1000)] * 200, [200]))
    whole[4:5000] = bytes(4996)
    (tmp_path / "file").write_bytes(whole)
    with pytest.raises(ConflictError, match=r"the rows of .* cannot be read"):
        checksum_of_file(LocalHome(str(tmp_path)), "file")
