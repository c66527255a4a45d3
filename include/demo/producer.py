"""Putting all flights on the stream, at a pace at which they still arrive while others read."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from local_kinesis.produce import Item, PutsRecords, put_all

_TICK_S = 0.1
_PACE_PER_S = 3500
_SLOWING_S = 20.0
"""Near its limit the producer puts each second one part in so many of what is left: some records always arrive."""


class Producer(threading.Thread):
    """Puts records up to a limit, which can be raised while it runs.

    Args:
        client: a boto3 Kinesis client of its own.
        stream: the stream.
        items: the records, in order.
    """

    def __init__(self, client: PutsRecords, stream: str, items: Iterable[Item]) -> None:
        super().__init__(name="producer", daemon=True)
        self._client, self._stream, self._items = client, stream, iter(items)
        self._limit = 0
        self._hurry = False
        self._stopped = threading.Event()
        self.error: Exception | None = None
        self.acknowledged: Counter[str] = Counter()
        """How many records each shard has acknowledged."""

    @property
    def put(self) -> int:
        """How many records were acknowledged."""
        return self.acknowledged.total()

    def approach(self, limit: int) -> None:
        """Puts on until this many records in all, slower and slower near the end."""
        self._limit, self._hurry = limit, False

    def finish(self, limit: int) -> None:
        """Puts on until this many records in all without slowing down, and ends."""
        self._limit, self._hurry = limit, True

    def stop(self) -> None:
        """Ends as soon as it can, and waits for that."""
        self._stopped.set()
        self.join(timeout=30)

    def run(self) -> None:
        """Puts one burst a tick."""
        try:
            while not self._stopped.wait(_TICK_S):
                left = self._limit - self.put
                if left <= 0:
                    if self._hurry:
                        return
                    continue
                slowed = left if self._hurry else max(1, int(left * _TICK_S / _SLOWING_S))
                burst = islice(self._items, min(slowed, int(_PACE_PER_S * _TICK_S)))
                acknowledged = put_all(self._client, self._stream, burst)
                self.acknowledged.update(each.shard_id for each in acknowledged)
        except Exception as exc:
            # Not lost in a thread: whoever waits for the records looks here.
            self.error = exc
