"""What every ledger promises, over all stores; what only the SQL ones promise has suites of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Barrier
from typing import TypeVar

import pytest

from shardlake.caught_up import CaughtUp
from shardlake.errors import ConflictError
from shardlake.ledger import Chain, Contents, Identity, Ledger, LedgerRange, statements
from shardlake.names import LIVE
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start
from shardlake.shards import Shard

T = TypeVar("T")

FLIGHTS = "flights"
ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/flights"
A, B, C = "shardId-000000000000", "shardId-000000000001", "shardId-000000000002"
HELD = Contents(rows=3, bytes=700, checksum="c0ffee")
DAY_MS = 86_400_000


def number(n: int) -> SequenceNumber:
    return SequenceNumber(str(49 * 10**54 + n))


def after(n: int) -> Start:
    return Start("AFTER", number(n))


def at(n: int) -> Start:
    return Start("AT", number(n))


def range_of(shard_id: str, start: Start, through: int | None) -> SequenceRange:
    """A range that ends at record `through`, or at the shard's end."""
    return SequenceRange(shard_id, start, SHARD_END if through is None else number(through), start.number)


def draft(run: str, pipeline: str = FLIGHTS, namespace: str = LIVE) -> BatchPlan:
    return BatchPlan(
        batch_id=f"{pipeline}-{namespace}-{run}",
        pipeline=pipeline,
        namespace=namespace,
        run=Run("kinesis_ingest__flights", run),
        stream=Stream("flights", ARN, 1_700_000_000_000, 86_400_000, "eu-west-1", None),
        dataset="/lake/flights",
        ledger_id="a" * 32,
        planned_at_ms=1_700_000_100_000,
        behind=False,
        groups=(),
    )


def pin(ledger: Ledger, run: str, *ranges: SequenceRange) -> BatchPlan:
    return BatchPlan.from_text(ledger.pin(draft(run), ranges, group_size=2))


def pin_and_commit(ledger: Ledger, run: str, *ranges: SequenceRange) -> BatchPlan:
    plan = pin(ledger, run, *ranges)
    assert ledger.commit(plan, dict.fromkeys(plan.ranges, HELD)) == []
    return plan


def chain(ledger: Ledger, shard_id: str) -> Chain:
    return ledger.chains(FLIGHTS, LIVE)[shard_id]


def rows(ledger: Ledger, shard_id: str | None = None) -> list[LedgerRange]:
    return list(ledger.ranges(FLIGHTS, LIVE, shard_id))


def states(ledger: Ledger, shard_id: str) -> list[tuple[SequenceRange, str]]:
    return [(row.range, row.state) for row in rows(ledger, shard_id)]


def shard(shard_id: str, *, ending: str | None = None, parents: tuple[str, ...] = ()) -> Shard:
    return Shard(shard_id, parents, "0", "340282366920938463463374607431768211455", number(1).text, ending)


@pytest.fixture
def opened(ledger: Ledger) -> Ledger:
    """A ledger with the chains of three shards, each starting AT record 10."""
    ledger.record_listing(FLIGHTS, LIVE, [], dict.fromkeys((A, B, C), at(10)))
    return ledger


class TestIdentity:
    def test_a_ledger_keeps_its_id(self, ledger: Ledger) -> None:
        assert ledger.ledger_id == ledger.ledger_id
        assert len(ledger.ledger_id) == 32

    def test_the_first_claim_of_a_pipeline_stays(self, ledger: Ledger) -> None:
        first = Identity(FLIGHTS, ARN, 1_700_000_000_000, "/lake/flights")
        assert ledger.claim(first) == first
        assert ledger.claim(replace(first, dataset="/elsewhere")) == first
        assert ledger.claim(first) == first

    def test_pipelines_are_claimed_one_by_one(self, ledger: Ledger) -> None:
        first = Identity(FLIGHTS, ARN, 1, "/lake/flights")
        second = Identity("trains", ARN, 2, "/lake/trains")
        assert (ledger.claim(first), ledger.claim(second)) == (first, second)


