"""What people ask of every ledger beside scheduled ingestion: backfills, abandoned ranges, and the journal of both."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Barrier, Event, Thread
from typing import TypeVar

import pytest

from shardlake.errors import ConflictError, UnavailableError
from shardlake.ledger import Chain, Contents, JournalEntry, Ledger
from shardlake.names import LIVE
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start

T = TypeVar("T")

A, B = "shardId-000000000000", "shardId-000000000001"
HELD = Contents(rows=3, bytes=700, checksum="c0ffee")


def after(n: int) -> Start:
    return Start("AFTER", SequenceNumber(str(n)))


def range_of(shard_id: str, start: int, through: int) -> SequenceRange:
    return SequenceRange(shard_id, after(start), SequenceNumber(str(through)), SequenceNumber(str(start + 1)))


def pin(ledger: Ledger, run: str, *ranges: SequenceRange, namespace: str = LIVE) -> BatchPlan:
    stream = Stream("s", "arn", 1, 2, "eu-west-1", None)
    draft = BatchPlan(f"b-{run}", "p", namespace, Run("d", run), stream, "/lake", "a" * 32, 0, False, ())
    return BatchPlan.from_text(ledger.pin(draft, ranges, 1))


def entry(range_: SequenceRange, **other: object) -> JournalEntry:
    """The entry of an abandoned range, but for `other`."""
    return replace(JournalEntry(1000, "ada", "abandon", "p", LIVE, range_, "its plan was wrong"), **other)  # type: ignore[arg-type]


def files_are_kept() -> None:
    raise AssertionError("files of a range that is not open would be removed")


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls return, in their order; they start together."""
    gate = Barrier(len(calls))

    def call(it: Callable[[], T]) -> T:
        gate.wait()
        return it()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


@pytest.fixture
def opened(ledger: Ledger) -> Ledger:
    """A ledger with the live chains of two shards, each starting AFTER 10."""
    ledger.record_listing("p", LIVE, [], {A: after(10), B: after(10)})
    return ledger


