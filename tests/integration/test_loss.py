"""Records that are trimmed between plan and ingest: told, recorded and gone past; and what only looks like a loss."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest

from shardlake.errors import ConflictError, DataLossError, ShardlakeError
from shardlake.kinesis.client import Kinesis
from shardlake.lake.owner import claim_dataset
from shardlake.ledger import Chain
from shardlake.names import LIVE
from shardlake.plan import Run
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start
from shardlake.shards import Shard
from shardlake.status import current_status

if TYPE_CHECKING:
    from tests.integration.conftest import World

SHARD = "shardId-000000000000"
LOST = "_shardlake/lost/"


def after(number: SequenceNumber) -> Start:
    return Start("AFTER", number)


def at(number: SequenceNumber) -> Start:
    return Start("AT", number)


@pytest.fixture(autouse=True, params=["resume", "empty-pages"])
def trimming(request: pytest.FixtureRequest, world: World, no_waiting: None) -> str:
    """What a trimmed position is answered with."""
    world.control(retention_behaviour=request.param)
    return cast(str, request.param)


@pytest.fixture
def numbers(world: World) -> list[SequenceNumber]:
    """A shard read through its first record, with an open range of four more, and two behind that."""
    numbers = world.put(b"0")
    world.run("first")
    numbers += world.put(b"1", b"2", b"3", b"4")
    (range_,) = world.plan("run").ranges
    assert range_ == SequenceRange(SHARD, after(numbers[0]), numbers[4], numbers[1])
    return numbers + world.put(b"5", b"6")


def state(world: World) -> object:
    return world.chain(), list(world.ledger.ranges("p", LIVE)), world.files()


def chained(world: World) -> list[tuple[str, SequenceRange]]:
    """The ledger's ranges of the shard behind its first record, each checked to begin where the one before ended."""
    rows = [row for row in world.ledger.ranges("p", LIVE) if row.range.shard_id == SHARD]
    for one, next_ in pairwise(rows):
        assert next_.range.start.key == one.range.through.key
    return [(row.state, row.range) for row in rows[1:]]


@pytest.mark.parametrize(
    "oldest", [2, 4, 5, 6], ids=["the start", "all but the end", "all of it", "all of it and more behind it"]
)
class TestOpenRange:
    """An open range of which this much is gone; `oldest` is the first record left."""

    def test_fail_tells_it_in_every_run_and_changes_nothing(
        self, world: World, numbers: list[SequenceNumber], oldest: int
    ) -> None:
        """Kills: a file of what is left; a position that moves; a range that is planned anew."""
        world.trim(before=numbers[oldest])
        before = state(world)
        with pytest.raises(DataLossError, match=f"found {numbers[oldest]} as the oldest record left"):
            world.run("run")
        for run in ("second", "third"):
            with pytest.raises(DataLossError, match=f"after position {after(numbers[0])} are no longer retained"):
                world.plan(run)
        assert state(world) == before

    def test_skip_records_the_loss_and_reads_the_rest_exactly(
        self, world: World, numbers: list[SequenceNumber], oldest: int
    ) -> None:
        """Kills: a loss one number too long or too short; the open range's end moved; a marker left out."""
        world.trim(before=numbers[oldest])
        world.settings["on_data_loss"] = "skip"
        assert world.run_until_caught_up() == (2 if oldest < 5 else 1)
        lost = SequenceRange(SHARD, after(numbers[0]), numbers[oldest].plus(-1), numbers[0])
        rest = SequenceRange(SHARD, at(numbers[oldest]), numbers[4 if oldest < 5 else 6], numbers[oldest])
        behind = [] if oldest >= 5 else [SequenceRange(SHARD, after(numbers[4]), numbers[6], numbers[5])]
        assert chained(world) == [("lost", lost), *(("committed", range_) for range_ in [rest, *behind])]
        assert world.chain().position == after(numbers[6])
        assert world.numbers() == [number.text for number in [numbers[0], *numbers[oldest:]]]
        (marker,) = world.lake.keys(LOST)
        facts = json.loads(world.lake.read(marker))
        assert (facts["start"], facts["through"]) == (["AFTER", numbers[0].text], str(lost.through))

    def test_the_run_that_could_not_read_it_does_no_harm_when_it_comes_back(
        self, world: World, numbers: list[SequenceNumber], oldest: int
    ) -> None:
        """Kills: a range that was given up published after all."""
        world.trim(before=numbers[oldest])
        world.settings["on_data_loss"] = "skip"
        world.run_until_caught_up()
        before = state(world)
        with pytest.raises(ConflictError, match="not open any more"):
            world.run("run")
        assert state(world) == before