class TestListing:
    def test_no_shard_is_known_before_the_first_listing(self, ledger: Ledger) -> None:
        assert ledger.shards(FLIGHTS) == {}
        assert ledger.chains(FLIGHTS, LIVE) == {}

    def test_a_listing_is_stored_as_told(self, ledger: Ledger) -> None:
        listed = [shard(A, ending=number(90).text), shard(B, parents=(A,)), shard(C, parents=(A, B))]
        ledger.record_listing(FLIGHTS, LIVE, listed, {})
        assert ledger.shards(FLIGHTS) == {A: listed[0], B: listed[1], C: listed[2]}
        assert ledger.shards("trains") == {}

    def test_a_shard_that_is_left_out_counts_as_missing_until_it_comes_back(self, ledger: Ledger) -> None:
        counts = []
        for listed in ([A, B], [A], [A], [A, B], [A]):
            ledger.record_listing(FLIGHTS, LIVE, [shard(id_) for id_ in listed], {})
            known = ledger.shards(FLIGHTS)
            counts.append((known[A].missing, known[B].missing))
        assert counts == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 1)]

    def test_the_end_of_a_shard_is_stored_once_seen(self, ledger: Ledger) -> None:
        closed = shard(A, ending=number(90).text)
        for listed in (shard(A), closed, shard(A)):
            ledger.record_listing(FLIGHTS, LIVE, [listed], {})
        assert ledger.shards(FLIGHTS) == {A: closed}

    def test_a_listing_opens_chains(self, ledger: Ledger) -> None:
        assert ledger.record_listing(FLIGHTS, LIVE, [shard(A), shard(B)], {A: at(10), B: SHARD_END}, first=True)
        assert ledger.chains(FLIGHTS, LIVE) == {A: Chain(A, at(10), None, None), B: Chain(B, SHARD_END, None, None)}

    def test_a_first_listing_is_not_stored_behind_another(self, ledger: Ledger) -> None:
        assert ledger.record_listing(FLIGHTS, LIVE, [shard(A)], {A: at(10)}, first=True)
        assert not ledger.record_listing(FLIGHTS, LIVE, [shard(A), shard(B)], {A: at(50), B: after(60)}, first=True)
        assert (ledger.shards(FLIGHTS), [*ledger.chains(FLIGHTS, LIVE)]) == ({A: shard(A)}, [A])
        assert ledger.record_listing(FLIGHTS, LIVE, [shard(A), shard(B)], {B: at(60)})
        assert [*ledger.chains(FLIGHTS, LIVE)] == [A, B]


class TestChains:
    def test_a_chain_that_is_there_keeps_its_start(self, opened: Ledger) -> None:
        opened.record_listing(FLIGHTS, LIVE, [shard(A)], {A: after(500)})
        assert chain(opened, A).position == at(10)

    def test_pipelines_and_namespaces_have_chains_of_their_own(self, opened: Ledger) -> None:
        opened.open_backfill(FLIGHTS, "backfill-1", "{}", {A: after(1)})
        opened.record_listing("trains", LIVE, [], {A: after(2)})
        backfill = draft("r", namespace="backfill-1")
        opened.pin(backfill, [range_of(A, after(1), 5)], 1)
        assert opened.chains(FLIGHTS, "backfill-1")[A] == Chain(A, after(1), range_of(A, after(1), 5), None)
        assert opened.chains("trains", LIVE)[A] == Chain(A, after(2), None, None)
        assert chain(opened, A) == Chain(A, at(10), None, None)

    def test_texts_of_numbers_come_back_as_they_were(self, ledger: Ledger) -> None:
        range_ = SequenceRange(
            A, Start("AT", SequenceNumber("0010")), SequenceNumber("00099"), anchor=SequenceNumber("010")
        )
        ledger.record_listing(FLIGHTS, LIVE, [], {A: range_.start})
        pin_and_commit(ledger, "r1", range_)
        stored = rows(ledger)[0].range
        assert (str(stored), str(stored.anchor)) == (f"{A} AT 0010 through 00099", "010")
        assert str(chain(ledger, A).position) == "AFTER 00099"


