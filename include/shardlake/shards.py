"""The shard tree of a stream: what ListShards tells, and which shards may be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard of the stream's tree, as ListShards tells it. Hash keys are decimal texts of 128-bit numbers.

    Attributes:
        parents: none, one (split) or two (merge) shard ids.
        ending_sequence_number: None while the shard is open.
        missing: how many listings in a row have left this shard out; 0 for one just listed.
    """

    shard_id: str
    parents: tuple[str, ...]
    starting_hash_key: str
    ending_hash_key: str
    starting_sequence_number: str
    ending_sequence_number: str | None
    missing: int = 0

    @property
    def closed(self) -> bool:
        """Whether a reshard has ended this shard."""
        return self.ending_sequence_number is not None

    @property
    def expired(self) -> bool:
        """Whether the shard has left the stream: one listing may be incomplete (a reshard), not two in a row."""
        return self.missing >= 2


def readable(shards: Mapping[str, Shard], finished: Collection[str]) -> list[Shard]:
    """The unfinished shards whose known parents are all finished, by shard id: parents before children.

    A parent that the ledger never saw left the listing before the pipeline began: its records have expired, and it
    does not hold back its children.

    Args:
        shards: every shard known, by id.
        finished: ids of the shards that are committed through `SHARD_END`, or lost to it.
    """
    return [
        shard
        for shard_id, shard in sorted(shards.items())
        if shard_id not in finished and all(parent in finished for parent in shard.parents if parent in shards)
    ]
