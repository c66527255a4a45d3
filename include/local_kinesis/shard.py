"""One shard: its place in the shard tree, and its records: ready JSON fragments beside arrays of their positions."""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from local_kinesis.sequence import SequenceNumbers


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive records of a shard.

    Attributes:
        fragments: each record's JSON object.
        after: the ordinal of the page's last record, or where the reader already stood if the page is empty.
        bytes: the records' data and partition keys together.
        next_arrival_ms: when the first record behind the page arrived; None if there is none.
    """

    fragments: list[bytes]
    after: int
    bytes: int
    next_arrival_ms: int | None


class Shard:
    """A hash key range, open for writes until it is closed by a reshard.

    Positions are ordinals (see ``sequence``). A reader's position is the ordinal it has read through.
    """

    def __init__(self, index: int, hash_start: int, hash_end: int, created_ms: int, parents: tuple["Shard", ...] = ()):
        self.index = index
        self.shard_id = f"shardId-{index:012d}"
        self.hash_start = hash_start
        self.hash_end = hash_end
        self.created_ms = created_ms
        self.closed_ms: int | None = None
        self.parents = parents
        self.children: list[Shard] = []
        self.numbers = SequenceNumbers(created_ms, index)
        self.ending_ordinal: int | None = None
        self.last_ordinal = 0
        self.trimmed_through = 0
        """The ordinal of the newest record that is gone; 0 if none is."""
        self.expired = False
        """A closed shard whose records are all gone: it is no longer listed."""
        self._fragments: list[bytes] = []
        self._ordinals = array("Q")
        self._arrivals_ms = array("Q")
        self._bytes_through = array("Q")
        self._bytes_trimmed = 0

    @property
    def is_open(self) -> bool:
        """Whether the shard takes writes."""
        return self.closed_ms is None

    def append(self, partition_key_json: str, data_base64: str, size_bytes: int, now_ms: int) -> str:
        """Adds a record and returns its sequence number.

        Args:
            partition_key_json: the key as a JSON string, quotes included.
            data_base64: the data as it came over the wire, already validated.
            size_bytes: of data and partition key, for the page limit.
            now_ms: the record's arrival time.
        """
        ordinal = self.numbers.draw()
        text = self.numbers.text(ordinal)
        self._fragments.append(
            f'{{"SequenceNumber":"{text}","ApproximateArrivalTimestamp":{now_ms // 1000}.{now_ms % 1000:03d},'
            f'"Data":"{data_base64}","PartitionKey":{partition_key_json}}}'.encode("ascii")
        )
        self._ordinals.append(ordinal)
        # In order, for the bisections, also if the clock has jumped back; the record keeps the clock's time.
        last_ms = self._arrivals_ms[-1] if self._arrivals_ms else now_ms
        self._arrivals_ms.append(now_ms if now_ms > last_ms else last_ms)
        self._bytes_through.append(
            (self._bytes_through[-1] if self._bytes_through else self._bytes_trimmed) + size_bytes
        )
        self.last_ordinal = ordinal
        return text

    def read(self, after: int, max_records: int, max_bytes: int) -> Page:
        """The records behind a position; at least one if there is any, as no record is larger than a page."""
        start = bisect_right(self._ordinals, after)
        total = len(self._ordinals)
        if start == total or max_records == 0:
            return Page([], after, 0, self._arrivals_ms[start] if start < total else None)
        bytes_before = self._bytes_through[start - 1] if start else self._bytes_trimmed
        stop = bisect_right(self._bytes_through, bytes_before + max_bytes, start, min(start + max_records, total))
        return Page(
            self._fragments[start:stop],
            self._ordinals[stop - 1],
            self._bytes_through[stop - 1] - bytes_before,
            self._arrivals_ms[stop] if stop < total else None,
        )

    def position_at_time(self, timestamp_ms: float) -> int:
        """The position before the first record that arrived at a time or later."""
        index = bisect_left(self._arrivals_ms, timestamp_ms)
        return self._ordinals[index] - 1 if index < len(self._ordinals) else self.last_ordinal

    def close(self, now_ms: int) -> None:
        """Ends the shard behind its last record, with a number that is no record's."""
        self.closed_ms = now_ms
        self.ending_ordinal = self.numbers.draw()

    def trim_arrived_before(self, horizon_ms: int) -> None:
        """Drops what arrived before the horizon; a shard that closed before it as well is expired."""
        if self._arrivals_ms and self._arrivals_ms[0] < horizon_ms:
            self._drop(bisect_left(self._arrivals_ms, horizon_ms))
        if self.closed_ms is not None and self.closed_ms < horizon_ms:
            self.expired = True

    def trim_before(self, ordinal: int) -> None:
        """Drops every record whose ordinal is smaller."""
        self._drop(bisect_left(self._ordinals, ordinal))

    def trim_all(self) -> None:
        """Drops every record, as if the retention of all of them had passed."""
        self._drop(len(self._ordinals))
        self.expired = not self.is_open

    def _drop(self, count: int) -> None:
        if count:
            self.trimmed_through = self._ordinals[count - 1]
            self._bytes_trimmed = self._bytes_through[count - 1]
            del self._fragments[:count], self._ordinals[:count], self._arrivals_ms[:count], self._bytes_through[:count]