class TestPin:
    def test_pinned_ranges_are_open_and_the_position_stays(self, opened: Ledger) -> None:
        ranges = [range_of(shard_id, at(10), 20) for shard_id in (C, A, B)]
        plan = pin(opened, "r1", *ranges)
        assert plan == draft("r1").with_ranges(ranges, 2)
        assert plan.groups == ((ranges[0], ranges[1]), (ranges[2],))
        assert chain(opened, A) == Chain(A, at(10), range_of(A, at(10), 20), None)
        assert rows(opened, A) == [LedgerRange(range_of(A, at(10), 20), "planned", plan.batch_id, None, None)]

    def test_a_batch_asked_for_again_has_the_same_text(self, opened: Ledger) -> None:
        assert opened.batch(draft("r1").batch_id) is None
        text = opened.pin(draft("r1"), [range_of(A, at(10), 20)], 2)
        changed = replace(draft("r1"), planned_at_ms=5)
        assert opened.pin(changed, [range_of(A, at(10), 99), range_of(B, at(10), 99)], 1) == text
        opened.commit(BatchPlan.from_text(text), {range_of(A, at(10), 20): HELD})
        assert opened.pin(changed, [range_of(A, after(20), 99)], 1) == text
        assert opened.batch(draft("r1").batch_id) == text
        assert chain(opened, A).open_range is None
        assert chain(opened, B).open_range is None

    def test_an_open_range_is_taken_over_as_it_is(self, opened: Ledger) -> None:
        pin(opened, "r1", range_of(A, at(10), 20))
        plan = pin(opened, "r2", range_of(A, at(10), 99), range_of(B, at(10), 30))
        assert list(plan.ranges) == [range_of(A, at(10), 20), range_of(B, at(10), 30)]
        assert [row.batch_id for row in rows(opened)] == [draft("r1").batch_id, draft("r2").batch_id]

    def test_a_range_whose_position_has_moved_on_is_left_out(self, opened: Ledger) -> None:
        pin_and_commit(opened, "r1", range_of(A, at(10), 20))
        plan = pin(opened, "r2", range_of(A, at(10), 30), range_of(B, at(10), 30))
        assert list(plan.ranges) == [range_of(B, at(10), 30)]
        assert chain(opened, A) == Chain(A, after(20), None, None)

    def test_the_same_position_may_be_said_in_two_ways(self, opened: Ledger) -> None:
        plan = pin(opened, "r1", range_of(A, after(9), 20))
        assert list(plan.ranges) == [range_of(A, after(9), 20)]

    def test_a_shard_without_a_chain_cannot_be_planned(self, opened: Ledger) -> None:
        with pytest.raises(ConflictError, match=r"cannot be planned: .* found a shard without a chain"):
            pin(opened, "r1", range_of(A, at(10), 20), range_of("shardId-9", at(10), 20))
        assert chain(opened, A).open_range is None
        assert opened.batch(draft("r1").batch_id) is None

    def test_a_shard_cannot_be_planned_twice_in_a_batch(self, opened: Ledger) -> None:
        with pytest.raises(ConflictError, match=r"cannot be planned: .* found a second range of this shard"):
            pin(opened, "r1", range_of(A, at(10), 20), range_of(A, after(20), 30))


