"""The values of the protocol: sequence numbers, positions in a shard, and ranges of records.

A position lies between two records. `Start` is the position where reading begins, `AT n` (before record n) or
`AFTER n` (behind it); a range ends behind the record `through`, or at the shard's end. `AT n` and `AFTER n-1` are the
same position, so positions compare by `key`: the greatest number that lies before them, padded to 56 digits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import total_ordering
from typing import Literal

DIGITS = 56
"""Width of a sequence number in a key or a file name.

Kinesis numbers have up to 56 digits today; the API's pattern allows 129. Longer ones are refused, not cut.
"""

_NUMBER = re.compile(rf"[0-9]{{1,{DIGITS}}}", re.ASCII)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class SequenceNumber:
    """A Kinesis sequence number: its text is kept as the service gave it, order and equality go by its integer.

    Raises:
        ValueError: the text is not 1 to 56 decimal digits.
    """

    text: str

    def __post_init__(self) -> None:
        if not _NUMBER.fullmatch(self.text):
            raise ValueError(f"a sequence number has 1 to {DIGITS} decimal digits, found {self.text[:140]!r}")

    def __int__(self) -> int:
        return int(self.text)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return int(self) == int(other) if isinstance(other, SequenceNumber) else NotImplemented

    def __lt__(self, other: SequenceNumber) -> bool:
        return int(self) < int(other)

    def __hash__(self) -> int:
        return hash(int(self))

    @property
    def key(self) -> str:
        """The number padded to 56 digits: text order is then number order."""
        return self.text.zfill(DIGITS)

    def plus(self, distance: int) -> SequenceNumber:
        """The number `distance` further on, written as wide as this one.

        Raises:
            ValueError: the result is negative or has more than 56 digits.
        """
        return SequenceNumber(str(int(self) + distance).zfill(len(self.text)))


class ShardEnd(Enum):
    """The position behind the last record of a closed shard."""

    SHARD_END = "SHARD_END"

    @property
    def key(self) -> str:
        """The word itself: it sorts after every padded number."""
        return self.value

    def __str__(self) -> str:
        return self.value


SHARD_END = ShardEnd.SHARD_END
Through = SequenceNumber | ShardEnd


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins: `AT` record n, or `AFTER` record n.

    Raises:
        ValueError: `AT 0`, a position that no exclusive number names.
    """

    kind: Literal["AT", "AFTER"]
    number: SequenceNumber

    def __post_init__(self) -> None:
        if self.kind not in ("AT", "AFTER"):
            raise ValueError(f"a start is AT or AFTER a number, found {self.kind!r}")
        if self.kind == "AT" and int(self.number) == 0:
            raise ValueError("AT 0 has no exclusive start; Kinesis numbers are positive")

    @property
    def key(self) -> str:
        """The exclusive start padded to 56 digits: n for `AFTER n`, n - 1 for `AT n`."""
        return (self.number if self.kind == "AFTER" else self.number.plus(-1)).key

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


Position = Start | ShardEnd


@dataclass(frozen=True, slots=True)
class SequenceRange:
    """The records of one shard after `start` up to and including `through`: the unit of work and of commit.

    Attributes:
        shard_id: the shard, as Kinesis names it.
        start: where the range begins; the position of the shard when the range was pinned.
        through: the last record, one seen when planning, or `SHARD_END`.
        anchor: the first record of the range, seen when planning right behind the start: reading has to find it first.
            None: there is no record between the start and the shard's end.

    Raises:
        ValueError: the range holds nothing (`through` is not after `start`), or its anchor lies outside of it.
    """

    shard_id: str
    start: Start
    through: Through
    anchor: SequenceNumber | None

    def __post_init__(self) -> None:
        if self.through.key <= self.start.key:
            raise ValueError(f"a range of {self.shard_id} starts {self.start} and ends at {self.through}, before it")
        if self.anchor is None and self.through is not SHARD_END:
            raise ValueError(f"a range of {self.shard_id} through {self.through} needs an anchor")
        if self.anchor is not None and not self.start.number.key <= self.anchor.key <= self.through.key:
            raise ValueError(f"anchor {self.anchor} of {self.shard_id} lies outside {self.start} .. {self.through}")

    def __str__(self) -> str:
        return f"{self.shard_id} {self.start} through {self.through}"

    def begins_with(self, first: SequenceNumber) -> bool:
        """Whether a read from the anchor on that gives `first` first has lost nothing.

        It gives the anchor, or the very next number after the start, so that no record fits between.
        """
        return first == self.anchor or first.plus(-1).key == self.start.key


def parse_through(text: str) -> Through:
    """`through` from its text: the word `SHARD_END` or a sequence number."""
    return SHARD_END if text == SHARD_END.value else SequenceNumber(text)
