"""A share of what a shard gives out, so that its other readers keep theirs."""

from __future__ import annotations

import time

SHARD_BYTES_PER_S = 2 * 2**20
SHARD_CALLS_PER_S = 5
"""What one shard gives out to all of its readers together (service limits, shared throughput)."""

HOLDS_S = 1.0
"""What a shard holds for readers that are late, as the time in which it gathers: the limits are those of a second."""

WAY_S = 0.1
"""How much longer one call may be on its way than another: so much is left where a shard is."""


def reading_s(calls: int, size_bytes: int, fraction: float) -> float:
    """How long a share of a shard's limits takes for calls that give so many bytes, seconds."""
    return max(calls / SHARD_CALLS_PER_S, size_bytes / SHARD_BYTES_PER_S) / fraction


class ReadQuota:
    """Paces the calls of one reader of one shard, which has a share of what the shard holds as well as of its rate.

    A call that came late is made up for from what the shard has gathered meanwhile.

    Args:
        fraction: the share of the shard's limits, above 0 and up to 1.
        empty_at_s: when the shard held nothing, as far as one knows, by the monotonic clock.
    """

    def __init__(self, fraction: float, empty_at_s: float) -> None:
        self._fraction, self._full_at_s = fraction, empty_at_s + HOLDS_S

    def found_empty(self, at_s: float) -> None:
        """The shard held nothing at another time: it refused a call."""
        self._full_at_s = max(self._full_at_s, at_s + HOLDS_S)

    def wait(self, called_at_s: float, size_bytes: int) -> None:
        """Wait until the next call is within the share, the last one having given so many bytes.

        Args:
            called_at_s: when that one was made, by the monotonic clock.
        """
        taken_s = reading_s(1, size_bytes, self._fraction)
        self._full_at_s = max(self._full_at_s, called_at_s) + taken_s
        next_at_s = self._full_at_s - max(0.0, HOLDS_S - taken_s - WAY_S)
        time.sleep(max(0.0, next_at_s - time.monotonic()))