class TestCommit:
    def test_a_commit_moves_the_position_to_the_end_of_the_range(self, opened: Ledger) -> None:
        before_ms = time.time_ns() // 1_000_000
        plan = pin_and_commit(opened, "r1", range_of(A, at(10), 20))
        assert chain(opened, A) == Chain(A, after(20), None, None)
        (row,) = rows(opened)
        assert row == LedgerRange(range_of(A, at(10), 20), "committed", plan.batch_id, HELD, row.closed_at_ms)
        assert row.closed_at_ms is not None
        assert before_ms <= row.closed_at_ms <= time.time_ns() // 1_000_000

    def test_ranges_follow_each_other(self, opened: Ledger) -> None:
        for run, range_ in enumerate([range_of(A, at(10), 20), range_of(A, after(20), 35), range_of(A, after(35), 36)]):
            pin_and_commit(opened, f"r{run}", range_)
        assert [str(row.range.through) for row in rows(opened)] == [str(number(n)) for n in (20, 35, 36)]
        assert chain(opened, A).position == after(36)

    def test_a_commit_again_changes_nothing(self, opened: Ledger) -> None:
        plan = pin_and_commit(opened, "r1", range_of(A, at(10), 20))
        before = rows(opened)
        pin(opened, "r2", range_of(A, after(20), 30))
        assert opened.commit(plan, {range_of(A, at(10), 20): HELD}) == []
        assert rows(opened)[:1] == before
        assert chain(opened, A) == Chain(A, after(20), range_of(A, after(20), 30), None)

    def test_the_end_of_a_shard_finishes_it(self, opened: Ledger) -> None:
        plan = pin_and_commit(opened, "r1", range_of(A, at(10), None))
        assert chain(opened, A) == Chain(A, SHARD_END, None, None)
        assert opened.commit(plan, {range_of(A, at(10), None): HELD}) == []

    def test_another_checksum_is_a_conflict(self, opened: Ledger) -> None:
        plan = pin_and_commit(opened, "r1", range_of(A, at(10), 20))
        before = rows(opened)
        assert opened.commit(plan, {range_of(A, at(10), 20): Contents(2, 650, "decaf")}) == [
            f"{A} AT {number(10)} through {number(20)} cannot be committed: "
            "expected checksum c0ffee of 3 rows, found checksum decaf of 2 rows. "
            "Likely cause: the file was replaced after its commit, or two code versions read different rows"
        ]
        assert rows(opened) == before

    def test_another_end_is_a_conflict(self, opened: Ledger) -> None:
        plan = pin(opened, "r1", range_of(A, at(10), 20))
        assert opened.commit(plan, {range_of(A, at(10), 25): HELD}) == [
            f"{A} AT {number(10)} through {number(25)} cannot be committed: "
            f"expected {A} AT {number(10)} through {number(20)} (planned), found an end at {number(25)}. "
            "Likely cause: the range was abandoned and planned anew, the stretch before it was declared lost, or the "
            "plan is of another ledger or was edited"
        ]
        assert chain(opened, A).open_range == range_of(A, at(10), 20)

    def test_a_range_that_skips_records_is_a_conflict(self, opened: Ledger) -> None:
        plan = pin(opened, "r1", range_of(A, at(10), 20))
        assert opened.commit(plan, {range_of(A, after(15), 20): HELD}) == [
            f"{A} AFTER {number(15)} through {number(20)} cannot be committed: "
            f"expected an open range that starts AFTER {number(15)}, found the shard at AT {number(10)}. "
            "Likely cause: the range was abandoned, the plan is of another ledger, or this one was restored after the "
            "plan was made"
        ]

    def test_a_shard_without_a_chain_is_a_conflict(self, opened: Ledger) -> None:
        plan = pin(opened, "r1", range_of(A, at(10), 20))
        (message,) = opened.commit(plan, {range_of("shardId-9", at(10), 20): HELD})
        assert "found no chain of this shard" in message

    def test_a_range_declared_lost_is_a_conflict(self, opened: Ledger) -> None:
        plan = pin(opened, "r1", range_of(A, at(10), 20))
        opened.declare_lost(FLIGHTS, LIVE, plan.batch_id, range_of(A, at(10), 20), None)
        (message,) = opened.commit(plan, {range_of(A, at(10), 20): HELD})
        assert "expected a range declared lost, found a file of 3 rows" in message
        assert states(opened, A) == [(range_of(A, at(10), 20), "lost")]

    def test_what_can_be_committed_is_committed_beside_a_conflict(self, opened: Ledger) -> None:
        plan = pin(opened, "r1", *(range_of(shard_id, at(10), 20) for shard_id in (A, B, C)))
        wrong_end = range_of(B, at(10), 19)
        (message,) = opened.commit(
            plan, {range_of(A, at(10), 20): HELD, wrong_end: HELD, range_of(C, at(10), 20): HELD}
        )
        assert message.startswith(f"{wrong_end} cannot be committed")
        assert [row.state for row in rows(opened)] == ["committed", "planned", "committed"]

    def test_committed_ranges_of_a_plan_come_in_its_order(self, opened: Ledger) -> None:
        plan = pin(opened, "r1", *(range_of(shard_id, at(10), 20) for shard_id in (C, B, A)))
        assert opened.committed(plan) == {}
        other = Contents(0, 90, "0")
        opened.commit(plan, {range_of(A, at(10), 20): HELD, range_of(C, at(10), 20): other})
        assert list(opened.committed(plan).items()) == [
            (range_of(C, at(10), 20), other),
            (range_of(A, at(10), 20), HELD),
        ]


