"""Reading a range exactly, against the local Kinesis: all of it, nothing more, or an error that says why not."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, cast

import pytest

from shardlake.errors import ConfigError, ConflictError, DataLossError, IngestError, UnavailableError
from shardlake.ingesting import ingest_ranges
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import InvalidPositionError
from shardlake.kinesis.hands import Hands
from shardlake.kinesis.page import Page
from shardlake.kinesis.reader import read_range
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start, Through

if TYPE_CHECKING:
    from tests.integration.conftest import World

SHARD = "shardId-000000000000"
DAY_MS = 86_400_000
HOUR_S = 3600


def records(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def at(number: SequenceNumber, through: Through, anchor: SequenceNumber | None = None) -> SequenceRange:
    return SequenceRange(SHARD, Start("AT", number), through, anchor or number)


def after(number: SequenceNumber, through: Through, anchor: SequenceNumber | None) -> SequenceRange:
    return SequenceRange(SHARD, Start("AFTER", number), through, anchor)


def opened(kinesis: Kinesis, range_: SequenceRange, retention_ms: int = DAY_MS, budget_s: float = 5) -> Iterator[Page]:
    """Reading a range, which gives up soon."""
    return read_range(kinesis, range_, retention_ms, retry_budget_s=budget_s)


def read(world: World, range_: SequenceRange, kinesis: Kinesis | None = None, budget_s: float = 5) -> list[str]:
    """The numbers that reading a range gives."""
    pages = list(opened(kinesis or world.kinesis, range_, budget_s=budget_s))
    assert all(len(page) for page in pages)
    return [number for page in pages for number in page.sequence_numbers]


def texts(numbers: list[SequenceNumber]) -> list[str]:
    return [number.text for number in numbers]


@pytest.fixture(params=["resume", "empty-pages"])
def trimming(request: pytest.FixtureRequest, world: World, no_waiting: None) -> str:
    """What a trimmed position is answered with."""
    world.control(retention_behaviour=request.param)
    return cast(str, request.param)


class TestExactRanges:
    def test_at_begins_with_its_record_and_through_is_the_last(self, world: World) -> None:
        numbers = world.put(*records(10))
        assert read(world, at(numbers[2], numbers[7])) == texts(numbers[2:8])

    def test_after_leaves_its_record_out(self, world: World) -> None:
        numbers = world.put(*records(10))
        assert read(world, after(numbers[2], numbers[7], anchor=numbers[3])) == texts(numbers[3:8])

    def test_after_leaves_its_record_out_also_where_reading_begins_with_it(self, world: World) -> None:
        numbers = world.put(*records(10))
        assert read(world, after(numbers[2], numbers[7], anchor=numbers[2])) == texts(numbers[3:8])

    def test_a_range_of_one_record(self, world: World) -> None:
        numbers = world.put(*records(3))
        assert read(world, at(numbers[1], numbers[1])) == texts(numbers[1:2])

    def test_a_chain_that_begins_at_the_shards_start_begins_with_its_first_record(self, world: World) -> None:
        numbers = world.put(*records(3))
        start = SequenceNumber(world.shard().starting_sequence_number)
        assert read(world, at(start, numbers[2], anchor=numbers[0])) == texts(numbers)

    def test_shard_end_is_behind_the_last_record(self, world: World) -> None:
        numbers = world.put(*records(10))
        world.split(0)
        assert read(world, at(numbers[4], SHARD_END)) == texts(numbers[4:])

    def test_an_end_without_records_has_no_pages_and_needs_no_call(self, world: World) -> None:
        numbers = world.put(*records(2))
        world.split(0)
        world.trim()  # so that nothing of the shard is there any more
        world.control(reset_stats=True)
        assert read(world, after(numbers[1], SHARD_END, anchor=None)) == []
        assert world.calls() == {"GetShardIterator": 0, "GetRecords": 0, "records": 0}

    def test_pages_hold_what_was_put(self, world: World) -> None:
        numbers = world.put(b"a", b"", b"\x00\xff")
        (page,) = opened(world.kinesis, at(numbers[0], numbers[2]))
        assert (page.data, page.partition_keys) == ([b"a", b"", b"\x00\xff"], ["k"] * 3)
        assert abs(page.arrivals_ms[0] - page.service_time_ms) <= 2_000

    @pytest.mark.parametrize("page_limit", [1, 3, 4])
    def test_through_may_lie_anywhere_in_a_page(self, world: World, page_limit: int) -> None:
        numbers = world.put(*records(12))
        world.control(page_limit=page_limit)
        for last in range(2, 12):
            assert read(world, at(numbers[1], numbers[last])) == texts(numbers[1 : last + 1])

    def test_more_records_than_a_page_holds(self, world: World) -> None:
        numbers = world.put(*records(10_500))
        assert read(world, at(numbers[0], numbers[-1])) == texts(numbers)


class TestEmptyPages:
    @pytest.mark.parametrize("count", [1, 9, 25])
    def test_empty_pages_before_the_first_record_are_followed(self, world: World, no_waiting: None, count: int) -> None:
        numbers = world.put(*records(5))
        world.control(empty_pages=count)
        assert read(world, at(numbers[0], numbers[4])) == texts(numbers)

    @pytest.mark.parametrize("count", [1, 25])
    def test_empty_pages_in_the_middle_are_followed(self, world: World, no_waiting: None, count: int) -> None:
        numbers = world.put(*records(6))
        world.control(page_limit=2)
        pages = opened(world.kinesis, at(numbers[0], numbers[5]))
        assert next(pages).sequence_numbers == texts(numbers[:2])
        world.control(empty_pages=count)
        assert [page.sequence_numbers for page in pages] == [texts(numbers[2:4]), texts(numbers[4:])]

    def test_a_range_that_is_not_given_out_fails_after_a_while_and_gives_no_end(
        self, world: World, no_waiting: None
    ) -> None:
        numbers = world.put(*records(4))
        with pytest.raises(
            UnavailableError, match=r"^no record of range .*; no progress for 1 s\. Run the step again$"
        ):
            read(world, at(numbers[0], numbers[3].plus(1)), budget_s=1)

    def test_a_first_record_that_is_not_given_out_fails_after_a_while(self, world: World) -> None:
        numbers = world.put(*records(2))
        world.control(empty_pages=1_000_000)
        with pytest.raises(
            UnavailableError, match=r"^nothing but empty pages from stream .*; no progress for 1 s\. Run the"
        ):
            read(world, at(numbers[1], numbers[1]), budget_s=1)

    def test_each_record_gives_the_whole_budget_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        waited: list[float] = []
        monkeypatch.setattr("shardlake.kinesis.reader.EMPTY_PAGE_WAIT_S", 3.0)
        monkeypatch.setattr("shardlake.kinesis.budget.time.monotonic", lambda: sum(waited))
        monkeypatch.setattr("shardlake.kinesis.budget.time.sleep", waited.append)
        range_ = at(SequenceNumber("95"), SequenceNumber("97"))
        silence: list[list[int]] = [[]] * 3
        kinesis = ScriptedKinesis([95], *silence, [96], *silence, [97], [95])
        assert [page.sequence_numbers for page in opened(kinesis, range_, budget_s=10)] == [["95"], ["96"], ["97"]]
        with pytest.raises(UnavailableError, match="no record of range .*; no progress for 10 s"):
            list(opened(ScriptedKinesis([95], *silence, [], [], [97], [95]), range_, budget_s=10))

    def test_a_page_wait_keeps_to_five_calls_a_second(self, world: World) -> None:
        numbers = world.put(*records(2))
        world.control(empty_pages=3)
        begin = time.monotonic()
        read(world, at(numbers[0], numbers[1]))
        assert time.monotonic() - begin > 0.6

    def test_records_that_become_visible_later_are_waited_for(self, world: World, no_waiting: None) -> None:
        numbers = world.put(*records(3))
        kinesis = LateKinesis(world.kinesis, late={numbers[1].text, numbers[2].text}, replies=4)
        assert read(world, at(numbers[0], numbers[2]), kinesis) == texts(numbers)

    def test_a_first_record_that_becomes_visible_later_is_waited_for(self, world: World, no_waiting: None) -> None:
        numbers = world.put(*records(3))
        kinesis = LateKinesis(world.kinesis, late={numbers[1].text, numbers[2].text}, replies=4)
        assert read(world, after(numbers[0], numbers[2], anchor=numbers[1]), kinesis) == texts(numbers[1:])


class ForgivingKinesis(Kinesis):
    """A client to which no position is wrong: one that is not the shard's is its beginning."""

    def __init__(self, real: Kinesis) -> None:
        self.__dict__.update(real.__dict__)

    def iterator_at(self, shard_id: str, kind: object, number: SequenceNumber) -> str:
        try:
            return super().iterator_at(shard_id, kind, number)  # type: ignore[arg-type]
        except InvalidPositionError:
            return self.iterator_at_horizon(shard_id)


