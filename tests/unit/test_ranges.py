"""Sequence numbers order as integers, positions by the number before them, and ranges always hold something."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlake.ranges import (
    SHARD_END,
    SequenceNumber,
    SequenceRange,
    ShardEnd,
    Start,
    Through,
    parse_through,
)

LARGEST = "9" * 56
numbers = st.integers(1, 10**56 - 1)


def number(value: int | str) -> SequenceNumber:
    return SequenceNumber(str(value))


class TestSequenceNumber:
    @given(numbers, numbers)
    def test_orders_by_its_integer(self, one: int, other: int) -> None:
        assert (number(one) < number(other)) == (one < other)
        assert (number(one).key < number(other).key) == (one < other)
        assert (number(one) == number(other)) == (one == other)

    def test_is_not_compared_as_text(self) -> None:
        assert number("9") < number("10")
        assert sorted([number("10"), number("9")])[0].text == "9"
        assert number("9") <= number("9")
        assert number("10") > number("9")

    def test_keeps_its_text_and_equals_the_same_number_written_otherwise(self) -> None:
        assert number("007").text == "007"
        assert number("007") == number("7")
        assert len({number("007"), number("7")}) == 1

    def test_is_no_text_and_no_integer(self) -> None:
        assert number("7") != "7"
        assert number("7") != 7

    @given(numbers)
    def test_its_key_has_56_digits(self, value: int) -> None:
        assert (len(number(value).key), int(number(value).key)) == (56, value)

    @pytest.mark.parametrize(
        "text", ["", "-1", "+1", " 1", "1\n", "1.0", "1e3", "0x1", "\u0661", "1_000", "SHARD_END", "1" * 57, "LATEST"]
    )
    def test_refuses_what_is_no_number_of_at_most_56_digits(self, text: str) -> None:
        with pytest.raises(ValueError, match="1 to 56 decimal digits, found " + re.escape(repr(text[:140]))):
            SequenceNumber(text)

    @given(st.integers(2, 10**55), st.integers(-1, 10**9))
    def test_plus_moves_by_a_distance(self, value: int, distance: int) -> None:
        assert int(number(value).plus(distance)) == value + distance

    def test_plus_keeps_the_width(self) -> None:
        assert number("0009").plus(1).text == "0010"
        assert number("1000").plus(-1).text == "0999"

    @pytest.mark.parametrize(("text", "distance"), [("0", -1), (LARGEST, 1)])
    def test_plus_refuses_to_leave_the_numbers(self, text: str, distance: int) -> None:
        with pytest.raises(ValueError, match="decimal digits"):
            SequenceNumber(text).plus(distance)


class TestStart:
    @given(numbers)
    def test_at_n_and_after_the_number_before_are_one_position(self, value: int) -> None:
        assert Start("AT", number(value)).key == Start("AFTER", number(value).plus(-1)).key

    def test_says_where_it_is(self) -> None:
        assert str(Start("AT", number(7))) == "AT 7"
        assert str(Start("AFTER", number("007"))) == "AFTER 007"

    def test_refuses_at_0(self) -> None:
        with pytest.raises(ValueError, match="AT 0 has no exclusive start"):
            Start("AT", number(0))

    def test_refuses_another_kind(self) -> None:
        with pytest.raises(ValueError, match="AT or AFTER a number, found 'LATEST'"):
            Start("LATEST", number(1))  # type: ignore[arg-type]


class TestShardEnd:
    @given(numbers)
    def test_lies_behind_every_number(self, value: int) -> None:
        assert number(value).key < SHARD_END.key
        assert Start("AFTER", number(value)).key < SHARD_END.key

    def test_is_one_word(self) -> None:
        assert (str(SHARD_END), SHARD_END.key, ShardEnd("SHARD_END")) == ("SHARD_END", "SHARD_END", SHARD_END)

    @given(numbers)
    def test_throughs_come_back_from_their_text(self, value: int) -> None:
        assert parse_through(str(number(value))) == number(value)
        assert parse_through("SHARD_END") is SHARD_END

    def test_another_word_is_refused(self) -> None:
        with pytest.raises(ValueError, match="decimal digits, found 'shard_end'"):
            parse_through("shard_end")


class TestSequenceRange:
    def test_says_what_it_holds(self) -> None:
        assert str(SequenceRange("s", Start("AT", number(1)), SHARD_END, number(1))) == "s AT 1 through SHARD_END"

    @pytest.mark.parametrize(
        ("start", "through", "anchor"),
        [
            (Start("AT", number(5)), number(5), number(5)),
            (Start("AFTER", number(5)), number(6), number(5)),
            (Start("AFTER", number(5)), number(6), number(6)),
            (Start("AFTER", number(5)), SHARD_END, None),
            (Start("AT", number(5)), SHARD_END, number(9)),
        ],
    )
    def test_may_be(self, start: Start, through: Through, anchor: SequenceNumber | None) -> None:
        range_ = SequenceRange("s", start, through, anchor)
        assert (range_.start, range_.through, range_.anchor) == (start, through, anchor)

    @pytest.mark.parametrize(
        ("start", "through", "anchor", "why"),
        [
            (Start("AFTER", number(5)), number(5), number(5), "starts AFTER 5 and ends at 5, before it"),
            (Start("AT", number(5)), number(4), number(4), "starts AT 5 and ends at 4, before it"),
            (Start("AFTER", number(10)), number(9), number(10), "starts AFTER 10 and ends at 9, before it"),
            (Start("AFTER", number(5)), number(6), None, "needs an anchor"),
            (Start("AFTER", number(5)), number(6), number(4), "anchor 4 of s lies outside AFTER 5 .. 6"),
            (Start("AFTER", number(5)), number(6), number(7), "anchor 7 of s lies outside AFTER 5 .. 6"),
            (Start("AT", number(5)), SHARD_END, number(4), "anchor 4 of s lies outside AT 5 .. SHARD_END"),
        ],
    )
    def test_may_not_be(self, start: Start, through: Through, anchor: Any, why: str) -> None:
        with pytest.raises(ValueError, match=re.escape(why)):
            SequenceRange("s", start, through, anchor)

    def test_begins_with_its_anchor_or_the_very_next_number(self) -> None:
        range_ = SequenceRange("s", Start("AFTER", number(5)), number(99), anchor=number(20))
        assert [n for n in range(5, 99) if range_.begins_with(number(n))] == [6, 20]