class TestCaughtUp:
    def test_a_note_belongs_to_its_position(self, opened: Ledger) -> None:
        notes = {A: CaughtUp(at(10).key, 1000, DAY_MS), B: CaughtUp(after(9).key, 2000, 7 * DAY_MS)}
        opened.record_listing(FLIGHTS, LIVE, [], {}, notes)
        assert [chain(opened, id_).caught_up for id_ in (A, B, C)] == [notes[A], notes[B], None]
        plan = pin(opened, "r1", range_of(A, at(10), 20))
        assert chain(opened, A).caught_up == notes[A]
        opened.commit(plan, {range_of(A, at(10), 20): HELD})
        assert chain(opened, A).caught_up is None

    def test_a_note_about_a_position_left_behind_is_ignored(self, opened: Ledger) -> None:
        pin_and_commit(opened, "r1", range_of(A, at(10), 20))
        note = CaughtUp(after(20).key, 1000, DAY_MS)
        opened.record_listing(FLIGHTS, LIVE, [], {}, {A: note})
        left_behind = CaughtUp(at(10).key, 9000, DAY_MS)
        opened.record_listing(FLIGHTS, LIVE, [], {}, {A: left_behind, "shardId-9": left_behind})
        assert chain(opened, A).caught_up == note

    def test_the_latest_note_stays_as_it_was_made(self, opened: Ledger) -> None:
        notes = [CaughtUp(at(10).key, at_ms, days * DAY_MS) for at_ms, days in ((1000, 7), (3000, 2), (2000, 1))]
        for note in notes:
            opened.record_listing(FLIGHTS, LIVE, [], {}, {A: note})
        assert chain(opened, A).caught_up == notes[1]

    def test_a_chain_is_opened_with_its_note(self, ledger: Ledger) -> None:
        note = CaughtUp(at(10).key, 1000, 7 * DAY_MS)
        ledger.record_listing(FLIGHTS, LIVE, [shard(A)], {A: at(10)}, {A: note}, first=True)
        assert chain(ledger, A) == Chain(A, at(10), None, note)


