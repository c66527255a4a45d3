"""The ledger, or offsets store: what it promises, whatever keeps it.

Per (pipeline, namespace, shard) the ledger holds a chain of ranges, each starting where the one before it ends:
`planned` (open; at most one a chain), then `committed`; or `lost`. The position of a shard is the end of its last
committed or lost range, or the chain's own start while there is none. Everything that decides is one transaction.

A backfill has a namespace, and with it chains, of its own. A journal keeps what a person did to a range, and why.

Stores: `memory` (tests, simulation), `sql` (SQLite, PostgreSQL). `open_ledger` picks one by its URL.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from shardlake.caught_up import CaughtUp
from shardlake.plan import BatchPlan
from shardlake.ranges import Position, SequenceRange
from shardlake.shards import Shard

if TYPE_CHECKING:
    from shardlake.ledger.restoring import Told

State = Literal["planned", "committed", "lost"]
Action = Literal["repair", "abandon"]

MOST_OF_WHO = 200
MOST_OF_REASON = 2000
"""The most characters that a journal entry's `who` and `reason` may have."""

NO_NOTES: Mapping[str, CaughtUp] = MappingProxyType({})

_STORABLE = re.compile(r"[^\0\ud800-\udfff]*")
"""Text that both databases take and give back as it was: a command line that is not UTF-8 has surrogates in it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose data a pipeline of this ledger is. It is stored once and never changes."""

    pipeline: str
    stream_arn: str
    stream_created_at_ms: int
    dataset: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Where a shard stands in a namespace.

    Attributes:
        position: the end of the last closed range, or the chain's start; `SHARD_END`: the shard is finished.
        open_range: the one planned range, which starts at `position`; None: nothing is planned.
        caught_up: the last note that nothing was found after `position`; None where that was never seen of it.
    """

    shard_id: str
    position: Position
    open_range: SequenceRange | None
    caught_up: CaughtUp | None


@dataclass(frozen=True, slots=True)
class Contents:
    """What the file of a range holds: rows of the file, bytes of the file, and the checksum of its rows."""

    rows: int
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class LedgerRange:
    """One row of a chain.

    Attributes:
        batch_id: the batch that planned the range first.
        contents: what its file holds; None unless committed.
        closed_at_ms: local time of the commit or of the declaration of loss, for people; None while planned.
    """

    range: SequenceRange
    state: State
    batch_id: str
    contents: Contents | None
    closed_at_ms: int | None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What a person did to a range, and why.

    Attributes:
        at_ms: local time.
        who: the person, in their own words or the system's; may be empty.
        reason: why, in the person's words.

    Raises:
        ValueError: the action is unknown, there is no reason, or a text is longer than the ledger takes or holds what
            a database cannot.
    """

    at_ms: int
    who: str
    action: Action
    pipeline: str
    namespace: str
    range: SequenceRange
    reason: str

    def __post_init__(self) -> None:
        if self.action not in get_args(Action):
            raise ValueError(f"an action of the journal is one of {', '.join(get_args(Action))}, found {self.action!r}")
        for name, text, least, most in (("who", self.who, 0, MOST_OF_WHO), ("reason", self.reason, 1, MOST_OF_REASON)):
            if not least <= len(text) <= most:
                raise ValueError(f"{name} has {least} to {most} characters, found {len(text)}")
            if not _STORABLE.fullmatch(text):
                raise ValueError(f"{name} is text without NUL and lone surrogates")


