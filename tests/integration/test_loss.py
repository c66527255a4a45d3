"""Records that are trimmed between plan and ingest: told, recorded and gone past; and what only looks like a loss."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest

from shardlake.errors import ConflictError, DataLossError, ShardlakeError
from shardlake.kinesis.client import Kinesis
from shardlake.names import LIVE
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start
from shardlake.shards import Shard

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
        get_records, calls = Kinesis.get_records, []

        def trimmed_meanwhile(kinesis: Kinesis, *arguments: object) -> object:
            calls.append(1)
            if len(calls) == 3:
                world.trim(before=numbers[6])
            return get_records(kinesis, *arguments)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(Kinesis, "get_records", trimmed_meanwhile)
            with pytest.raises(DataLossError, match=f"found {numbers[6]} as the oldest record left"):
                world.run("run")
        assert world.numbers() == []
        world.control(page_limit=None)
        world.settings["on_data_loss"] = "skip"
        world.run_until_caught_up()
        assert world.numbers() == [number.text for number in numbers[6:]]


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