class TestLoss:
    def test_the_rest_of_an_open_range_stays_open_behind_the_loss(self, opened: Ledger) -> None:
        pin(opened, "r1", range_of(A, at(10), 20))
        lost, rest = range_of(A, at(10), 14), range_of(A, at(15), 20)
        opened.declare_lost(FLIGHTS, LIVE, "r2", lost, rest)
        assert states(opened, A) == [(lost, "lost"), (rest, "planned")]
        assert chain(opened, A) == Chain(A, at(15), rest, None)
        plan = pin(opened, "r3", range_of(A, at(15), 99))
        assert opened.commit(plan, {rest: HELD}) == []
        assert chain(opened, A).position == after(20)

    def test_reading_goes_on_at_the_number_behind_a_loss(self, opened: Ledger) -> None:
        opened.declare_lost(FLIGHTS, LIVE, "r1", range_of(A, at(10), 14), None)
        assert chain(opened, A) == Chain(A, at(15), None, None)
        (row,) = rows(opened, A)
        assert (row.state, row.batch_id, row.contents, row.closed_at_ms is None) == ("lost", "r1", None, False)

    def test_the_number_behind_a_loss_is_as_wide_as_the_lost_one(self, ledger: Ledger) -> None:
        start = Start("AT", SequenceNumber("0001"))
        ledger.record_listing(FLIGHTS, LIVE, [], {A: start})
        lost = SequenceRange(A, start, SequenceNumber("0009"), start.number)
        ledger.declare_lost(FLIGHTS, LIVE, "r1", lost, None)
        assert str(chain(ledger, A).position) == "AT 0010"

    def test_a_whole_open_range_can_be_lost(self, opened: Ledger) -> None:
        pin(opened, "r1", range_of(A, at(10), 20))
        opened.declare_lost(FLIGHTS, LIVE, "r1", range_of(A, at(10), 40), None)
        assert states(opened, A) == [(range_of(A, at(10), 40), "lost")]
        assert chain(opened, A).position == at(41)

    def test_a_loss_up_to_the_end_finishes_the_shard(self, opened: Ledger) -> None:
        opened.declare_lost(FLIGHTS, LIVE, "r1", range_of(A, at(10), None), None)
        assert chain(opened, A) == Chain(A, SHARD_END, None, None)

    def test_a_loss_told_again_changes_nothing(self, opened: Ledger) -> None:
        pin(opened, "r1", range_of(A, at(10), 20))
        lost, rest = range_of(A, at(10), 14), range_of(A, at(15), 20)
        opened.declare_lost(FLIGHTS, LIVE, "r2", lost, rest)
        before = rows(opened)
        opened.declare_lost(FLIGHTS, LIVE, "r2", lost, rest)
        assert rows(opened) == before

    @pytest.mark.parametrize("shard_id", [A, "shardId-9"])
    def test_a_loss_away_from_the_position_is_a_conflict(self, opened: Ledger, shard_id: str) -> None:
        pin_and_commit(opened, "r1", range_of(A, at(10), 20))
        with pytest.raises(ConflictError, match=r"cannot be declared lost: expected the shard at AT .*10, found"):
            opened.declare_lost(FLIGHTS, LIVE, "r2", range_of(shard_id, at(10), 14), None)
        assert states(opened, A) == [(range_of(A, at(10), 20), "committed")]

    @pytest.mark.parametrize("rest", [range_of(A, at(16), 20), range_of(B, at(15), 20)])
    def test_a_rest_that_does_not_follow_is_a_conflict(self, opened: Ledger, rest: SequenceRange) -> None:
        pin(opened, "r1", range_of(A, at(10), 20))
        with pytest.raises(ConflictError, match="does not follow what is lost"):
            opened.declare_lost(FLIGHTS, LIVE, "r2", range_of(A, at(10), 14), rest)
        assert states(opened, A) == [(range_of(A, at(10), 20), "planned")]