class LateKinesis(Kinesis):
    """A client to which some records are shown only after a number of replies, as if nothing were behind the others."""

    def __init__(self, real: Kinesis, late: set[str], replies: int) -> None:
        self.__dict__.update(real.__dict__)
        self._late, self._replies = late, replies

    def get_records(self, iterator: str, limit: int = 10_000) -> Page:
        self._replies -= 1
        page = super().get_records(iterator, limit)
        if self._replies < 0 or not self._late & set(page.sequence_numbers):
            return page
        visible = page.rows(0, min(page.sequence_numbers.index(n) for n in self._late if n in page.sequence_numbers))
        return Page(
            visible.sequence_numbers,
            visible.partition_keys,
            visible.arrivals_ms,
            visible.data,
            next_iterator=self.iterator_at(SHARD, "AFTER_SEQUENCE_NUMBER", SequenceNumber(visible.sequence_numbers[-1]))
            if len(visible)
            else iterator,
            millis_behind_latest=0,
            service_time_ms=visible.service_time_ms,
        )


class TestHands:
    @pytest.mark.parametrize("end", ["read", "closed", "lost", "failed"])
    def test_a_page_is_held_until_the_next_is_asked_for_and_none_behind_the_end(self, world: World, end: str) -> None:
        """Kills: a permit that is lost where a reading ends early: the others would wait for ever."""
        world.control(page_limit=10)
        numbers = world.put(*records(30))
        pages, budget = Semaphore(1), 0.3
        range_ = at(numbers[0], numbers[-1].plus(1) if end == "lost" else numbers[-1])
        reading = read_range(world.kinesis, range_, DAY_MS, retry_budget_s=budget, hands=Hands(pages))
        next(reading)
        assert not pages.acquire(blocking=False)
        if end == "closed":
            cast("Generator[Page]", reading).close()
        elif end == "read":
            assert sum(map(len, reading)) == 20
        else:
            if end == "failed":
                world.control(faults=[{"kind": "throttle", "operation": "GetRecords", "stream": world.stream}])
            with pytest.raises(UnavailableError):
                list(reading)
        assert pages.acquire(blocking=False)

    def test_who_was_refused_holds_none_while_waiting(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Kills: tries of botocore's own, between which a reader goes on holding its page."""
        world.control(page_limit=10)
        numbers = world.put(*records(30))
        pages, free = Semaphore(1), list[bool]()

        def wait(_: float) -> None:
            free.append(pages.acquire(blocking=False))
            pages.release()

        monkeypatch.setattr("time.sleep", wait)
        refused = {"kind": "throttle", "operation": "GetRecords", "stream": world.stream, "nth": [2, 3, 5]}
        reading = read_range(world.kinesis, at(numbers[0], numbers[-1]), DAY_MS, hands=Hands(pages))
        first = next(reading)
        world.control(faults=[refused])
        assert len(first) + sum(map(len, reading)) == 30
        assert len(free) >= 3
        assert all(free)

    def test_readers_of_one_worker_hold_no_more_pages_than_they_may(
        self, make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Kills: hands that no reader of the product is given."""
        world = make_world(shards=6)
        world.produce(300)
        plan = world.plan()
        held, most = [0], [0]
        lock = Lock()

        class Counted(Hands):
            def take(self) -> None:
                super().take()
                with lock:
                    held[0] += 1
                    most[0] = max(most[0], held[0])
                time.sleep(0.01)

            def let_go(self) -> None:
                with lock:
                    held[0] -= self._full
                super().let_go()

        monkeypatch.setattr("shardlake.ingesting.Hands", Counted)
        monkeypatch.setattr("shardlake.ingesting.PAGES_IN_HAND", 2)
        reports = ingest_ranges(plan, list(plan.ranges), side_by_side=6)
        assert [report.error for report in reports] == [None] * 6
        assert (most, held) == ([2], [0])


class TestExpiredIterators:
    def test_reading_goes_on_behind_the_last_record(self, world: World) -> None:
        numbers = world.put(*records(7))
        world.control(page_limit=2)
        pages = opened(world.kinesis, at(numbers[0], numbers[6]))
        found = []
        for page in pages:
            found += page.sequence_numbers
            world.advance(seconds=301)
        assert found == texts(numbers)

    def test_reading_goes_on_behind_the_last_record_also_after_empty_pages(
        self, world: World, no_waiting: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        numbers = world.put(*records(6))
        world.control(page_limit=3)
        pages = opened(world.kinesis, at(numbers[0], numbers[5]))
        assert next(pages).sequence_numbers == texts(numbers[:3])
        world.control(empty_pages=4)
        waits = iter([301])
        monkeypatch.setattr("shardlake.kinesis.budget.time.sleep", lambda _: world.advance(seconds=next(waits, 0)))
        assert [page.sequence_numbers for page in pages] == [texts(numbers[3:])]

    @pytest.mark.parametrize("calls", [[1, 2], [2, 3, 4], [4, 5]], ids=["at first", "in the middle", "looking back"])
    def test_iterators_that_expire_again_and_again_are_got_anew(
        self, world: World, no_waiting: None, calls: list[int]
    ) -> None:
        numbers = world.put(*records(6))
        expire = {"kind": "expired_iterator", "stream": world.stream, "nth": calls}
        world.control(page_limit=2, faults=[expire])
        assert read(world, at(numbers[0], numbers[5])) == texts(numbers)
        assert world.server.stats()["faults"][0]["fired"] == len(calls)

    def test_iterators_that_always_expire_fail_once_the_budget_is_used_up(self, world: World) -> None:
        numbers = world.put(*records(6))
        world.control(page_limit=2, faults=[{"kind": "expired_iterator", "stream": world.stream}])
        with pytest.raises(
            UnavailableError, match=r"^GetRecords on stream .*ExpiredIteratorException.*; no progress for 1 s"
        ):
            read(world, at(numbers[0], numbers[5]), budget_s=1)

    def test_records_that_are_trimmed_just_then_are_a_loss(self, world: World, trimming: str) -> None:
        numbers = world.put(*records(8))
        world.control(page_limit=2)
        pages = opened(world.kinesis, at(numbers[0], numbers[7]))
        next(pages)
        world.advance(seconds=301)
        world.trim(before=numbers[4])
        with pytest.raises(DataLossError, match=f"found {numbers[4]} as the oldest record left"):
            list(pages)


class TestClosing:
    """A shard that a reshard closes while it is read."""

    @pytest.mark.parametrize("last", [3, 5], ids=["with records behind", "at its last record"])
    def test_the_range_ends_where_it_was_planned(self, world: World, last: int) -> None:
        numbers = world.put(*records(6))
        world.control(page_limit=2)
        pages = opened(world.kinesis, at(numbers[0], numbers[last]))
        found = next(pages).sequence_numbers
        world.split(0)
        assert found + [number for page in pages for number in page.sequence_numbers] == texts(numbers[: last + 1])

    def test_its_end_is_planned_next_and_its_children_after_that(self, world: World, no_waiting: None) -> None:
        world.produce(20)
        world.plan("run-0")
        world.split(0)
        world.produce(20)
        plans = [world.run(f"run-{n}")[0] for n in range(3)]
        ends = [[(range_.shard_id[-1:], range_.through is SHARD_END) for range_ in plan.ranges] for plan in plans]
        assert ends == [[("0", False)], [("0", True)], [("1", False), ("2", False)]]
        world.assert_every_record_is_there_once()


class TestLoss:
    def test_a_first_record_that_is_gone_is_a_loss(self, world: World, trimming: str) -> None:
        numbers = world.put(*records(6))
        world.trim(before=numbers[3])
        with pytest.raises(DataLossError, match=f"found {numbers[3]} as the oldest record left") as caught:
            read(world, at(numbers[2], numbers[5]))
        assert f"expected {numbers[2]}" in str(caught.value)

    def test_all_records_gone_are_a_loss(self, world: World, trimming: str) -> None:
        numbers = world.put(*records(3))
        world.trim()
        with pytest.raises(DataLossError, match="found nothing left"):
            read(world, at(numbers[0], numbers[2]))

    def test_all_records_of_a_closed_shard_gone_are_a_loss(self, world: World, trimming: str) -> None:
        numbers = world.put(*records(3))
        world.split(0)
        world.trim()
        with pytest.raises(DataLossError, match="found nothing left"):
            read(world, at(numbers[0], SHARD_END))

    def test_the_horizon_decides_where_a_trimmed_position_answers_with_empty_pages(
        self, world: World, no_waiting: None
    ) -> None:
        numbers = world.put(*records(3))
        world.trim(before=numbers[1])
        world.control(retention_behaviour="empty-pages", reset_stats=True)
        with pytest.raises(DataLossError, match=f"found {numbers[1]} as the oldest record left"):
            read(world, at(numbers[0], numbers[2]))
        assert world.calls() == {"GetShardIterator": 2, "GetRecords": 11, "records": 2}

    def test_a_record_before_the_range_may_be_gone(self, world: World, trimming: str) -> None:
        numbers = world.put(*records(6))
        world.trim(before=numbers[3])
        assert read(world, after(numbers[2], numbers[5], anchor=numbers[3])) == texts(numbers[3:])

    def test_a_gap_between_two_pages_that_trimming_has_overtaken_is_a_loss(self, world: World, trimming: str) -> None:
        old = world.put(*records(4))
        world.advance(hours=13)
        young = world.put(*records(2))
        world.advance(hours=10)
        world.control(page_limit=2)
        pages = opened(world.kinesis, at(old[0], young[1]))
        assert next(pages).sequence_numbers == texts(old[:2])
        world.advance(hours=2)  # old[2:] is gone, unread, and what comes next is far from the horizon
        with pytest.raises(DataLossError, match=f"found {young[0]} as the oldest record left"):
            list(pages)

    def test_a_loss_at_the_end_of_what_is_read_is_not_taken_for_silence(self, world: World, trimming: str) -> None:
        numbers = world.put(*records(4))
        world.control(page_limit=2)
        pages = opened(world.kinesis, at(numbers[0], numbers[3]))
        next(pages)
        world.trim()
        with pytest.raises(DataLossError, match="found nothing left"):
            list(pages)

    def test_a_slow_read_near_the_horizon_is_fine_while_the_page_before_is_retained(self, world: World) -> None:
        numbers = world.put(*records(6))
        world.advance(hours=23)
        world.control(page_limit=2, reset_stats=True)
        assert read(world, at(numbers[0], numbers[5])) == texts(numbers)
        assert world.calls() == {"GetShardIterator": 3, "GetRecords": 5, "records": 8}

    def test_far_from_the_horizon_one_look_back_proves_all_pages(self, world: World) -> None:
        numbers = world.put(*records(6))
        world.advance(hours=21)
        world.control(page_limit=2, reset_stats=True)
        assert read(world, at(numbers[0], numbers[5])) == texts(numbers)
        assert world.calls() == {"GetShardIterator": 2, "GetRecords": 4, "records": 7}

    def test_one_page_needs_no_look_back(self, world: World) -> None:
        numbers = world.put(*records(6))
        world.control(reset_stats=True)
        assert read(world, at(numbers[0], numbers[5])) == texts(numbers)
        assert world.calls() == {"GetShardIterator": 1, "GetRecords": 1, "records": 6}

    def test_what_a_lowered_retention_takes_away_unread_is_a_loss(self, world: World, trimming: str) -> None:
        change = world.client.increase_stream_retention_period, world.client.decrease_stream_retention_period
        change[0](StreamName=world.stream, RetentionPeriodHours=48)
        old = world.put(*records(4))
        world.advance(hours=30)
        young = world.put(*records(2))
        world.control(page_limit=2)
        pages = opened(world.kinesis, at(old[0], young[1]), 2 * DAY_MS)
        assert next(pages).sequence_numbers == texts(old[:2])
        change[1](StreamName=world.stream, RetentionPeriodHours=24)
        with pytest.raises(DataLossError, match=f"found {young[0]} as the oldest record left"):
            list(pages)

    def test_what_is_trimmed_behind_the_reading_is_none(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shardlake.kinesis.continuity.FAR_PAGES", 2)
        numbers = world.put(*records(6))
        world.control(page_limit=1, reset_stats=True)
        pages = opened(world.kinesis, at(numbers[0], numbers[5]))
        found = [next(pages).sequence_numbers[0] for _ in range(3)]
        world.trim(before=numbers[2])
        assert found + [page.sequence_numbers[0] for page in pages] == texts(numbers)
        assert world.calls() == {"GetShardIterator": 4, "GetRecords": 9, "records": 9}

    def test_a_shard_that_is_gone_is_a_loss(self, world: World) -> None:
        numbers = world.put(*records(3))
        world.split(0)
        world.advance(hours=25)
        with pytest.raises(DataLossError, match="found nothing left"):
            read(world, at(numbers[0], SHARD_END))

    def test_an_end_that_was_trimmed_with_what_lies_before_it_is_a_loss(self, world: World, trimming: str) -> None:
        numbers = world.put(*records(8))
        world.control(page_limit=2)
        pages = opened(world.kinesis, at(numbers[0], numbers[4]))
        next(pages)
        world.trim(before=numbers[6])
        with pytest.raises(DataLossError, match=f"found {numbers[6]} as the oldest record left"):
            list(pages)


class TestOtherRecordsThanPlanned:
    def test_a_number_beyond_through_is_a_conflict(self, world: World) -> None:
        numbers = world.put(*records(4))
        world.advance(seconds=1)
        world.put(b"behind the gap")
        missing = numbers[3].plus(1)
        with pytest.raises(ConflictError, match="not those that were seen when it was planned") as caught:
            read(world, at(numbers[0], missing))
        assert f"{missing} last" in str(caught.value)

    def test_the_shards_end_before_through_is_a_conflict(self, world: World) -> None:
        numbers = world.put(*records(3))
        world.split(0)
        with pytest.raises(ConflictError, match=f"found {numbers[2]} behind {numbers[2]}"):
            read(world, at(numbers[0], numbers[2].plus(1)))

    def test_a_stream_recreated_under_its_name_is_a_conflict(self, world: World) -> None:
        numbers = world.put(*records(3))
        world.client.delete_stream(StreamName=world.stream)
        world.advance(seconds=5)
        world.client.create_stream(StreamName=world.stream, ShardCount=1)
        world.put(*records(3))
        with pytest.raises(ConflictError, match=r"Check whether the stream was recreated"):
            read(world, at(numbers[0], numbers[2]))

    @pytest.mark.parametrize(
        ("seconds", "error"), [(5, ConfigError), (301, ConflictError)], ids=["iterator valid", "iterator expired"]
    )
    def test_a_stream_recreated_while_it_is_read_ends_the_reading(
        self, world: World, seconds: int, error: type[Exception]
    ) -> None:
        numbers = world.put(*records(4))
        world.control(page_limit=2)
        pages = opened(world.kinesis, at(numbers[0], numbers[3]))
        next(pages)
        world.client.delete_stream(StreamName=world.stream)
        world.advance(seconds=seconds)
        world.client.create_stream(StreamName=world.stream, ShardCount=1)
        world.put(*records(4))
        with pytest.raises(error, match="recreated|deleted"):
            next(pages)

    def test_a_service_that_takes_the_old_position_for_the_new_streams_beginning_is_found_out(
        self, world: World
    ) -> None:
        numbers = world.put(*records(4))
        world.control(page_limit=2)
        pages = opened(ForgivingKinesis(world.kinesis), at(numbers[0], numbers[3]))
        next(pages)
        world.client.delete_stream(StreamName=world.stream)
        world.advance(seconds=301)
        world.client.create_stream(StreamName=world.stream, ShardCount=1)
        world.put(*records(4))
        with pytest.raises(DataLossError, match="no longer retained"):
            list(pages)


class ScriptedKinesis(Kinesis):
    """A client whose pages are made up."""

    def __init__(self, *pages: list[int]) -> None:
        self.stream_name = "made-up"
        self._replies: Iterator[list[int]] = iter(pages)

    def iterator_at(self, shard_id: str, kind: object, number: SequenceNumber) -> str:
        return "iterator"

    def get_records(self, iterator: str, limit: int = 10_000) -> Page:
        numbers = [str(number) for number in next(self._replies)]
        count = len(numbers)
        return Page(numbers, ["k"] * count, [0] * count, [b""] * count, "iterator", 1, 0)


class TestOrder:
    range_ = at(SequenceNumber("95"), SequenceNumber("120"))

    def read(self, *pages: list[int]) -> list[str]:
        found = opened(ScriptedKinesis(*pages), self.range_)
        return [number for page in found for number in page.sequence_numbers]

    def test_numbers_are_ordered_as_integers_not_as_texts(self) -> None:
        assert self.read([95, 99, 100], [101, 120], [100]) == ["95", "99", "100", "101", "120"]

    @pytest.mark.parametrize(
        "pages",
        [
            pytest.param([[95, 97, 96, 120]], id="within a page"),
            pytest.param([[95, 96, 96, 120]], id="doubled within a page"),
            pytest.param([[95, 96], [96, 120]], id="a record again on the next page"),
            pytest.param([[95, 99], [98, 120]], id="the next page lies before"),
            pytest.param([[95, 100, 99, 120]], id="numbers of different lengths"),
        ],
    )
    def test_numbers_out_of_order_are_refused(self, pages: list[list[int]]) -> None:
        with pytest.raises(IngestError, match="out of order"):
            self.read(*pages)

    def test_records_behind_through_on_the_same_page_are_left_out(self) -> None:
        assert self.read([95, 120, 121, 122]) == ["95", "120"]
