"""The service's clock, which can be moved: arrival times, the Date header, retention and expiry follow it."""

import time


class Clock:
    """Milliseconds since the epoch, going back only in a jump that was ordered, whatever this machine's clock does."""

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._last_ms = 0

    def now_ms(self) -> int:
        """The service's time."""
        now_ms = time.time_ns() // 1_000_000 + self._ahead_ms
        self._last_ms = max(self._last_ms, now_ms)
        return self._last_ms

    def advance(self, seconds: float) -> None:
        """Moves the clock ahead."""
        self._ahead_ms += round(seconds * 1000)

    def jump(self, seconds: float) -> None:
        """Moves the clock ahead or back."""
        self._ahead_ms += round(seconds * 1000)
        self._last_ms = 0
