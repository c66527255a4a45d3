"""The SQL ledger does what the one in memory does, whatever is asked of them in whatever order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shardlake.caught_up import CaughtUp
from shardlake.errors import ShardlakeError
from shardlake.ledger import Contents, JournalEntry, Ledger, LedgerRange, open_ledger
from shardlake.ledger.memory import MemoryLedger
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SHARD_END, Position, SequenceNumber, SequenceRange, Start

T = TypeVar("T")

SHARDS = ("s0", "s1", "s2")
NAMESPACES = ("live", "b0")
namespaces = st.sampled_from(NAMESPACES)
shard_ids = st.sampled_from(SHARDS)
runs = st.sampled_from(["r0", "r1", "r2", "r3", "r4", "r5"])
numbers = st.integers(1, 60)
starts = st.builds(Start, st.sampled_from(["AT", "AFTER"]), numbers.map(lambda n: SequenceNumber(str(n))))
contents = st.builds(Contents, st.just(1), st.just(2), st.sampled_from("cd"))


class TwoLedgers(RuleBasedStateMachine):
    """Both ledgers are asked the same; they must say the same and come to hold the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="shardlake-ledger-")
        self.model: Ledger = MemoryLedger()
        self.sql = open_ledger(f"sqlite:///{self.folder}/ledger.db")
        self.plans: list[BatchPlan] = []

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def both(self, ask: Callable[[Ledger], T]) -> T | str:
        """What both ledgers answer, or the text of the error that both raise."""
        answers: list[T | str] = []
        for ledger in (self.model, self.sql):
            try:
                answers.append(ask(ledger))
            except ShardlakeError as error:
                answers.append(f"{type(error)} {error}")
        assert answers[0] == answers[1]
        return answers[0]

    @initialize(start=starts)
    def open_first(self, start: Start) -> None:
        self.both(lambda ledger: ledger.record_listing("p", "live", [], {"s0": start}))

    @rule(shard_id=shard_ids, start=starts | st.just(SHARD_END), namespace=namespaces)
    def open_chain(self, shard_id: str, start: Position, namespace: str) -> None:
        self.both(lambda ledger: ledger.record_listing("p", namespace, [], {shard_id: start}))

    @rule(namespace=namespaces, text=st.sampled_from(["{}", "[]"]), of_shards=st.dictionaries(shard_ids, starts))
    def open_backfill(self, namespace: str, text: str, of_shards: dict[str, Start]) -> None:
        self.both(lambda ledger: ledger.open_backfill("p", namespace, text, of_shards))

    @rule(
        namespace=namespaces,
        run=runs,
        lengths=st.dictionaries(shard_ids, st.integers(1, 5) | st.none()),
        stray=st.booleans(),
    )
    def pin(self, namespace: str, run: str, lengths: dict[str, int | None], stray: bool) -> None:
        proposed = [
            range_
            for shard_id, length in lengths.items()
            if (range_ := self.next_range(namespace, shard_id, length, stray))
        ]
        stream = Stream("s", "arn", 1, 2, "eu-west-1", None)
        draft = BatchPlan(f"b-{run}", "p", namespace, Run("d", run), stream, "/lake", "a" * 32, 0, False, ())
        text = self.both(lambda ledger: ledger.pin(draft, proposed, 2))
        if text.startswith("{"):
            self.plans.append(BatchPlan.from_text(text))

    @precondition(lambda self: self.plans)
    @rule(data=st.data(), held=contents, shorter=st.booleans())
    def commit(self, data: st.DataObject, held: Contents, shorter: bool) -> None:
        plan = data.draw(st.sampled_from(self.plans))
        ranges = [shortened(range_) if shorter else range_ for range_ in plan.ranges]
        self.both(lambda ledger: ledger.commit(plan, dict.fromkeys(ranges, held)))
        self.both(lambda ledger: list(ledger.committed(plan).items()))

    @rule(
        namespace=namespaces,
        shard_id=shard_ids,
        length=st.integers(1, 5) | st.none(),
        with_rest=st.booleans(),
        stray=st.booleans(),
    )
    def declare_lost(self, namespace: str, shard_id: str, length: int | None, with_rest: bool, stray: bool) -> None:
        lost = self.next_range(namespace, shard_id, length, stray)
        if lost is None:
            return
        rest = None
        if with_rest and isinstance(lost.through, SequenceNumber):
            first = lost.through.plus(1)
            rest = SequenceRange(shard_id, Start("AT", first), lost.through.plus(3), first)
        for _ in range(2):
            self.both(lambda ledger: ledger.declare_lost("p", namespace, "b-lost", lost, rest))

    @rule(namespace=namespaces, shard_id=shard_ids, length=st.integers(1, 5), is_open=st.booleans(), at_ms=numbers)
    def abandon(self, namespace: str, shard_id: str, length: int, is_open: bool, at_ms: int) -> None:
        chain = self.model.chains("p", namespace).get(shard_id)
        range_ = chain.open_range if chain and is_open else self.next_range(namespace, shard_id, length, not is_open)
        if range_:
            entry = JournalEntry(at_ms, "ada", "abandon", "p", namespace, range_, "a reason")
            self.both(lambda ledger: ledger.abandon(entry, lambda: None))

    @rule(namespace=namespaces, shard_id=shard_ids, at_ms=numbers, retention_ms=numbers, start=starts)
    def mark_caught_up(self, namespace: str, shard_id: str, at_ms: int, retention_ms: int, start: Start) -> None:
        chain = self.model.chains("p", namespace).get(shard_id)
        position = chain.position if chain and at_ms % 2 else start
        note = CaughtUp(position.key, at_ms, retention_ms)
        self.both(lambda ledger: ledger.record_listing("p", namespace, [], {}, {shard_id: note}))

    @invariant()
    def both_hold_the_same(self) -> None:
        for namespace in NAMESPACES:
            self.both(lambda ledger, of=namespace: list(ledger.chains("p", of).items()))  # type: ignore[misc]
            self.both(lambda ledger, of=namespace: [untimed(row) for row in ledger.ranges("p", of)])  # type: ignore[misc]
        self.both(lambda ledger: ledger.backfills("p"))
        self.both(lambda ledger: [str(entry) for entry in ledger.journal("p")])

    @invariant()
    def ranges_form_chains(self) -> None:
        for namespace in NAMESPACES:
            for shard_id in self.model.chains("p", namespace):
                rows = list(self.sql.ranges("p", namespace, shard_id))
                assert [row.range.start.key for row in rows[1:]] == [row.range.through.key for row in rows[:-1]]
                assert all(row.state != "planned" for row in rows[:-1])

    def next_range(self, namespace: str, shard_id: str, length: int | None, stray: bool) -> SequenceRange | None:
        """A range of `length` numbers (None: to the shard's end) at the position of a shard, or away from it."""
        chain = self.model.chains("p", namespace).get(shard_id)
        start = chain.position if chain else Start("AFTER", SequenceNumber("7"))
        if not isinstance(start, Start):
            return None
        if stray:
            start = Start("AFTER", start.number.plus(1))
        through = SHARD_END if length is None else start.number.plus(length)
        return SequenceRange(shard_id, start, through, start.number)


def shortened(range_: SequenceRange) -> SequenceRange:
    """The range with another end, where there is room for one."""
    through = range_.start.number.plus(1)
    return replace(range_, through=through)


def untimed(row: LedgerRange) -> LedgerRange:
    return replace(row, closed_at_ms=None if row.closed_at_ms is None else 0)


TestTwoLedgers = pytest.mark.slow(TwoLedgers.TestCase)
TestTwoLedgers.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