class Ledger(ABC):
    """The contract. One suite of tests runs over every store: `test_ledger.py` and `test_ledger_people.py`.

    Every method but `ranges` (a transaction a page) is one transaction and safe under concurrent callers. All raise
    `UnavailableError` when the store cannot be reached or its answer is lost: the same call again finds out.
    """

    @property
    @abstractmethod
    def ledger_id(self) -> str:
        """A random id made when the ledger was created: tells it from a restored copy under another name."""

    @abstractmethod
    def claim(self, identity: Identity) -> Identity:
        """Store `identity` if its pipeline has none yet; return the stored one, which may differ."""

    @abstractmethod
    def shards(self, pipeline: str) -> dict[str, Shard]:
        """Every shard that a listing ever showed, by shard id. Empty before the first complete listing."""

    @abstractmethod
    def record_listing(
        self,
        pipeline: str,
        namespace: str,
        listed: Sequence[Shard],
        starts: Mapping[str, Position],
        caught_up: Mapping[str, CaughtUp] = NO_NOTES,
        *,
        first: bool = False,
    ) -> bool:
        """Store one complete listing: new shards, ends of known ones, `missing` counts; and open chains at `starts`.

        In one transaction, for a chain without the note that nothing was there would begin with a loss.

        A chain that is there already keeps its start. Each call counts as another listing: to try again, list again.

        Args:
            caught_up: per shard the note that nothing was found after a position; left out where it has moved on.
            first: the starts are those of a first listing, which hold for no other.

        Returns:
            Whether it is stored: a first listing is not where there is one already.
        """

    @abstractmethod
    def open_backfill(self, pipeline: str, namespace: str, text: str, starts: Mapping[str, Position]) -> str:
        """Store the text of a new backfill, which says its bounds, and open its chains at `starts`.

        If the namespace has a backfill already, nothing changes.

        Returns:
            The backfill's text as stored, which may differ: the first wins.

        Raises:
            ConflictError: the namespace is that of scheduled ingestion.
        """

    @abstractmethod
    def backfill(self, pipeline: str, namespace: str) -> str | None:
        """The text of a backfill, or None."""

    @abstractmethod
    def backfills(self, pipeline: str) -> dict[str, str]:
        """The text of every backfill by its namespace: the first opened first, in one millisecond by namespace."""

    @abstractmethod
    def chains(self, pipeline: str, namespace: str) -> dict[str, Chain]:
        """Where every shard with a chain stands, by shard id. Its cost does not grow with the chains' length."""

    @abstractmethod
    def batch(self, batch_id: str) -> str | None:
        """The text of a pinned plan, or None."""

    @abstractmethod
    def pin(self, draft: BatchPlan, proposed: Sequence[SequenceRange], group_size: int) -> str:
        """Pin the ranges of a batch and return the text of its plan, as it now stands in the ledger.

        If the batch is there already, its text comes back and nothing changes. Otherwise, per proposed range: if its
        chain has an open range, that one is taken over as it is; if the position is the range's start, the range is
        planned; else (the position has moved on) it is left out. The plan is `draft` with those ranges.

        Raises:
            ConflictError: a shard is proposed twice, or has no chain.
        """

    @abstractmethod
    def commit(
        self,
        plan: BatchPlan,
        contents: Mapping[SequenceRange, Contents],
        seen: Mapping[SequenceRange, str] | None = None,
    ) -> list[str]:
        """Move positions from each range's start to its end by compare-and-set; all that can be are committed.

        A range that is committed already with the same end and checksum is left as it is.

        Args:
            seen: the ranges that were open when their files were looked at, with the batches that had planned them:
                one that is open by another batch was abandoned since, with its file. None: nobody has looked.

        Returns:
            One message for each range in conflict (another range or checksum has its place, or its chain has no such
            open range): what was expected, what was found, the likely cause. Empty when all are committed.
        """

    @abstractmethod
    def committed(self, plan: BatchPlan) -> dict[SequenceRange, Contents]:
        """Those ranges of a plan that are committed, in the plan's order, with their contents."""

    @abstractmethod
    def declare_lost(
        self, pipeline: str, namespace: str, batch_id: str, lost: SequenceRange, rest: SequenceRange | None
    ) -> None:
        """Close the stretch `lost` as lost and open `rest` behind it, in place of an open range if there is one.

        `lost` starts at the shard's position. `rest`, if given, starts at its end (as `AT` the first record left).
        Where `lost` is recorded as lost already, nothing changes.

        Raises:
            ConflictError: the position is not where `lost` starts, or `rest` does not start where `lost` ends.
        """

    @abstractmethod
    def abandon(self, entry: JournalEntry, remove_files: Callable[[], None]) -> None:
        """Take the open range of `entry` out of its chain, and append the entry to the journal.

        `remove_files` is called in between, while nobody can commit the range; what it raises leaves the range open.
        The position stays: the next batch plans anew from there. Called again after a lost answer, this is a conflict
        if it was done: the journal has the entry.

        Raises:
            ConflictError: the range is not the open one of its chain.
            ValueError: the entry's action is another one.
        """

    @abstractmethod
    def record(self, entry: JournalEntry) -> None:
        """Append an entry to the journal; called again, it appends another one."""

    @abstractmethod
    def journal(self, pipeline: str) -> list[JournalEntry]:
        """The entries of a pipeline, by time; those of the same time as they were written."""

    @abstractmethod
    def ranges(
        self, pipeline: str, namespace: str, shard_id: str | None = None, state: State | None = None
    ) -> Iterator[LedgerRange]:
        """The rows of the chains, by shard id and start, paged: memory does not grow with their number."""

    @abstractmethod
    def restore(self, pipeline: str, shards: Sequence[Shard], told: Sequence[Told]) -> None:
        """Add what the ledger lacks of what a dataset tells: shards, chains, ranges, batches and backfills.

        What is there stays as it is, but for open ranges in the place of which the dataset has others.

        Raises:
            ConflictError: the ledger has closed what the dataset does not tell; nothing was changed.
        """


def open_ledger(url: str) -> Ledger:
    """The ledger at a SQLAlchemy URL, its schema brought up to date; SQLite makes its file.

    Raises:
        ConfigError: the URL is not one of a supported store, or the schema is newer than this code.
        UnavailableError: the store cannot be reached or written.
    """
    from shardlake.ledger.sql import SqlLedger

    return SqlLedger.open(url)