class TestNothingLeft:
    def test_fail_tells_it(self, world: World, numbers: list[SequenceNumber]) -> None:
        world.trim()
        before = state(world)
        with pytest.raises(DataLossError, match="found nothing left"):
            world.run("run")
        with pytest.raises(DataLossError, match="found no record left"):
            world.plan("next")
        assert state(world) == before

    def test_skip_goes_on_with_the_next_record(self, world: World, numbers: list[SequenceNumber]) -> None:
        world.trim()
        world.settings["on_data_loss"] = "skip"
        assert list(world.plan("next").ranges) == []
        assert world.lake.keys(LOST) == []
        (later,) = world.put(b"7")
        world.run_until_caught_up()
        lost = SequenceRange(SHARD, after(numbers[0]), later.plus(-1), numbers[0])
        assert chained(world) == [("lost", lost), ("committed", SequenceRange(SHARD, at(later), later, later))]
        assert len(world.lake.keys(LOST)) == 1

    def test_skip_ends_a_shard_that_is_closed_and_reads_its_children(
        self, world: World, numbers: list[SequenceNumber]
    ) -> None:
        """Kills: children that wait forever for a parent that nobody can read."""
        world.split(0)
        world.put(b"7", shard=1)
        world.trim()
        world.settings["on_data_loss"] = "skip"
        for n in range(4):  # a shard counts as gone when two listings do not have it
            world.run(f"skip-{n}")
        assert chained(world) == [("lost", SequenceRange(SHARD, after(numbers[0]), SHARD_END, numbers[0]))]
        assert world.chain().position is SHARD_END
        assert len(world.numbers(1)) == 1


def trim_before_call(nth: int, monkeypatch: pytest.MonkeyPatch, trim: Callable[[], None]) -> None:
    """Let something be trimmed just before a GetRecords call of ours."""
    get_records, calls = Kinesis.get_records, []

    def trimmed_meanwhile(kinesis: Kinesis, *arguments: object) -> object:
        calls.append(1)
        if len(calls) == nth:
            trim()
        return get_records(kinesis, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Kinesis, "get_records", trimmed_meanwhile)


class TestTrimmedWhileRead:
    @pytest.mark.parametrize("far", [True, False], ids=["far from the horizon", "near the horizon"])
    def test_nothing_is_published_and_skip_goes_on_with_what_is_left(
        self, world: World, monkeypatch: pytest.MonkeyPatch, far: bool
    ) -> None:
        """Kills: no look back at the end of a range, or near the horizon."""
        numbers = world.put(*[b"x"] * 8)
        world.advance(hours=1 if far else 22)
        world.plan("run")
        world.control(page_limit=2)
        with monkeypatch.context() as patch:
            trim_before_call(3, patch, lambda: world.trim(before=numbers[6]))
            with pytest.raises(DataLossError, match=f"found {numbers[6]} as the oldest record left"):
                world.run("run")
        assert world.numbers() == []
        world.control(page_limit=None)
        world.settings["on_data_loss"] = "skip"
        world.run_until_caught_up()
        assert world.numbers() == [number.text for number in numbers[6:]]