class TestBackfills:
    def test_a_backfill_opens_its_chains_beside_the_live_ones(self, opened: Ledger) -> None:
        assert opened.open_backfill("p", "may", '{"from": "May"}', {A: after(3), B: SHARD_END}) == '{"from": "May"}'
        assert opened.backfill("p", "may") == '{"from": "May"}'
        assert opened.chains("p", "may") == {A: Chain(A, after(3), None, None), B: Chain(B, SHARD_END, None, None)}
        plan = pin(opened, "r1", range_of(A, 3, 7), namespace="may")
        assert opened.commit(plan, {range_of(A, 3, 7): HELD}) == []
        assert opened.chains("p", "may")[A].position == after(7)
        assert opened.chains("p", LIVE)[A] == Chain(A, after(10), None, None)

    def test_the_first_backfill_of_a_namespace_stays(self, ledger: Ledger) -> None:
        for text in ("", "later"):
            assert ledger.open_backfill("p", "may", text, {A: after(3)}) == ""
            assert ledger.open_backfill("p", "may", text, {A: after(5), B: after(5)}) == ""
        assert ledger.backfill("p", "may") == ""
        assert ledger.chains("p", "may") == {A: Chain(A, after(3), None, None)}

    def test_backfills_are_of_a_pipeline_and_a_namespace(self, ledger: Ledger) -> None:
        for pipeline, namespace in (("p", "may"), ("p", "june"), ("q", "may")):
            ledger.open_backfill(pipeline, namespace, f"{pipeline} {namespace}", {A: after(3)})
        assert ledger.backfill("p", "june") == "p june"
        assert ledger.backfill("q", "may") == "q may"
        assert ledger.backfill("q", "june") is None
        assert ledger.backfills("q") == {"may": "q may"}
        assert ledger.backfills("r") == {}
        assert ledger.chains("q", "may")[A].position == after(3)

    def test_backfills_come_in_the_order_they_were_opened(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for namespace, at_ms in (("z", 1000), ("c", 2000), ("b", 2000), ("a", 3000)):
            monkeypatch.setattr(time, "time_ns", lambda at_ms=at_ms: at_ms * 1_000_000)
            ledger.open_backfill("p", namespace, namespace.upper(), {})
        assert list(ledger.backfills("p").items()) == [("z", "Z"), ("b", "B"), ("c", "C"), ("a", "A")]

    def test_scheduled_ingestion_is_no_backfill(self, opened: Ledger) -> None:
        with pytest.raises(ConflictError, match="cannot be opened in namespace live: expected a namespace of its own"):
            opened.open_backfill("p", LIVE, "{}", {"shardId-9": after(3)})
        assert opened.backfills("p") == {}
        assert list(opened.chains("p", LIVE)) == [A, B]

    def test_eight_openings_at_once_are_one(self, ledger: Ledger) -> None:
        calls = [partial(ledger.open_backfill, "p", "may", str(n), {A: after(n), B: after(n)}) for n in range(1, 9)]
        texts = at_once(calls)
        assert texts == [texts[0]] * 8
        assert ledger.backfills("p") == {"may": texts[0]}
        assert [chain.position for chain in ledger.chains("p", "may").values()] == [after(int(texts[0]))] * 2


class TestAbandon:
    def test_an_abandoned_range_is_planned_anew_from_the_same_position(self, opened: Ledger) -> None:
        pin(opened, "r1", range_of(A, 10, 20), range_of(B, 10, 20))
        opened.abandon(entry(range_of(A, 10, 20)), lambda: None)
        assert opened.chains("p", LIVE) == {
            A: Chain(A, after(10), None, None),
            B: Chain(B, after(10), range_of(B, 10, 20), None),
        }
        assert [row.range for row in opened.ranges("p", LIVE)] == [range_of(B, 10, 20)]
        assert opened.journal("p") == [entry(range_of(A, 10, 20))]
        plan = pin(opened, "r2", range_of(A, 10, 15))
        assert opened.commit(plan, {range_of(A, 10, 15): HELD}) == []
        assert opened.chains("p", LIVE)[A].position == after(15)

    def test_the_ranges_before_stay(self, opened: Ledger) -> None:
        opened.commit(pin(opened, "r1", range_of(A, 10, 20)), {range_of(A, 10, 20): HELD})
        pin(opened, "r2", range_of(A, 20, 30))
        opened.abandon(entry(range_of(A, 20, 30)), lambda: None)
        assert opened.chains("p", LIVE)[A] == Chain(A, after(20), None, None)
        assert [row.state for row in opened.ranges("p", LIVE)] == ["committed"]

    def test_a_range_is_abandoned_in_its_own_namespace(self, opened: Ledger) -> None:
        opened.open_backfill("p", "may", "{}", {A: after(10)})
        pin(opened, "r1", range_of(A, 10, 20))
        pin(opened, "r2", range_of(A, 10, 20), namespace="may")
        opened.abandon(entry(range_of(A, 10, 20), namespace="may"), lambda: None)
        assert opened.chains("p", "may")[A].open_range is None
        assert opened.chains("p", LIVE)[A].open_range == range_of(A, 10, 20)

    @pytest.mark.parametrize(
        ("other", "found"),
        [
            ({"range": range_of(A, 10, 21)}, f"{range_of(A, 10, 20)}. "),
            ({"range": range_of(A, 10, 19)}, f"{range_of(A, 10, 20)}. "),
            ({"range": range_of(A, 9, 20)}, f"{range_of(A, 10, 20)}. "),
            ({"range": range_of(B, 10, 20)}, "no open range, the shard at AFTER 10. "),
            ({"range": range_of("shardId-9", 10, 20)}, "no chain of this shard. "),
            ({"namespace": "may"}, "no chain of this shard. "),
            ({"pipeline": "q"}, "no chain of this shard. "),
        ],
    )
    def test_only_the_open_range_itself_is_abandoned(
        self, opened: Ledger, other: dict[str, object], found: str
    ) -> None:
        pin(opened, "r1", range_of(A, 10, 20))
        wrong = entry(range_of(A, 10, 20), **other)
        with pytest.raises(ConflictError) as caught:
            opened.abandon(wrong, files_are_kept)
        assert str(caught.value) == (
            f"{wrong.range} cannot be abandoned: expected it to be the open range of its shard, found {found}"
            "Likely cause: another run committed or gave up the range meanwhile, or it was abandoned before"
        )
        assert opened.chains("p", LIVE)[A].open_range == range_of(A, 10, 20)
        assert opened.journal("p") == opened.journal("q") == []

    @pytest.mark.parametrize("state", ["committed", "lost"])
    def test_a_closed_range_is_not_abandoned(self, opened: Ledger, state: str) -> None:
        range_ = range_of(A, 10, 20)
        plan = pin(opened, "r1", range_)
        if state == "committed":
            opened.commit(plan, {range_: HELD})
        else:
            opened.declare_lost("p", LIVE, "b", range_, None)
        with pytest.raises(ConflictError, match=r"cannot be abandoned: .*, found no open range, the shard at A"):
            opened.abandon(entry(range_), files_are_kept)
        assert [row.state for row in opened.ranges("p", LIVE)] == [state]
        assert opened.journal("p") == []

    def test_a_commit_of_an_abandoned_range_is_a_conflict(self, opened: Ledger) -> None:
        plan = pin(opened, "r1", range_of(A, 10, 20))
        opened.abandon(entry(range_of(A, 10, 20)), lambda: None)
        (message,) = opened.commit(plan, {range_of(A, 10, 20): HELD})
        assert "found the shard at AFTER 10. Likely cause: the range was abandoned" in message
        pin(opened, "r2", range_of(A, 10, 30))
        (message,) = opened.commit(plan, {range_of(A, 10, 20): HELD})
        assert "found an end at 20. Likely cause: the range was abandoned and planned anew" in message
        assert opened.chains("p", LIVE)[A] == Chain(A, after(10), range_of(A, 10, 30), None)

    def test_a_commit_of_a_range_planned_anew_just_as_it_was_is_a_conflict(self, opened: Ledger) -> None:
        """Its file was looked at before, and removed since. Kills: ranges compared by their ends alone."""
        range_ = range_of(A, 10, 20)
        plan = pin(opened, "r1", range_)
        opened.abandon(entry(range_), lambda: None)
        pin(opened, "r2", range_)
        for seen in ({range_: "b-r1"}, {}):
            (message,) = opened.commit(plan, {range_: HELD}, seen)
            assert "found one that batch b-r2 planned. Likely cause: the range was abandoned and" in message
        assert [row.state for row in opened.ranges("p", LIVE)] == ["planned"]
        assert opened.commit(plan, {range_: HELD}, {range_: "b-r2"}) == []
        assert opened.commit(plan, {range_: HELD}, {}) == []  # committed already

    def test_an_entry_of_something_else_is_refused(self, opened: Ledger) -> None:
        pin(opened, "r1", range_of(A, 10, 20))
        with pytest.raises(ValueError, match="the journal would tell of a repair where a range is abandoned"):
            opened.abandon(entry(range_of(A, 10, 20), action="repair"), files_are_kept)
        assert opened.chains("p", LIVE)[A].open_range == range_of(A, 10, 20)

    def test_files_are_removed_while_the_range_is_open_and_an_error_keeps_it_open(self, opened: Ledger) -> None:
        range_ = range_of(A, 10, 20)
        pin(opened, "r1", range_)

        def fail() -> None:
            raise UnavailableError("no disk")

        with pytest.raises(UnavailableError, match="no disk"):
            opened.abandon(entry(range_), fail)
        assert opened.chains("p", LIVE)[A].open_range == range_
        assert opened.journal("p") == []
        opened.abandon(entry(range_), lambda: None)
        assert opened.chains("p", LIVE)[A].open_range is None

    def test_nobody_commits_the_range_while_its_files_are_removed(self, opened: Ledger) -> None:
        """Kills: removing the files before or after the transaction."""
        range_ = range_of(A, 10, 20)
        plan, removing, outcomes = pin(opened, "r1", range_), Event(), list[list[str]]()

        def commit() -> None:
            removing.wait(10)
            outcomes.append(opened.commit(plan, {range_: HELD}))

        def remove_files() -> None:
            removing.set()
            time.sleep(0.3)  # as much as a commit would need
            assert outcomes == []

        committing = Thread(target=commit)
        committing.start()
        opened.abandon(entry(range_), remove_files)
        committing.join(30)
        ((message,),) = outcomes
        assert "Likely cause: the range was abandoned" in message

    def test_commit_and_abandon_exclude_each_other(self, opened: Ledger) -> None:
        range_ = range_of(A, 10, 20)
        plan = pin(opened, "r1", range_)

        def abandon() -> list[str]:
            try:
                opened.abandon(entry(range_), lambda: None)
            except ConflictError as conflict:
                return [str(conflict)]
            return []

        calls: list[Callable[[], list[str]]] = [abandon, partial(opened.commit, plan, {range_: HELD})]
        outcomes = at_once(calls * 4)
        abandoned, committed = outcomes[::2].count([]), outcomes[1::2].count([])
        assert (abandoned, committed) in [(1, 0), (0, 4)]
        assert [row.state for row in opened.ranges("p", LIVE)] == ["committed"] * (committed // 4)
        assert len(opened.journal("p")) == abandoned


class TestJournal:
    def test_entries_come_by_time_then_as_they_were_written(self, ledger: Ledger) -> None:
        range_ = range_of(A, 10, 20)
        told = [(2000, "second"), (1000, "z"), (3000, "last"), (1000, "a"), (1000, "m")]
        for at_ms, reason in told:
            ledger.record(entry(range_, at_ms=at_ms, reason=reason))
        assert [(e.at_ms, e.reason) for e in ledger.journal("p")] == [told[i] for i in (1, 3, 4, 0, 2)]

    def test_an_entry_comes_back_as_it_was(self, ledger: Ledger) -> None:
        exact = SequenceRange(A, Start("AT", SequenceNumber("0010")), SequenceNumber("00099"), SequenceNumber("010"))
        to_the_end = SequenceRange(B, after(7), SHARD_END, None)
        reason = "It was é, ☃, 💩 and 'quoted';\n-- :it %s {} \\ was."
        entries = [
            entry(exact, action="repair", namespace="may", who="", reason=reason),
            entry(to_the_end, at_ms=1001),
        ]
        for one in entries:
            ledger.record(one)
        assert ledger.journal("p") == entries
        assert [str(one) for one in ledger.journal("p")] == [str(one) for one in entries]  # also their texts

    def test_each_pipeline_has_its_own_journal(self, ledger: Ledger) -> None:
        entries = [entry(range_of(A, 10, 20), pipeline=pipeline) for pipeline in ("p", "q", "p")]
        for one in entries:
            ledger.record(one)
        assert ledger.journal("p") == [entries[0], entries[2]]
        assert ledger.journal("q") == [entries[1]]
        assert ledger.journal("r") == []

    def test_what_is_recorded_changes_no_chain(self, opened: Ledger) -> None:
        pin(opened, "r1", range_of(A, 10, 20))
        opened.record(entry(range_of(A, 10, 20), action="repair"))
        assert opened.chains("p", LIVE)[A].open_range == range_of(A, 10, 20)

    def test_the_longest_texts_are_kept(self, ledger: Ledger) -> None:
        longest = entry(range_of(A, 10, 20), who="💩" * 200, reason="💩" * 2000)
        ledger.record(longest)
        assert ledger.journal("p") == [longest]

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            ({"who": "x" * 201}, "who has 0 to 200 characters, found 201"),
            ({"reason": "x" * 2001}, "reason has 1 to 2000 characters, found 2001"),
            ({"reason": ""}, "reason has 1 to 2000 characters, found 0"),
            ({"who": "a\0b"}, "who is text without NUL and lone surrogates"),
            ({"reason": "caf\udce9"}, "reason is text without NUL and lone surrogates"),
            ({"action": "forget"}, "an action of the journal is one of repair, abandon, found 'forget'"),
        ],
    )
    def test_an_entry_that_no_ledger_takes_cannot_be_made(self, other: dict[str, str], message: str) -> None:
        with pytest.raises(ValueError, match=f"^{message}$"):
            entry(range_of(A, 10, 20), **other)

    def test_entries_written_at_once_are_all_kept(self, ledger: Ledger) -> None:
        entries = [entry(range_of(A, 10, 20), reason=str(n)) for n in range(8)]
        at_once([partial(ledger.record, one) for one in entries])
        assert sorted(ledger.journal("p"), key=lambda one: one.reason) == entries
