"""A share of what a shard gives out, so that its other readers keep theirs."""

from __future__ import annotations

import time

SHARD_BYTES_PER_S = 2 * 2**20
SHARD_CALLS_PER_S = 5
"""What one shard gives out to all of its readers together (service limits, shared throughput)."""


def reading_s(calls: int, size_bytes: int, fraction: float) -> float:
    """How long a share of a shard's limits takes for calls that give so many bytes, seconds."""
    return max(calls / SHARD_CALLS_PER_S, size_bytes / SHARD_BYTES_PER_S) / fraction


class ReadQuota:
    """Paces the calls of one reader of one shard.

    Args:
        fraction: the share of the shard's limits, above 0 and up to 1.
    """

    def __init__(self, fraction: float) -> None:
        self._fraction = fraction

    def wait(self, called_at_s: float, size_bytes: int) -> None:
        """Wait until the next call is within the share, the last one having given so many bytes.

        Args:
            called_at_s: when that one was made, by the monotonic clock. What made it late is not made up for: the shard
                holds no more than a second's worth for its readers.
        """
        next_at_s = called_at_s + reading_s(1, size_bytes, self._fraction)
        time.sleep(max(0.0, next_at_s - time.monotonic()))
