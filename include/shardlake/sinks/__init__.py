"""A sink: what a batch becomes. The commit belongs to it, so that a sink can commit data and positions as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from shardlake.errors import ShardlakeError
from shardlake.kinesis.page import Page
from shardlake.ledger import Contents, Ledger
from shardlake.plan import BatchPlan
from shardlake.ranges import SequenceRange


@dataclass(frozen=True, slots=True)
class Published:
    """A range in the store.

    Attributes:
        records: the raw records that it was made from; None: they were not counted.
        quarantined: how many of them are in the quarantine instead.
        dropped: how many of them are nowhere.
    """

    contents: Contents
    records: int | None
    quarantined: int
    dropped: int


class Sink(Protocol):
    """What the steps ask of a sink; `sinks.parquet` is the one there is."""

    def write(self, plan: BatchPlan, range_: SequenceRange, read: Callable[[], Iterable[Page]]) -> Published:
        """Publish a range, in a Spark task; what is published already is adopted and nothing is read."""

    def verify(
        self, plan: BatchPlan, ranges: Iterable[SequenceRange]
    ) -> dict[SequenceRange, Contents | ShardlakeError]:
        """What the store holds of ranges of a plan: each one's contents, or why it does not hold."""

    def still_holds(self, range_: SequenceRange, contents: Contents) -> bool:
        """Whether the store still has what verify found of a range, at a glance."""

    def commit(
        self,
        ledger: Ledger,
        plan: BatchPlan,
        verified: Mapping[SequenceRange, Contents],
        seen: Mapping[SequenceRange, str],
    ) -> list[str]:
        """Make verified ranges count, by compare-and-set; one message for each in conflict. See `Ledger.commit`."""
