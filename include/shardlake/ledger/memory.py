"""The ledger in memory: for tests and simulation; it is gone with the process."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shardlake.caught_up import CaughtUp
from shardlake.ledger import NO_NOTES, Chain, Contents, Identity, JournalEntry, Ledger, LedgerRange, State
from shardlake.ledger.chain import (
    chain_of,
    check_abandon,
    check_backfill,
    check_loss,
    choose,
    conflict,
    contents_of,
    is_news,
    is_open,
    merge_listing,
    was_seen,
)
from shardlake.ledger.restoring import Told, lacking
from shardlake.plan import BatchPlan
from shardlake.ranges import Position, SequenceRange
from shardlake.shards import Shard


@dataclass(slots=True)
class _StoredChain:
    """A chain's start and its ranges by start key; they are added in order."""

    start: Position
    rows: dict[str, LedgerRange] = field(default_factory=dict)
    caught_up: CaughtUp | None = None

    def stand(self, shard_id: str) -> Chain:
        tip = next(reversed(self.rows.values())) if self.rows else None
        return chain_of(shard_id, self.start, tip, self.caught_up)


@dataclass(slots=True)
class _StoredBackfill:
    text: str
    created_at_ms: int


class MemoryLedger(Ledger):
    """A ledger under one lock. Values are immutable, so what is handed out never changes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._ledger_id = uuid.uuid4().hex
        self._identities: dict[str, Identity] = {}
        self._shards: dict[str, dict[str, Shard]] = {}
        self._chains: dict[tuple[str, str], dict[str, _StoredChain]] = {}
        self._batches: dict[str, str] = {}
        self._backfills: dict[str, dict[str, _StoredBackfill]] = {}
        self._journal: dict[str, list[JournalEntry]] = {}

    @property
    def ledger_id(self) -> str:
        return self._ledger_id

    def claim(self, identity: Identity) -> Identity:
        with self._lock:
            return self._identities.setdefault(identity.pipeline, identity)

    def shards(self, pipeline: str) -> dict[str, Shard]:
        with self._lock:
            return dict(self._shards.get(pipeline, {}))

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
        with self._lock:
            known = self._shards.setdefault(pipeline, {})
            if first and known:
                return False
            known.update(merge_listing(known, listed))
            self._open_chains(pipeline, namespace, starts)
            self._note_caught_up(pipeline, namespace, caught_up)
            return True

    def open_backfill(self, pipeline: str, namespace: str, text: str, starts: Mapping[str, Position]) -> str:
        with self._lock:
            stored = self._backfills.setdefault(pipeline, {})
            if namespace not in stored:
                check_backfill(namespace)
                stored[namespace] = _StoredBackfill(text, _local_time_ms())
                self._open_chains(pipeline, namespace, starts)
            return stored[namespace].text

    def backfill(self, pipeline: str, namespace: str) -> str | None:
        return self.backfills(pipeline).get(namespace)

    def backfills(self, pipeline: str) -> dict[str, str]:
        with self._lock:
            stored = self._backfills.get(pipeline, {})
            opened = sorted(stored, key=lambda namespace: (stored[namespace].created_at_ms, namespace))
            return {namespace: stored[namespace].text for namespace in opened}

    def chains(self, pipeline: str, namespace: str) -> dict[str, Chain]:
        with self._lock:
            stored = self._chains.get((pipeline, namespace), {})
            return {shard_id: stored[shard_id].stand(shard_id) for shard_id in sorted(stored)}

    def batch(self, batch_id: str) -> str | None:
        with self._lock:
            return self._batches.get(batch_id)

    def pin(self, draft: BatchPlan, proposed: Sequence[SequenceRange], group_size: int) -> str:
        with self._lock:
            if draft.batch_id not in self._batches:
                chosen, new = choose(proposed, self.chains(draft.pipeline, draft.namespace))
                for range_ in new:
                    self._append(
                        draft.pipeline, draft.namespace, LedgerRange(range_, "planned", draft.batch_id, None, None)
                    )
                self._batches[draft.batch_id] = draft.with_ranges(chosen, group_size).to_text()
            return self._batches[draft.batch_id]

    def commit(
        self,
        plan: BatchPlan,
        contents: Mapping[SequenceRange, Contents],
        seen: Mapping[SequenceRange, str] | None = None,
    ) -> list[str]:
        messages = []
        with self._lock:
            stored = self._chains.get((plan.pipeline, plan.namespace), {})
            chains = self.chains(plan.pipeline, plan.namespace)
            for range_, held in contents.items():
                chain = chains.get(range_.shard_id)
                rows = stored[range_.shard_id].rows if chain else {}
                row = rows.get(range_.start.key)
                if row and is_open(range_, chain) and was_seen(row, seen):
                    rows[range_.start.key] = replace(
                        row, state="committed", contents=held, closed_at_ms=_local_time_ms()
                    )
                elif message := conflict(range_, held, row, chain):
                    messages.append(message)
        return messages

    def committed(self, plan: BatchPlan) -> dict[SequenceRange, Contents]:
        with self._lock:
            stored = self._chains.get((plan.pipeline, plan.namespace), {})
            return contents_of(plan, {(id_, key): row for id_, c in stored.items() for key, row in c.rows.items()})

    def declare_lost(
        self, pipeline: str, namespace: str, batch_id: str, lost: SequenceRange, rest: SequenceRange | None
    ) -> None:
        with self._lock:
            chain = self._chains.get((pipeline, namespace), {}).get(lost.shard_id)
            there = chain.rows.get(lost.start.key) if chain else None
            if there and there.state == "lost" and there.range.through == lost.through:
                return
            check_loss(chain.stand(lost.shard_id) if chain else None, lost, rest)
            if there and chain:
                del chain.rows[lost.start.key]
            self._append(pipeline, namespace, LedgerRange(lost, "lost", batch_id, None, _local_time_ms()))
            if rest:
                self._append(pipeline, namespace, LedgerRange(rest, "planned", batch_id, None, None))

    def abandon(self, entry: JournalEntry, remove_files: Callable[[], None]) -> None:
        with self._lock:
            stored = self._chains.get((entry.pipeline, entry.namespace), {}).get(entry.range.shard_id)
            check_abandon(stored.stand(entry.range.shard_id) if stored else None, entry)
            remove_files()
            if stored:
                del stored.rows[entry.range.start.key]
            self.record(entry)

    def record(self, entry: JournalEntry) -> None:
        with self._lock:
            self._journal.setdefault(entry.pipeline, []).append(entry)

    def journal(self, pipeline: str) -> list[JournalEntry]:
        with self._lock:
            return sorted(self._journal.get(pipeline, []), key=lambda entry: entry.at_ms)

    def ranges(
        self, pipeline: str, namespace: str, shard_id: str | None = None, state: State | None = None
    ) -> Iterator[LedgerRange]:
        with self._lock:
            stored = self._chains.get((pipeline, namespace), {})
            rows = [
                row
                for shard in sorted(stored)
                for row in stored[shard].rows.values()
                if shard_id in (None, shard) and state in (None, row.state)
            ]
        return iter(rows)

    def restore(self, pipeline: str, shards: Sequence[Shard], told: Sequence[Told]) -> None:
        with self._lock:
            lacks = [
                lacking(each, self.chains(pipeline, each.namespace), self.ranges(pipeline, each.namespace))
                for each in told
            ]
            known = self._shards.setdefault(pipeline, {})
            known.update({shard.shard_id: shard for shard in shards if shard.shard_id not in known})
            for each, missing in zip(told, lacks, strict=True):
                self._open_chains(pipeline, each.namespace, each.starts)
                self._note_caught_up(pipeline, each.namespace, each.caught_up)
                for lack in missing:
                    if lack.in_the_way:
                        rows = self._chains[pipeline, each.namespace][lack.in_the_way.shard_id].rows
                        del rows[lack.in_the_way.start.key]
                    for row in lack.rows:
                        self._append(pipeline, each.namespace, row)
                for plan in each.batches:
                    self._batches.setdefault(plan.batch_id, plan.to_text())
                if each.bounds is not None:
                    backfills = self._backfills.setdefault(pipeline, {})
                    backfills.setdefault(each.namespace, _StoredBackfill(each.bounds, each.opened_at_ms))

    def _open_chains(self, pipeline: str, namespace: str, starts: Mapping[str, Position]) -> None:
        chains = self._chains.setdefault((pipeline, namespace), {})
        for shard_id, start in starts.items():
            chains.setdefault(shard_id, _StoredChain(start))

    def _note_caught_up(self, pipeline: str, namespace: str, notes: Mapping[str, CaughtUp]) -> None:
        chains = self.chains(pipeline, namespace)
        for shard_id, note in notes.items():
            if is_news(chains.get(shard_id), note):
                self._chains[pipeline, namespace][shard_id].caught_up = note

    def _append(self, pipeline: str, namespace: str, row: LedgerRange) -> None:
        self._chains[pipeline, namespace][row.range.shard_id].rows[row.range.start.key] = row


def _local_time_ms() -> int:
    return time.time_ns() // 1_000_000
