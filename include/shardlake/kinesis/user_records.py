"""Pages of raw records to user records: aggregates unpacked, or set aside whole, or left out whole; and all counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from shardlake.kinesis.aggregate import MAGIC, Aggregate, MalformedError, is_aggregate, lies_within, unpack
from shardlake.kinesis.page import Page
from shardlake.plan import Aggregates, BatchPlan, HashRange

PIECE_ROWS = 16_384
"""User records after which a page's are handed on: 10 MiB of small ones could be a million."""

OUTSIDE = "a user record outside of the shard's range of hash keys"
"""The reason in the quarantine."""


@dataclass(frozen=True, slots=True)
class UserRecords:
    """Some user records, column by column, in order of sequence and sub-sequence number.

    Attributes:
        sequence_numbers: the outer record's, as the service gave it.
        sub_sequence_numbers: positions in the aggregate; None: all are 0.
        explicit_hash_keys: GetRecords tells none, aggregates do; None: none has one.
        arrivals_ms: the outer record's.
    """

    sequence_numbers: list[str]
    sub_sequence_numbers: list[int] | None
    partition_keys: list[str]
    explicit_hash_keys: list[str | None] | None
    arrivals_ms: list[int]
    data: list[bytes]

    def __len__(self) -> int:
        return len(self.sequence_numbers)


@dataclass(frozen=True, slots=True)
class SetAside:
    """A raw record that goes into the quarantine, and why."""

    sequence_number: str
    partition_key: str
    arrival_ms: int
    data: bytes
    reason: str


@dataclass(slots=True)
class Unpacker:
    """Unpacks the pages of one range, and counts.

    Args:
        mode: what becomes of an aggregate with a user record that another shard should have: see `plan.BatchPlan`.
        hash_range: the shard's; asked only where the mode needs it.
        set_aside: takes what is quarantined, in sequence order.

    Attributes:
        records: raw records so far.
        dropped: how many of them were left out.
        quarantined: how many of them were set aside.
    """

    mode: Aggregates | None
    hash_range: HashRange | None
    set_aside: Callable[[SetAside], None]
    records: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    quarantined: int = field(default=0, init=False)

    def user_records(self, pages: Iterable[Page]) -> Iterator[UserRecords]:
        """The user records of the pages, some at a time. A page without aggregates costs a look at 4 bytes a record."""
        for page in pages:
            self.records += len(page)
            rows = [row for row, data in enumerate(page.data) if data[:4] == MAGIC] if self.mode else []
            if rows:
                yield from self._mixed(page, rows)
            else:
                yield as_they_are(page)
            del page  # or it would stay in memory while the next one comes in

    def _mixed(self, page: Page, rows: list[int]) -> Iterator[UserRecords]:
        """The user records of a page; `rows` says which of its records could be aggregates."""
        piece, done = _Piece(), 0
        for row in rows:
            if not is_aggregate(page.data[row]):
                continue
            piece.add_plain(page.rows(done, row))
            done = row + 1
            aggregate = self._unpacked(page, row)
            if aggregate is None:
                continue
            for begin in range(0, len(aggregate.data), PIECE_ROWS):
                piece.add(page, row, aggregate, begin)
                if len(piece.data) >= PIECE_ROWS:
                    yield piece.taken()
                    piece = _Piece()
        piece.add_plain(page.rows(done))
        yield piece.taken()

    def _unpacked(self, page: Page, row: int) -> Aggregate | None:
        """The aggregate in a row of a page; None where it was set aside or left out."""
        try:
            aggregate = unpack(page.data[row])
        except MalformedError as exc:
            self._quarantine(page, row, str(exc))
            return None
        if self.mode == "keep" or self.hash_range is None or lies_within(aggregate, self.hash_range):
            return aggregate
        if self.mode == "quarantine":
            self._quarantine(page, row, OUTSIDE)
        else:
            self.dropped += 1
        return None

    def _quarantine(self, page: Page, row: int, reason: str) -> None:
        self.quarantined += 1
        number, key = page.sequence_numbers[row], page.partition_keys[row]
        self.set_aside(SetAside(number, key, page.arrivals_ms[row], page.data[row], reason))


def unpacker(plan: BatchPlan, shard_id: str, set_aside: Callable[[SetAside], None]) -> Unpacker:
    """What unpacks a range of a shard as its plan says.

    Raises:
        ConflictError: the plan's mode needs the shard's hash keys, and the plan does not say them.
    """
    by_rule = plan.aggregates in ("drop", "quarantine")
    return Unpacker(plan.aggregates, plan.hash_range(shard_id) if by_rule else None, set_aside)


def as_they_are(page: Page) -> UserRecords:
    """A page's raw records, none of them unpacked."""
    return UserRecords(page.sequence_numbers, None, page.partition_keys, None, page.arrivals_ms, page.data)


class _Piece:
    """Columns that grow."""

    def __init__(self) -> None:
        self.numbers, self.subs, self.keys = list[str](), list[int](), list[str]()
        self.hash_keys, self.arrivals_ms, self.data = list[str | None](), list[int](), list[bytes]()

    def add_plain(self, page: Page) -> None:
        self.numbers += page.sequence_numbers
        self.subs += [0] * len(page)
        self.keys += page.partition_keys
        self.hash_keys += [None] * len(page)
        self.arrivals_ms += page.arrivals_ms
        self.data += page.data

    def add(self, page: Page, row: int, aggregate: Aggregate, begin: int) -> None:
        """Add the user records of an aggregate from `begin` on, at most `PIECE_ROWS`."""
        subs = range(len(aggregate.data))[begin : begin + PIECE_ROWS]
        part = slice(subs.start, subs.stop)
        self.numbers += [page.sequence_numbers[row]] * len(subs)
        self.subs += subs
        self.keys += aggregate.partition_keys[part]
        self.hash_keys += aggregate.explicit_hash_keys[part]
        self.arrivals_ms += [page.arrivals_ms[row]] * len(subs)
        self.data += aggregate.data[part]

    def taken(self) -> UserRecords:
        return UserRecords(self.numbers, self.subs, self.keys, self.hash_keys, self.arrivals_ms, self.data)