class TestTrimmedWhilePlanned:
    @pytest.mark.parametrize("left", [True, False], ids=["more behind it", "nothing left"])
    def test_between_the_page_that_has_only_the_position_and_the_next_one(
        self, world: World, monkeypatch: pytest.MonkeyPatch, left: bool
    ) -> None:
        """Kills: a range that begins behind what is gone, or a note that nothing was there."""
        (read,) = world.put(b"read")
        world.run("read")
        unread = world.put(b"unread", b"unread", b"unread")
        world.control(page_limit=1)
        trim_before_call(2, monkeypatch, lambda: world.trim(before=unread[2] if left else None))
        for run in ("one", "two"):
            with pytest.raises(DataLossError, match=f"records of {SHARD} after position {after(read)}"):
                world.plan(run)
        assert world.chain() == Chain(SHARD, after(read), None, None)

    def test_only_the_position_itself_behind_which_nothing_was_lately(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Kills: a loss told of every page of one record, or of every position that goes."""
        (read,) = world.put(b"read")
        world.run("read")
        assert list(world.plan("idle").ranges) == []
        unread = world.put(b"unread", b"unread")
        world.control(page_limit=1)
        trim_before_call(2, monkeypatch, lambda: world.trim(before=unread[0]))
        (range_,) = world.plan("one").ranges
        assert (range_.start, range_.anchor) == (after(read), unread[0])


class TestNoLoss:
    def test_idle_for_twice_the_retention_and_then_one_record(self, world: World) -> None:
        """Kills: a position that is gone taken for a loss though nothing was behind it."""
        (first,) = world.put(b"0")
        world.run("first")
        for n in range(8):
            world.advance(hours=6)
            assert list(world.plan(f"idle-{n}").ranges) == []
        (second,) = world.put(b"1")
        (range_,) = world.run("second")[0].ranges
        assert range_ == SequenceRange(SHARD, after(first), second, second)
        assert world.numbers() == [first.text, second.text]
        assert world.lake.keys(LOST) == []

    def test_a_published_range_is_committed_though_its_records_are_gone(
        self, world: World, numbers: list[SequenceNumber]
    ) -> None:
        """Kills: a loss declared before the file of the whole range is looked for."""
        plan = world.plan("run")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shardlake.batch.Steps.commit", lambda *_: None)
            world.run("run")
        world.trim(before=numbers[5])
        world.settings["on_data_loss"] = "skip"
        assert list(world.run("next")[0].ranges) == list(plan.ranges)
        assert world.chain().position == after(numbers[4])
        assert world.lake.keys(LOST) == []


def states(world: World) -> list[str]:
    """What `shardlake status` says of the shards."""
    return [shard.state for shard in current_status(world.ledger, "p", world.kinesis)]


def raise_retention(world: World, hours: int) -> None:
    world.client.increase_stream_retention_period(StreamName=world.stream, RetentionPeriodHours=hours)


class TestRetentionRaised:
    """Nobody looks for a while, and meanwhile the retention is raised from a day to a week."""

    @pytest.fixture(autouse=True)
    def idle(self, world: World, trimming: str) -> SequenceNumber:
        """A shard read through its only record, with a plan behind that which found nothing."""
        (read,) = world.put(b"read")
        world.run("read")
        assert list(world.plan("idle").ranges) == []
        return read

    def test_what_the_old_one_took_is_told(self, world: World, idle: SequenceNumber) -> None:
        """Kills: a note that is believed for as long as the new retention."""
        world.put(b"gone")
        world.advance(hours=25)
        raise_retention(world, 168)
        for run in ("one", "two"):
            with pytest.raises(DataLossError, match=f"after position {after(idle)} .* found no record left"):
                world.plan(run)
        assert states(world) == ["trimmed"]
        (left,) = world.put(b"left")
        assert states(world) == ["trimmed"]
        with pytest.raises(DataLossError, match=f"found {left} as the oldest record left"):
            world.plan("three")
        assert world.chain().open_range is None

    def test_skip_records_what_the_old_one_took(self, world: World, idle: SequenceNumber) -> None:
        world.put(b"gone")
        world.advance(hours=25)
        raise_retention(world, 168)
        world.settings["on_data_loss"] = "skip"
        assert list(world.plan("nothing left").ranges) == []
        (left,) = world.put(b"left")
        world.run_until_caught_up()
        lost = SequenceRange(SHARD, after(idle), left.plus(-1), idle)
        assert chained(world) == [("lost", lost), ("committed", SequenceRange(SHARD, at(left), left, left))]
        assert len(world.lake.keys(LOST)) == 1

    def test_a_note_younger_than_the_old_one_is_believed(self, world: World, idle: SequenceNumber) -> None:
        """Kills: every change of the retention taken for a loss."""
        world.put(b"late", b"later")
        world.advance(hours=23)
        world.trim(before=idle.plus(1))
        raise_retention(world, 168)
        assert states(world) == ["behind"]
        (range_,) = world.run("late")[0].ranges
        assert range_.start == after(idle)
        assert len(world.numbers()) == 3
        assert world.lake.keys(LOST) == []

    def test_a_shard_that_is_looked_at_all_the_while_stays_idle_for_twice_the_new_one(
        self, world: World, idle: SequenceNumber
    ) -> None:
        """Kills: a note that keeps the retention that it was first made under."""
        raise_retention(world, 48)
        for n in range(4):
            world.advance(hours=24)
            assert list(world.plan(f"idle-{n}").ranges) == []
        world.advance(hours=47)
        assert list(world.plan("after two days without a look").ranges) == []
        (later,) = world.put(b"later")
        assert list(world.run("later")[0].ranges) == [SequenceRange(SHARD, after(idle), later, later)]

    def test_one_that_was_lowered_meanwhile_counts_from_the_note_on(self, world: World, idle: SequenceNumber) -> None:
        """Kills: the note's own retention alone taken for the one that was in force."""
        raise_retention(world, 168)
        world.advance(seconds=2)
        assert list(world.plan("noted under a week").ranges) == []
        world.put(b"gone")
        world.advance(hours=25)
        world.client.decrease_stream_retention_period(StreamName=world.stream, RetentionPeriodHours=24)
        with pytest.raises(DataLossError, match=f"after position {after(idle)} are no longer retained"):
            world.plan("lowered")

    def test_an_empty_shard_is_noted_when_it_is_first_seen(self, make_world: Callable[..., World]) -> None:
        """Kills: the note of a chain's beginning made under no retention, or under the new one."""
        world = make_world()
        world.plan("first")
        world.put(b"gone")
        world.advance(hours=25)
        raise_retention(world, 168)
        with pytest.raises(DataLossError, match="found no record left"):
            world.plan("second")


def test_status_doubts_a_beginning_that_was_never_noted_as_planning_does(world: World) -> None:
    """Kills: a shard that begins at its StartingSequenceNumber taken for one that was empty."""
    (shard,) = world.kinesis.list_shards()
    beginning = at(SequenceNumber(shard.starting_sequence_number))
    claim_dataset(world.home, world.planner().draft(Run("dag", "run")))
    world.ledger.record_listing("p", LIVE, [shard], {SHARD: beginning})
    with pytest.raises(DataLossError, match=f"after position {beginning} are no longer retained"):
        world.plan()
    assert states(world) == ["trimmed"]


class TestRecreated:
    def test_while_it_is_planned(self, world: World, numbers: list[SequenceNumber]) -> None:
        """Kills: the new stream's records planned for the old one's."""
        world.run("run")
        before = state(world)

        def recreate() -> None:
            world.client.delete_stream(StreamName=world.stream)
            world.advance(seconds=5)
            world.client.create_stream(StreamName=world.stream, ShardCount=1)
            world.put(b"new")

        with pytest.raises(ShardlakeError):
            world.plan("next", RecreatedBeforeListing(world.kinesis, recreate))
        assert state(world) == before
        with pytest.raises(ConflictError, match="deleted and made anew"):
            world.plan("next")

    def test_between_plan_and_ingest(self, world: World, numbers: list[SequenceNumber]) -> None:
        before = world.files()
        world.client.delete_stream(StreamName=world.stream)
        world.advance(seconds=5)
        world.client.create_stream(StreamName=world.stream, ShardCount=1)
        world.put(b"new")
        with pytest.raises(ConflictError, match="Check whether the stream was recreated under its name"):
            world.run("run")
        assert world.files() == before


class RecreatedBeforeListing(Kinesis):
    """A client between whose first two calls something happens."""

    def __init__(self, real: Kinesis, happens: Callable[[], None]) -> None:
        self.__dict__.update(real.__dict__)
        self._happens = happens

    def list_shards(self) -> list[Shard]:
        self._happens()
        return super().list_shards()
