"""Bugs of reading the stream that the product does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from shardlake.kinesis import reader, start, through
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.user_records import Unpacker, UserRecords
from shardlake.ranges import SequenceNumber, SequenceRange


def end_within_an_aggregate(patch: pytest.MonkeyPatch) -> None:
    right = Unpacker.user_records

    def user_records(self: Unpacker, pages: Iterable[Any]) -> Iterable[UserRecords]:
        for some in right(self, pages):
            if some.sub_sequence_numbers and some.sub_sequence_numbers[-1]:
                some = UserRecords(*(column and column[:-1] for column in map(some.__getattribute__, some.__slots__)))
            yield some

    patch.setattr(Unpacker, "user_records", user_records)


def expired_iterator(patch: pytest.MonkeyPatch, wrong: Callable[[Kinesis, str, SequenceNumber], str]) -> None:
    right = Kinesis.iterator_at

    def iterator_at(self: Kinesis, shard_id: str, kind: Any, number: SequenceNumber) -> str:
        if kind == "AFTER_SEQUENCE_NUMBER":
            return wrong(self, shard_id, number)
        return right(self, shard_id, kind, number)

    patch.setattr(Kinesis, "iterator_at", iterator_at)


def expired_iterator_resumed_at(patch: pytest.MonkeyPatch) -> None:
    """Pages are checked to follow on one another: so they are not, either."""
    right = Kinesis.iterator_at
    expired_iterator(patch, lambda self, shard_id, number: right(self, shard_id, "AT_SEQUENCE_NUMBER", number))
    patch.setattr(reader, "_check_follows", lambda *_: None)


def expired_iterator_resumed_behind_a_record(patch: pytest.MonkeyPatch) -> None:
    right = Kinesis.iterator_at

    def behind(self: Kinesis, shard_id: str, number: SequenceNumber) -> str:
        iterator = right(self, shard_id, "AFTER_SEQUENCE_NUMBER", number)
        return self.get_records(iterator, 1).next_iterator or iterator

    expired_iterator(patch, behind)


def anchor_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SequenceRange, "begins_with", lambda self, first: True)


def loss_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(through, "_may_have_lost", lambda *_: False)


def empty_page_is_the_end(patch: pytest.MonkeyPatch) -> None:
    """That the last record came is checked: so it is not, either."""
    right = reader._pages

    def pages(*arguments: Any) -> Any:
        for page in right(*arguments):
            yield page
            if page.next_iterator is None or not page.millis_behind_latest:
                return
            if len(page) == 1:
                return

    patch.setattr(reader, "_pages", pages)
    patch.setattr(reader, "_not_as_planned", lambda *_: StopIteration())


def one_more_than_through(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader, "_within", lambda page, range_: page.rows(1 if page.number(0).key == range_.start.key else 0))


def horizon_is_no_margin(patch: pytest.MonkeyPatch) -> None:
    """A pipeline that begins at the horizon leaves out an hour of what is retained, not ten minutes."""
    patch.setattr(start, "HORIZON_MARGIN_MS", 8 * 3_600_000)


def time_one_second_late(patch: pytest.MonkeyPatch) -> None:
    right = start.first_arrival
    patch.setattr(start, "first_arrival", lambda kinesis, shard_id, at_ms: right(kinesis, shard_id, at_ms + 1))


def trimming_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader, "Continuity", _Trusting)


class _Trusting:
    def __init__(self, *_: object) -> None:
        pass

    def follow(self, page: Any) -> None:
        pass

    prove = staticmethod(lambda: None)
