"""Columns from Python values: what pyarrow itself would make of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlake.lake.columns import _of_lengths, binaries, numbers, same_text, texts, texts_or_nulls, timestamps

pa.array([None])  # the first one imports pandas, which takes longer than an example may

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def the_same(found: pa.Array, expected: pa.Array) -> bool:
    found.validate(full=True)
    return bool(found.equals(expected)) and found.null_count == expected.null_count


@given(st.lists(TEXT))
def test_texts(values: list[str]) -> None:
    assert the_same(texts(values), pa.array(values, pa.string()))


@given(st.lists(st.none() | TEXT))
def test_texts_or_nulls(values: list[str | None]) -> None:
    assert the_same(texts_or_nulls(values), pa.array(values, pa.string()))


@given(TEXT, st.integers(0, 20))
def test_one_text_in_every_row(value: str, count: int) -> None:
    assert the_same(same_text(value, count), pa.array([value] * count, pa.string()))


@given(st.lists(st.binary(max_size=20)))
def test_binaries(values: list[bytes]) -> None:
    assert the_same(binaries(values), pa.array(values, pa.binary()))


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_numbers(values: list[int]) -> None:
    assert the_same(numbers(np.array(values, np.int32)), pa.array(values, pa.int32()))


@given(st.lists(st.integers(0, 253_402_300_799_999)))
def test_timestamps(values: list[int]) -> None:
    expected = pa.array([value * 1000 for value in values], pa.timestamp("us", "UTC"))
    assert the_same(timestamps(values), expected)


def test_more_than_ends_of_32_bits_can_tell_is_refused() -> None:
    class Large(bytes):
        def __len__(self) -> int:
            return 2**31

    with pytest.raises(OverflowError, match="2147483648 bytes"):
        _of_lengths(pa.binary(), np.zeros(0, np.int32), Large())


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        texts(["\ud800"])
