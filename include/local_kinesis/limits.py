"""The service's limits per shard, enforced where they are switched on; a token bucket for each.

Of the service (API reference: PutRecords, GetRecords, GetShardIterator): a shard takes 1 MiB/s and 1,000 records/s; all
its readers together get 2 MiB/s and 5 GetRecords calls/s, where one reply of 10 MiB makes the calls of the next 5 s
fail; GetShardIterator has 5 calls/s "per account per open shard", which is per shard here, as there is one account. Not
documented, and chosen: a bucket holds one second's worth, a refused call or record costs nothing, closed shards have
the limits of open ones, and large records burst: one above the second's worth is taken when all before is paid back.

Buckets fill by the monotonic clock, not by the service's own, which can be moved: a jump ahead would fill them all, and
a jump back would keep them empty for as long.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any
from weakref import WeakKeyDictionary

from local_kinesis.errors import InvalidArgumentException, ProvisionedThroughputExceededException
from local_kinesis.shard import Shard
from local_kinesis.stats import Stats
from local_kinesis.stream import ACCOUNT_ID, Stream

_NS = 1_000_000_000


class Bucket:
    """Tokens that come back at a rate, as many as a second's worth; none are ever lacking without a rate.

    Kept as the tokens still owed, in billionths, so that whole rates and nanoseconds are counted without rounding.
    """

    __slots__ = ("_drained_ns", "_full", "_overdrawn", "_owed", "_rate_per_s")

    def __init__(self, rate_per_s: int | None) -> None:
        self._rate_per_s = rate_per_s
        self._full = (rate_per_s or 0) * _NS
        self._owed = 0
        self._drained_ns = 0
        self._overdrawn = False

    def has(self, amount: int, now_ns: int) -> bool:
        """Whether an amount can be taken; one larger than the bucket needs a full bucket, as does an overdrawn one."""
        if self._rate_per_s is None:
            return True
        self._owed = max(0, self._owed - (now_ns - self._drained_ns) * self._rate_per_s)
        self._drained_ns = now_ns
        return self._owed == 0 or (not self._overdrawn and self._owed + amount * _NS <= self._full)

    def take(self, amount: int) -> None:
        """Takes an amount, also one that turns out larger than what was asked for: that must be paid back in full."""
        self._owed += amount * _NS
        self._overdrawn = self._owed > self._full


@dataclass(frozen=True, slots=True)
class Rates:
    """What one shard may do in a second; None for no limit. The defaults are the service's."""

    write_bytes_per_s: int | None = 2**20
    write_records_per_s: int | None = 1000
    read_bytes_per_s: int | None = 2 * 2**20
    read_calls_per_s: int | None = 5
    iterator_calls_per_s: int | None = 5


class _Buckets:
    __slots__ = ("iterator_calls", "read_bytes", "read_calls", "write_bytes", "write_records")

    def __init__(self, rates: Rates) -> None:
        self.write_bytes = Bucket(rates.write_bytes_per_s)
        self.write_records = Bucket(rates.write_records_per_s)
        self.read_bytes = Bucket(rates.read_bytes_per_s)
        self.read_calls = Bucket(rates.read_calls_per_s)
        self.iterator_calls = Bucket(rates.iterator_calls_per_s)


class Limits:
    """Admits or refuses what shards are asked to do; everything is admitted until limits are set."""

    def __init__(self, stats: Stats, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._stats = stats
        self._now_ns = now_ns
        self._rates: dict[str | None, Rates] = {}
        self._buckets: WeakKeyDictionary[Shard, _Buckets] = WeakKeyDictionary()

    def set(self, rates: dict[str | None, Rates]) -> None:
        """Replaces the limits, by stream name, None for all other streams; every bucket is full again."""
        self._rates = rates
        self._buckets.clear()

    def admits_record(self, operation: str, stream: Stream, shard: Shard, size_bytes: int) -> bool:
        """Whether the shard takes a record of this size, its partition key included; counts it."""
        buckets = self._of(stream, shard)
        if buckets is None:
            return True
        now_ns = self._now_ns()
        if not (buckets.write_bytes.has(size_bytes, now_ns) and buckets.write_records.has(1, now_ns)):
            self._stats.count_shard_call(f"{operation}Throttled", stream.name, shard.shard_id)
            return False
        buckets.write_bytes.take(size_bytes)
        buckets.write_records.take(1)
        return True

    def admit_iterator(self, stream: Stream, shard: Shard) -> None:
        """Counts a GetShardIterator call.

        Raises:
            ProvisionedThroughputExceededException: it is one too many.
        """
        buckets = self._of(stream, shard)
        if buckets is None:
            return
        if not buckets.iterator_calls.has(1, self._now_ns()):
            self._refuse("GetShardIterator", stream, shard)
        buckets.iterator_calls.take(1)

    def admit_read(self, stream: Stream, shard: Shard) -> None:
        """Counts a GetRecords call, whose reply may be of any size; what it returns is told to ``count_read``.

        Raises:
            ProvisionedThroughputExceededException: it is one too many, or earlier replies are not paid back.
        """
        buckets = self._of(stream, shard)
        if buckets is None:
            return
        now_ns = self._now_ns()
        if not (buckets.read_calls.has(1, now_ns) and buckets.read_bytes.has(1, now_ns)):
            self._refuse("GetRecords", stream, shard)
        buckets.read_calls.take(1)

    def count_read(self, stream: Stream, shard: Shard, size_bytes: int) -> None:
        """Counts what an admitted GetRecords call returned."""
        buckets = self._of(stream, shard)
        if buckets is not None:
            buckets.read_bytes.take(size_bytes)

    def _of(self, stream: Stream, shard: Shard) -> _Buckets | None:
        if not self._rates:
            return None
        buckets = self._buckets.get(shard)
        if buckets is None:
            rates = self._rates.get(stream.name, self._rates.get(None))
            if rates is None:
                return None
            buckets = self._buckets[shard] = _Buckets(rates)
        return buckets

    def _refuse(self, operation: str, stream: Stream, shard: Shard) -> None:
        self._stats.count_shard_call(f"{operation}Throttled", stream.name, shard.shard_id)
        raise ProvisionedThroughputExceededException(rate_exceeded(stream.name, shard.shard_id))


def rate_exceeded(stream: str, shard_id: str) -> str:
    """The message of a throttled call or record (API reference, PutRecords, examples)."""
    return f"Rate exceeded for shard {shard_id} in stream {stream} under account {ACCOUNT_ID}."


def parsed_rates(entries: Any) -> dict[str | None, Rates]:
    """Reads ``[{"stream": NAME, "read_calls_per_s": 2, …}, …]``; an entry without a stream is for all others.

    Raises:
        InvalidArgumentException: it is not of that form.
    """
    names = {field.name for field in fields(Rates)}
    rates: dict[str | None, Rates] = {}
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidArgumentException("limits must be a list of objects, [] to end them, [{}] for the service's own")
    for index, entry in enumerate(entries):
        values = dict(entry)
        stream = values.pop("stream", None)
        if stream is not None and not isinstance(stream, str):
            raise InvalidArgumentException(f"limits {index}: stream must be a stream's name, not {stream!r}")
        if stream in rates:
            raise InvalidArgumentException(f"limits {index}: there is an entry for {stream or 'all streams'} before")
        for name, value in values.items():
            if name not in names:
                raise InvalidArgumentException(f"limits {index}: no such limit: {name}; there are {sorted(names)}")
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidArgumentException(
                    f"limits {index}: {name} must be a whole number above 0, or null for no limit, not {value!r}"
                )
        rates[stream] = Rates(**values)
    return rates
