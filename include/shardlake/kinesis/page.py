"""One GetRecords reply as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shardlake.ranges import SequenceNumber


@dataclass(frozen=True, slots=True)
class Page:
    """One GetRecords reply, column by column, in sequence order.

    Attributes:
        sequence_numbers: texts as the service gave them.
        arrivals_ms: ApproximateArrivalTimestamp, milliseconds since the epoch; neither exact nor ordered.
        next_iterator: None at the end of a closed shard (boto3 leaves the key out, other clients give null).
        millis_behind_latest: 0 means that nothing follows these records yet.
        service_time_ms: the reply's Date header, milliseconds since the epoch, whole seconds.
    """

    sequence_numbers: list[str]
    partition_keys: list[str]
    arrivals_ms: list[int]
    data: list[bytes]
    next_iterator: str | None
    millis_behind_latest: int
    service_time_ms: int

    def __len__(self) -> int:
        return len(self.sequence_numbers)

    @property
    def size(self) -> int:
        """The bytes of data and partition keys."""
        return sum(map(len, self.data)) + sum(map(len, self.partition_keys))

    @property
    def at_end(self) -> bool:
        """Whether the shard is closed and this is its last page."""
        return self.next_iterator is None

    @property
    def at_tip(self) -> bool:
        """Whether nothing was left behind these records when the service answered."""
        return self.at_end or self.millis_behind_latest == 0

    @property
    def first(self) -> SequenceNumber | None:
        """The first record's number; None for an empty page."""
        return self.number(0) if len(self) else None

    @property
    def last(self) -> SequenceNumber | None:
        """The last record's number; None for an empty page."""
        return self.number(-1) if len(self) else None

    def number(self, row: int) -> SequenceNumber:
        """The sequence number of a row."""
        return SequenceNumber(self.sequence_numbers[row])

    def rows(self, start: int, stop: int | None = None) -> Page:
        """The page with the rows from `start` to `stop` only."""
        cut = slice(start, stop)
        return replace(
            self,
            sequence_numbers=self.sequence_numbers[cut],
            partition_keys=self.partition_keys[cut],
            arrivals_ms=self.arrivals_ms[cut],
            data=self.data[cut],
        )