class TestRanges:
    def test_rows_come_page_by_page_by_shard_and_start(self, opened: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(statements, "PAGE_ROWS", 2)
        for run, n in enumerate((10, 20, 30)):
            start = after(n) if n > 10 else at(10)
            pin_and_commit(opened, f"r{run}", *(range_of(shard_id, start, n + 10) for shard_id in (B, A)))
        opened.declare_lost(FLIGHTS, LIVE, "r9", range_of(C, at(10), 15), None)
        pin(opened, "r10", range_of(A, after(40), 50))
        everything = [(row.range.shard_id, str(row.range.through)[-2:], row.state) for row in rows(opened)]
        assert everything == [
            (A, "20", "committed"),
            (A, "30", "committed"),
            (A, "40", "committed"),
            (A, "50", "planned"),
            (B, "20", "committed"),
            (B, "30", "committed"),
            (B, "40", "committed"),
            (C, "15", "lost"),
        ]
        assert [row.range.shard_id for row in opened.ranges(FLIGHTS, LIVE, B)] == [B, B, B]
        assert [row.range.shard_id for row in opened.ranges(FLIGHTS, LIVE, state="lost")] == [C]
        assert [row.range.shard_id for row in opened.ranges(FLIGHTS, LIVE, A, "planned")] == [A]
        assert len(list(opened.ranges(FLIGHTS, LIVE, state="committed"))) == 6
        assert list(opened.ranges("trains", LIVE)) == []


class TestRaces:
    """Eight callers at once, each of them on a connection of its own."""

    def test_one_batch_pinned_by_eight_is_one_batch(self, opened: Ledger) -> None:
        proposals = [[range_of(A, at(10), end), range_of(B, at(10), end)] for end in range(20, 28)]
        texts = at_once([partial(opened.pin, draft("r1"), proposed, 2) for proposed in proposals])
        assert len(set(texts)) == 1
        assert opened.batch(draft("r1").batch_id) == texts[0]

    def test_eight_runs_share_the_ranges_of_the_first(self, opened: Ledger) -> None:
        proposals = [[range_of(A, at(10), end), range_of(B, at(10), end)] for end in range(20, 28)]
        plans = at_once([partial(pin, opened, f"r{i}", *proposed) for i, proposed in enumerate(proposals)])
        assert len({tuple(plan.ranges) for plan in plans}) == 1
        assert [row.range for row in rows(opened)] == list(plans[0].ranges)
        assert len({row.batch_id for row in rows(opened)}) == 1

    def test_one_of_eight_different_commits_wins(self, opened: Ledger) -> None:
        range_ = range_of(A, at(10), 20)
        plan = pin(opened, "r1", range_)
        held = [Contents(i, i, f"sum{i}") for i in range(8)]
        outcomes = at_once([partial(opened.commit, plan, {range_: contents}) for contents in held])
        assert sorted(len(messages) for messages in outcomes) == [0, 1, 1, 1, 1, 1, 1, 1]
        assert opened.committed(plan) == {range_: held[outcomes.index([])]}

    def test_eight_equal_commits_are_one(self, opened: Ledger) -> None:
        range_ = range_of(A, at(10), 20)
        plan = pin(opened, "r1", range_)
        assert at_once([partial(opened.commit, plan, {range_: HELD})] * 8) == [[]] * 8
        assert states(opened, A) == [(range_, "committed")]

    def test_commit_and_loss_exclude_each_other(self, opened: Ledger) -> None:
        range_ = range_of(A, at(10), 20)
        plan = pin(opened, "r1", range_)

        def lose() -> list[str]:
            try:
                opened.declare_lost(FLIGHTS, LIVE, "r2", range_, None)
            except ConflictError as conflict:
                return [str(conflict)]
            return []

        calls: list[Callable[[], list[str]]] = [lose, partial(opened.commit, plan, {range_: HELD})]
        outcomes = at_once(calls * 4)
        was_lost, was_committed = outcomes[::2] == [[]] * 4, outcomes[1::2] == [[]] * 4
        assert was_lost != was_committed
        assert states(opened, A) == [(range_, "lost" if was_lost else "committed")]

    def test_runs_on_eight_threads_make_one_chain(self, opened: Ledger) -> None:
        def ingest(worker: int) -> None:
            for turn in range(5):
                position = chain(opened, A).position
                assert isinstance(position, Start)
                end = int(position.number) - int(number(0)) + 1 + worker
                pin_and_commit(opened, f"r{worker}-{turn}", range_of(A, position, end))

        at_once([partial(ingest, worker) for worker in range(8)])
        chained = rows(opened, A)
        assert {row.state for row in chained} == {"committed"}
        ends = [row.range.through.key for row in chained]
        assert [row.range.start.key for row in chained] == [at(10).key, *ends[:-1]]

    def test_eight_claims_store_one(self, ledger: Ledger) -> None:
        claims = [Identity(FLIGHTS, ARN, 1, f"/lake/{i}") for i in range(8)]
        stored = at_once([partial(ledger.claim, claim) for claim in claims])
        assert len(set(stored)) == 1


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls return, in their order; they start together."""
    gate = Barrier(len(calls))

    def call(it: Callable[[], T]) -> T:
        gate.wait()
        return it()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))
