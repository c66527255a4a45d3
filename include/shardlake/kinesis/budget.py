"""How long trouble may last: throttles, errors, lost connections and empty pages alike."""

from __future__ import annotations

import time

from shardlake.errors import UnavailableError
from shardlake.kinesis.hands import Hands


class Budget:
    """Time for trouble, from the first failure to the next progress; then the failure counts.

    What measures it is time without progress, not the sum of failures: a range that is read slowly, because others use
    up the shard's quota, does not fail as long as records come. Whoever has the budget says what progress is. Time
    without trouble costs nothing, nor does the failing call itself before it has failed.

    Args:
        seconds: how long trouble may last.
        hands: what holds no page while it waits.
    """

    def __init__(self, seconds: float, hands: Hands | None = None) -> None:
        self.seconds = seconds
        self.hands = hands or Hands()
        self._since_s: float | None = None

    def renew(self) -> None:
        """There was progress: what comes next has the whole budget."""
        self._since_s = None

    def wait(self, pause_s: float, failure: UnavailableError) -> None:
        """Wait before another try, the last of which is made when the budget ends.

        Raises:
            UnavailableError: the failure, lasting for longer than the budget.
        """
        now_s, since_s = time.monotonic(), self._since_s
        if since_s is None:
            self._since_s = since_s = now_s
        left_s = since_s + self.seconds - now_s
        if left_s <= 0:
            what = f"{failure.what.rstrip('.')}; no progress for {self.seconds:.0f} s"
            raise UnavailableError(what, todo=failure.todo) from failure
        with self.hands.empty():
            time.sleep(min(pause_s, left_s))
