"""The note that nothing was behind a position, and what it rules out later."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_RETENTION_MS = 86_400_000
"""The shortest retention that a stream can have (service limit)."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Nothing was found after a position, with MillisBehindLatest 0.

    Attributes:
        key: the position's key.
        at_ms: the service's time then, milliseconds since the epoch.
        retention_ms: the stream's retention then.
    """

    key: str
    at_ms: int
    retention_ms: int

    def rules_out_loss(self, service_time_ms: int, retention_ms: int) -> bool:
        """Whether all that may have come after the position since then is still retained.

        It is kept for the shorter of the two retentions, then and now: what a stream has let go does not come back when
        its retention is raised. One that was lowered and raised again in between cannot be seen.

        Args:
            service_time_ms: now, as a reply's Date header has it: whole seconds.
            retention_ms: the stream's retention now.
        """
        return self.at_ms >= service_time_ms + 1_000 - min(self.retention_ms, retention_ms)

    def is_recent(self, service_time_ms: int) -> bool:
        """Whether it rules out loss to the end of a plan that begins now, however the retention is lowered meanwhile.

        Half of the shortest retention is more than any plan takes.
        """
        return self.rules_out_loss(service_time_ms, LEAST_RETENTION_MS // 2)
