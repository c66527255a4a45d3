"""Restoring what a dataset tells, over all stores: what is there stays, what is missing comes, contradictions change
nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardlake.caught_up import CaughtUp
from shardlake.errors import ConflictError
from shardlake.ledger import NO_NOTES, Contents, Ledger, LedgerRange
from shardlake.ledger.restoring import Told
from shardlake.names import LIVE
from shardlake.plan import BatchPlan, Run, Stream
from shardlake.ranges import SHARD_END, Position, SequenceNumber, SequenceRange, Start
from shardlake.shards import Shard

A, B = "shardId-000000000000", "shardId-000000000001"
SHARDS = [Shard(id_, (), "0", "9", "1", None) for id_ in (A, B)]
STREAM = Stream("s", "arn:aws:kinesis:eu-west-1:123456789012:stream/s", 17, 86_400_000, "eu-west-1", None)
AT_1 = Start("AT", SequenceNumber("1"))


def held(n: int) -> Contents:
    return Contents(rows=n, bytes=100 * n, checksum=f"c{n}")


def range_of(shard_id: str, start: int, through: int | None) -> SequenceRange:
    begin = AT_1 if start == 0 else Start("AFTER", SequenceNumber(str(start)))
    end = SHARD_END if through is None else SequenceNumber(str(through))
    return SequenceRange(shard_id, begin, end, SequenceNumber(str(start + 1)))


def committed(shard_id: str, start: int, through: int | None) -> LedgerRange:
    return LedgerRange(range_of(shard_id, start, through), "committed", "b", held(start + 1), 5)


def planned(shard_id: str, start: int, through: int) -> LedgerRange:
    return LedgerRange(range_of(shard_id, start, through), "planned", "b", None, None)


def lost(shard_id: str, start: int, through: int) -> LedgerRange:
    return LedgerRange(range_of(shard_id, start, through), "lost", "b", None, 6)


def plan_of(run: str, *ranges: SequenceRange) -> BatchPlan:
    return BatchPlan(
        batch_id=f"b-{run}",
        pipeline="p",
        namespace=LIVE,
        run=Run("dag", run),
        stream=STREAM,
        dataset="/lake",
        ledger_id="a" * 32,
        planned_at_ms=7,
        behind=False,
        groups=(ranges,),
    )


CHAIN_A = [committed(A, 0, 10), lost(A, 10, 20), committed(A, 20, 30), planned(A, 30, 40)]
CHAIN_B = [committed(B, 0, 5), committed(B, 5, None)]
CHAIN_A[2] = replace(CHAIN_A[2], range=replace(CHAIN_A[2].range, start=Start("AT", SequenceNumber("21"))))


def told(*rows: LedgerRange, starts: dict[str, Position] | None = None, bounds: str | None = None) -> Told:
    ranges: dict[str, list[LedgerRange]] = {}
    for row in rows:
        ranges.setdefault(row.range.shard_id, []).append(row)
    namespace = LIVE if bounds is None else "fill"
    return Told(namespace, starts or dict.fromkeys(ranges, AT_1), ranges, [], bounds, NO_NOTES)


def rows(ledger: Ledger, namespace: str = LIVE) -> list[LedgerRange]:
    return list(ledger.ranges("p", namespace))


def test_an_empty_ledger_gets_it_all(ledger: Ledger) -> None:
    plans = [plan_of("1", range_of(A, 0, 10)), plan_of("2", range_of(A, 30, 40))]
    live = replace(told(*CHAIN_A, *CHAIN_B, starts={A: AT_1, B: AT_1, "finished": SHARD_END}), batches=plans)
    ledger.restore("p", SHARDS, [live, told(committed(A, 0, 3), bounds="{}")])
    assert rows(ledger) == [*CHAIN_A, *CHAIN_B]
    assert rows(ledger, "fill") == [committed(A, 0, 3)]
    assert ledger.shards("p") == {A: SHARDS[0], B: SHARDS[1]}
    chains = ledger.chains("p", LIVE)
    assert (chains[A].open_range, chains[B].position, chains["finished"].position) == (
        CHAIN_A[3].range,
        SHARD_END,
        SHARD_END,
    )
    assert [ledger.batch(plan.batch_id) for plan in plans] == [plan.to_text() for plan in plans]
    assert ledger.backfills("p") == {"fill": "{}"}


def test_a_chain_gets_the_note_that_it_begins_with(ledger: Ledger) -> None:
    note = CaughtUp(AT_1.key, 1000, 7 * 86_400_000)
    ledger.restore("p", SHARDS, [replace(told(starts={A: AT_1, B: AT_1}), caught_up={A: note})])
    assert [ledger.chains("p", LIVE)[id_].caught_up for id_ in (A, B)] == [note, None]


def test_what_it_gets_goes_on(ledger: Ledger) -> None:
    ledger.restore("p", SHARDS, [told(*CHAIN_A)])
    plan = plan_of("3", CHAIN_A[3].range)
    assert ledger.commit(plan, {CHAIN_A[3].range: held(4)}) == []
    next_ = range_of(A, 40, 50)
    assert next_ in BatchPlan.from_text(ledger.pin(plan_of("4"), [next_], 1)).groups[0]


def test_a_second_time_changes_nothing(ledger: Ledger) -> None:
    everything = [replace(told(*CHAIN_A, *CHAIN_B), batches=[plan_of("1")]), told(committed(A, 0, 3), bounds="{}")]
    ledger.restore("p", SHARDS, everything)
    before = (rows(ledger), rows(ledger, "fill"))
    later = [replace(each, bounds=each.bounds and "other") for each in everything]
    ledger.restore("p", [replace(SHARDS[0], parents=("x",))], later)
    assert (rows(ledger), rows(ledger, "fill")) == before
    assert (ledger.shards("p")[A], ledger.backfills("p")) == (SHARDS[0], {"fill": "{}"})


@pytest.mark.parametrize("there", range(len(CHAIN_A)))
def test_a_ledger_that_knows_a_beginning_gets_the_rest(ledger: Ledger, there: int) -> None:
    ledger.restore("p", SHARDS, [told(*CHAIN_A[:there], starts={A: AT_1})])
    ledger.restore("p", SHARDS, [told(*CHAIN_A)])
    assert rows(ledger) == CHAIN_A


@pytest.mark.parametrize("in_the_way", [planned(A, 10, 15), planned(A, 10, 20), planned(A, 10, 99)])
def test_an_open_range_gives_way_to_what_the_dataset_has_in_its_place(ledger: Ledger, in_the_way: LedgerRange) -> None:
    ledger.restore("p", SHARDS, [told(CHAIN_A[0], in_the_way)])
    ledger.restore("p", SHARDS, [told(*CHAIN_A)])
    assert rows(ledger) == CHAIN_A


@pytest.mark.parametrize("told_open", [[], [planned(A, 10, 15)]])
def test_an_open_range_of_which_the_dataset_knows_nothing_else_stays(
    ledger: Ledger, told_open: list[LedgerRange]
) -> None:
    open_ = planned(A, 10, 15)
    ledger.restore("p", SHARDS, [told(CHAIN_A[0], open_)])
    ledger.restore("p", SHARDS, [told(CHAIN_A[0], *told_open)])
    assert rows(ledger) == [CHAIN_A[0], open_]


def test_an_open_range_that_was_published_is_committed(ledger: Ledger) -> None:
    ledger.restore("p", SHARDS, [told(planned(A, 0, 10))])
    ledger.restore("p", SHARDS, [told(committed(A, 0, 10))])
    assert rows(ledger) == [committed(A, 0, 10)]


OTHER_CHECKSUM = replace(committed(A, 0, 10), contents=replace(held(1), checksum="other"))
OTHER_COUNT = replace(committed(A, 0, 10), contents=replace(held(1), rows=9))


@pytest.mark.parametrize(
    ("has", "says"),
    [
        pytest.param([committed(A, 0, 10)], [], id="nothing"),
        pytest.param([committed(A, 0, 10)], [committed(A, 0, 9)], id="another end"),
        pytest.param([committed(A, 0, 10)], [OTHER_CHECKSUM], id="another checksum"),
        pytest.param([committed(A, 0, 10)], [OTHER_COUNT], id="another count"),
        pytest.param([committed(A, 0, 10)], [lost(A, 0, 10)], id="lost"),
        pytest.param([lost(A, 0, 10)], [committed(A, 0, 10)], id="not lost"),
        pytest.param([lost(A, 0, 10)], [planned(A, 0, 10)], id="open instead of lost"),
        pytest.param([committed(A, 0, 10)], [planned(A, 0, 10)], id="open"),
        pytest.param([committed(A, 0, 10), committed(A, 10, 20)], [committed(A, 0, 10)], id="less"),
    ],
)
def test_what_is_closed_must_be_a_beginning_of_it(
    ledger: Ledger, has: list[LedgerRange], says: list[LedgerRange]
) -> None:
    ledger.restore("p", SHARDS, [told(*has)])
    more = told(*says, *CHAIN_B, starts={A: AT_1, B: AT_1})
    with pytest.raises(ConflictError, match=f"has closed what the dataset does not tell, {A} A"):
        ledger.restore("p", SHARDS, [replace(more, batches=[plan_of("1")])])
    assert rows(ledger) == has
    assert ledger.batch("b-1") is None


def test_another_size_is_no_contradiction_since_a_file_may_have_been_repaired(ledger: Ledger) -> None:
    ledger.restore("p", SHARDS, [told(committed(A, 0, 10))])
    other = replace(committed(A, 0, 10), contents=replace(held(1), bytes=7))
    ledger.restore("p", SHARDS, [told(other)])
    assert rows(ledger) == [committed(A, 0, 10)]


def test_a_chain_that_begins_elsewhere_is_refused(ledger: Ledger) -> None:
    ledger.record_listing("p", LIVE, [], {A: Start("AT", SequenceNumber("4"))})
    with pytest.raises(
        ConflictError, match=f"the ledger's chain of {A} cannot be restored: expected a beginning at AT 1"
    ):
        ledger.restore("p", SHARDS, [told(committed(B, 0, 5)), told(bounds="{}"), told(*CHAIN_A)])
    assert (rows(ledger), ledger.backfills("p")) == ([], {})
