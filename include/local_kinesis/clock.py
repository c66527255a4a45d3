"""The service's clock, which can be moved ahead: arrival times, the Date header, retention and expiry follow it."""

import time


class Clock:
    """Milliseconds since the epoch, never going back, so that arrival times within a shard are in order."""

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._last_ms = 0

    def now_ms(self) -> int:
        """The service's time."""
        now_ms = time.time_ns() // 1_000_000 + self._ahead_ms
        self._last_ms = max(self._last_ms, now_ms)
        return self._last_ms

    def advance(self, seconds: float) -> None:
        """Moves the clock ahead; there is no way back."""
        self._ahead_ms += round(seconds * 1000)
