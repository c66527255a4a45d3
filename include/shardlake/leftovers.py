"""What killed processes leave in a dataset, cleared away once nobody can need it."""

from __future__ import annotations

from shardlake.lake.home import Home
from shardlake.ledger import Ledger
from shardlake.names import temporary_directory
from shardlake.plan import BatchPlan


def clear_away(home: Home, ledger: Ledger) -> None:
    """Remove the temporary files of batches that are over, and control files half written long ago.

    An attempt that is still at work for such a batch fails, which is as well: its range is published or lost. Folders
    of batches that the ledger does not know are left for people to look at.
    """
    for batch_id in home.names(temporary_directory("")):
        if _is_over(ledger, batch_id):
            home.remove_directory(temporary_directory(batch_id))
    home.remove_abandoned()


def _is_over(ledger: Ledger, batch_id: str) -> bool:
    """Whether a batch has no range left to publish: each was committed, by it or by a later one, or lost."""
    text = ledger.batch(batch_id)
    if text is None:
        return False
    plan = BatchPlan.from_text(text)
    open_ranges = {chain.open_range for chain in ledger.chains(plan.pipeline, plan.namespace).values()}
    return open_ranges.isdisjoint(plan.ranges)
