"""Pages to rows, and the checksum of rows, which does not depend on how they are cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from struct import pack
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlake.kinesis.page import Page
from shardlake.kinesis.user_records import as_they_are
from shardlake.lake.rows import SCHEMA, RowsChecksum, rows_of

Row = tuple[str, str, int, str, str | None, datetime, bytes]

texts = st.text(st.characters(codec="utf-8"), max_size=5)
rows = st.tuples(
    texts,
    texts,
    st.integers(0, 2**31 - 1),
    texts,
    st.none() | texts,
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 -- bounds are naive
    st.binary(max_size=5),
)


def batch(some: Iterable[Row]) -> pa.RecordBatch:
    columns = list(zip(*some, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def checksum(*batches: pa.RecordBatch) -> str:
    of_rows = RowsChecksum()
    for each in batches:
        of_rows.update(each)
    return of_rows.hexdigest()


@settings(deadline=None)
@given(st.lists(rows, max_size=12), st.data())
def test_the_checksum_does_not_depend_on_how_rows_are_cut(some: list[Row], data: Any) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(some)), max_size=4)))
    bounds = [0, *cuts, len(some)]
    whole = batch(some)
    slices = [whole.slice(begin, end - begin) for begin, end in itertools.pairwise(bounds)]
    copies = [batch(some[begin:end]) for begin, end in itertools.pairwise(bounds)]
    assert checksum(*slices) == checksum(*copies) == checksum(whole)


@settings(deadline=None)
@given(st.lists(rows, max_size=6), st.lists(rows, max_size=6))
def test_other_rows_have_another_checksum(some: list[Row], others: list[Row]) -> None:
    assert (checksum(batch(some)) == checksum(batch(others))) == (some == others)


def test_null_and_empty_text_differ() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with_null: Row = ("s", "1", 0, "k", None, at, b"")
    with_empty: Row = ("s", "1", 0, "k", "", at, b"")
    assert checksum(batch([with_null])) != checksum(batch([with_empty]))


def test_bytes_that_move_from_one_row_to_the_next_change_the_checksum() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    one: list[Row] = [("s", "1", 0, "k", None, at, b"ab"), ("s", "2", 0, "k", None, at, b"c")]
    two: list[Row] = [("s", "1", 0, "k", None, at, b"a"), ("s", "2", 0, "k", None, at, b"bc")]
    assert checksum(batch(one)) != checksum(batch(two))


def test_the_checksum_is_the_one_that_ledgers_and_footers_hold() -> None:
    """The algorithm, written out by hand: changing it would turn every committed file into a conflict."""
    row: Row = ("s", "49", 7, "k", None, datetime(2026, 1, 1, tzinfo=UTC), b"xyz")
    columns = [  # lengths of texts and binaries, then values
        (pack("<i", 1), b"s"),
        (pack("<i", 2), b"49"),
        (b"", pack("<i", 7)),
        (pack("<i", 1), b"k"),
        (pack("<i", -1), b""),
        (b"", pack("<q", 1_767_225_600_000_000)),
        (pack("<i", 3), b"xyz"),
    ]
    digests = b"".join(sha256(lengths).digest() + sha256(values).digest() for lengths, values in columns)
    assert checksum(batch([row])) == sha256(pack("<q", 1) + digests).hexdigest()
    assert checksum() == sha256(pack("<q", 0) + sha256(b"").digest() * 14).hexdigest()


def test_a_record_becomes_a_row_with_all_that_kinesis_tells_of_it() -> None:
    page = Page(["495", "496"], ["k", "ö"], [1_767_225_600_123, 0], [b"x", b""], None, 0, 0)
    assert rows_of(as_they_are(page), "clicks").to_pylist() == [
        {
            "stream": "clicks",
            "sequence_number": "495",
            "sub_sequence_number": 0,
            "partition_key": "k",
            "explicit_hash_key": None,
            "approximate_arrival_timestamp": datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC),
            "data": b"x",
        },
        {
            "stream": "clicks",
            "sequence_number": "496",
            "sub_sequence_number": 0,
            "partition_key": "ö",
            "explicit_hash_key": None,
            "approximate_arrival_timestamp": datetime(1970, 1, 1, tzinfo=UTC),
            "data": b"",
        },
    ]
    assert rows_of(as_they_are(page), "clicks").schema == SCHEMA
