"""A backfill beside its live pipeline: bounds, batches, losses, and that the live pipeline is left as it was."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from shardlake.auditing import audit
from shardlake.backfill import Backfill, Request, parse_request
from shardlake.batch import Committed, Steps
from shardlake.errors import ConfigError, ConflictError, DataLossError, IngestError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.reader import read_range
from shardlake.lake.footer import read_footer
from shardlake.lake.local import LocalHome
from shardlake.lake.owner import claim_dataset
from shardlake.ledger import LedgerRange
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import LIVE, FileKey
from shardlake.plan import BatchPlan, Run
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start
from shardlake.shards import Shard
from support.effects import Effects
from support.inline_engine import InlineEngine
from support.lakes import PLACES

if TYPE_CHECKING:
    from tests.integration.conftest import World

MakeWorld = Callable[..., "World"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


def at(number: SequenceNumber) -> Start:
    return Start("AT", number)


def after(number: SequenceNumber) -> Start:
    return Start("AFTER", number)


def utc(at_ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=at_ms)).isoformat()


@dataclass
class Fill:
    """A backfill of a test's pipeline."""

    world: World
    namespace: str = "b"

    @property
    def steps(self) -> Steps:
        return Steps(self.world.pipeline, self.world.ledger, namespace=self.namespace)

    @property
    def home(self) -> LocalHome:
        return LocalHome(f"{self.world.pipeline.dataset}/backfill/{self.namespace}")

    def open(self, **asked: Any) -> Backfill:
        """Open it, or go on with it; `from_` stands for `from`."""
        return self.steps.open_backfill(parse_request({name.rstrip("_"): value for name, value in asked.items()}))

    def run(self, run: str = "run-1") -> tuple[BatchPlan, Committed | None]:
        """One batch."""
        return self.steps.run(Run("dag", run), InlineEngine(), lambda line: None)

    def finish(self, name: str = "run") -> list[BatchPlan]:
        """Batches, as long as each says that another should follow."""
        plans = [self.run(f"{name}-1")[0]]
        while plans[-1].behind:
            plans.append(self.run(f"{name}-{len(plans) + 1}")[0])
        return plans

    def numbers(self, shard: int = 0) -> list[str]:
        """The sequence numbers that its files of a shard hold."""
        files = sorted(self.home.path(f"data/shard_id={shard_id(shard)}").glob("*"))
        columns = (pq.read_table(file, columns=["sequence_number"], partitioning=None) for file in files)
        return [number for column in columns for number in column.column(0).to_pylist()]

    def rows(self) -> list[LedgerRange]:
        return list(self.world.ledger.ranges("p", self.namespace))

    def stretch(self, **asked: Any) -> SequenceRange:
        """The stretch of the one shard, once it is opened."""
        (stretch,) = self.open(**asked).stretches
        return stretch


@pytest.fixture
def fill(world: World) -> Fill:
    return Fill(world)


def texts(numbers: list[SequenceNumber]) -> list[str]:
    return [number.text for number in numbers]


def written(world: World) -> object:
    """Everything that the live pipeline has on disk and in the ledger."""
    lake = Path(world.pipeline.dataset)
    files = {
        str(file.relative_to(lake)): (file.stat().st_mtime_ns, hashlib.sha256(file.read_bytes()).hexdigest())
        for file in sorted(lake.rglob("*"))
        if file.is_file() and file.relative_to(lake).parts[0] != "backfill"
    }
    ledger = world.ledger
    return files, ledger.shards("p"), ledger.chains("p", LIVE), list(ledger.ranges("p", LIVE))


def gap_in(numbers: list[SequenceNumber]) -> int:
    """A row behind whose number there is one that is no record's: of 16 numbers, few are neighbours."""
    return next(row for row, (one, next_) in enumerate(pairwise(numbers)) if int(next_) - int(one) > 1)


def nothing_is_opened(world: World) -> bool:
    return world.ledger.backfills("p") == {} and not Path(world.pipeline.dataset).exists()


class TestBounds:
    def test_times_name_records_within_a_second_and_to_is_left_out(self, world: World, fill: Fill) -> None:
        numbers = []
        for _ in range(6):
            numbers += world.put(b"a", b"b")  # of one millisecond
            world.advance(seconds=0.1)
        arrivals = world.kinesis.get_records(world.kinesis.iterator_at_horizon(shard_id(0))).arrivals_ms
        assert arrivals[2] == arrivals[3]
        fill.open(from_=utc(arrivals[2]), to=utc(arrivals[9]))
        fill.finish()
        assert fill.numbers() == texts(numbers[2:8])

    def test_sequence_numbers_are_inclusive(self, world: World, fill: Fill) -> None:
        numbers = world.put(*[b"x"] * 5)
        fill.open(shards=[shard_id(0)], from_=numbers[0].text, to=numbers[4].text)
        one = Fill(world, "one")
        one.open(shards=[shard_id(0)], from_=numbers[2].text, to=numbers[2].text)
        fill.finish()
        one.finish()
        assert (fill.numbers(), one.numbers()) == (texts(numbers), [numbers[2].text])

    def test_all_of_open_closed_and_empty_shards(self, make_world: MakeWorld) -> None:
        world = make_world(2)
        world.put(b"parent")
        world.split(0)
        (child,) = world.put(b"child", shard=2)
        fill = Fill(world)
        assert [each.shard_id for each in fill.open().stretches] == [shard_id(0), shard_id(2)]
        assert len(fill.finish()) == 1
        assert [(row.range.shard_id, row.range.through) for row in fill.rows()] == [
            (shard_id(0), SHARD_END),
            (shard_id(2), child),
        ]

    def test_an_idle_shard_ends_with_its_last_record(self, world: World, fill: Fill) -> None:
        (only,) = world.put(b"x")
        world.advance(hours=20)
        assert fill.stretch(to=utc(world.kinesis.describe()[1])) == SequenceRange(shard_id(0), at(only), only, only)

    def test_only_the_shards_that_are_named(self, make_world: MakeWorld) -> None:
        world = make_world(2)
        world.put(b"0")
        world.put(b"1", shard=1)
        assert [each.shard_id for each in Fill(world).open(shards=[shard_id(1)]).stretches] == [shard_id(1)]

    @pytest.mark.parametrize(
        ("from_", "to", "said"),
        [
            pytest.param("gap", None, "has no record .*: found .* behind it", id="in a gap"),
            pytest.param(None, "gap", "has no record .*: found .* behind it", id="to in a gap"),
            pytest.param("other", None, "has no record", id="of another shard"),
            pytest.param(None, "beyond", "has no record .*: found (nothing behind it|.*InvalidArgument)", id="beyond"),
            pytest.param("0", None, "has no record 0", id="none of the service's"),
            pytest.param("last", "first", "no records between .*Widen them", id="the wrong way round"),
        ],
    )
    def test_a_number_that_is_no_record_is_told(
        self, make_world: MakeWorld, from_: str | None, to: str | None, said: str
    ) -> None:
        world = make_world(2)
        numbers = world.put(*[b"x"] * 16)
        first, last, gap = numbers[0], numbers[-1], numbers[gap_in(numbers)].plus(1)
        (other,) = world.put(b"other", shard=1)
        named = {"first": first, "last": last, "gap": gap, "other": other, "beyond": last.plus(10**20)}
        bounds = {name: named[text].text if text in named else text for name, text in (("from", from_), ("to", to))}
        with pytest.raises(ConfigError, match=said):
            Fill(world).open(shards=[shard_id(0)], **bounds)
        assert nothing_is_opened(world)

    @pytest.mark.parametrize("bound", ["from", "to"])
    def test_a_time_in_the_future_is_told(self, world: World, fill: Fill, bound: str) -> None:
        world.put(b"x")
        text = utc(world.kinesis.describe()[1] + 60_000)
        with pytest.raises(
            ConfigError, match=rf"the backfill's {bound} lies in the future: expected not after .* found"
        ):
            fill.open(**{bound: text})
        assert nothing_is_opened(world)

    def test_the_end_of_time_is_in_the_future(self, world: World, fill: Fill) -> None:
        with pytest.raises(ConfigError, match="lies in the future"):
            fill.open(to="9999-12-31T23:59:59-14:00")

    def test_nothing_between_is_told(self, world: World, fill: Fill) -> None:
        world.put(b"0")
        world.advance(seconds=60)
        begin_ms = world.kinesis.describe()[1] - 30_000
        with pytest.raises(ConfigError, match=r"no records between the bounds.*found from .* to .* of all shards"):
            fill.open(from_=utc(begin_ms), to=utc(begin_ms + 10_000))
        with pytest.raises(ConfigError, match="no records between"):
            fill.open(from_=utc(begin_ms + 10_000), to=utc(begin_ms))
        assert nothing_is_opened(world)

    def test_an_unknown_shard_is_told(self, world: World, fill: Fill) -> None:
        with pytest.raises(ConfigError, match=f"the stream has no shard {shard_id(7)}: found {shard_id(0)}"):
            fill.open(shards=[shard_id(7)])


class TestRetention:
    def test_a_beginning_that_is_no_longer_retained_is_told_before_anything_is_written(
        self, world: World, fill: Fill
    ) -> None:
        begin_ms = world.kinesis.describe()[1]
        world.put(b"old")
        world.advance(hours=25)
        (new,) = world.put(b"new")
        with pytest.raises(DataLossError, match=r"no longer retained.*expected a beginning not before .*retained only"):
            fill.open(from_=utc(begin_ms))
        assert nothing_is_opened(world)
        assert fill.stretch(from_=utc(begin_ms), retained_only=True) == SequenceRange(shard_id(0), at(new), new, new)

    def test_a_beginning_that_will_be_gone_before_it_is_read_is_told(self, world: World, fill: Fill) -> None:
        (first,) = world.put(b"dying")
        begin_ms = world.kinesis.describe()[1]
        world.advance(hours=23, seconds=3300)
        (second,) = world.put(b"lasting")
        for bounds in ({"from": utc(begin_ms)}, {"from": first.text, "shards": [shard_id(0)]}):
            with pytest.raises(DataLossError, match="retained"):
                fill.open(**bounds)
            assert nothing_is_opened(world)
        stretch = fill.stretch(from_=first.text, shards=[shard_id(0)], retained_only=True)
        assert stretch == SequenceRange(shard_id(0), at(second), second, second)

    def test_a_stream_younger_than_that_has_lost_nothing(self, world: World, fill: Fill) -> None:
        (number,) = world.put(b"x")
        stretch = fill.stretch(from_="2020-01-01T00:00:00Z")
        assert stretch == SequenceRange(shard_id(0), at(number), number, number)

    def test_a_trimmed_number_is_told(self, world: World, fill: Fill) -> None:
        numbers = world.put(b"0", b"1", b"2")
        world.trim(before=numbers[1])
        asked = {"shards": [shard_id(0)], "from": numbers[0].text}
        with pytest.raises(
            DataLossError, match=f"record {numbers[0]} .* no longer retained.*found {numbers[1]} as the"
        ):
            fill.open(**asked)
        assert nothing_is_opened(world)
        assert fill.stretch(**asked, retained_only=True) == SequenceRange(
            shard_id(0), at(numbers[1]), numbers[2], numbers[1]
        )

    def test_a_shard_that_has_left_the_stream_is_told(self, world: World, fill: Fill) -> None:
        world.put(b"0")
        world.run()
        world.split(0)
        world.trim()
        world.put(b"1", shard=1)
        with pytest.raises(DataLossError, match=f"{shard_id(0)} has left the stream"):
            fill.open(shards=[shard_id(0)])
        assert [each.shard_id for each in fill.open().stretches] == [shard_id(1)]

    @pytest.mark.parametrize(("asked", "told"), [({}, False), ({"retained_only": True}, False), ({"from": "t"}, True)])
    def test_a_shard_that_goes_between_listing_and_looking(
        self, world: World, asked: dict[str, Any], told: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin = utc(world.kinesis.describe()[1])
        world.put(b"0")
        world.split(0)
        world.put(b"1", shard=1)
        list_shards = Kinesis.list_shards

        def then_gone(kinesis: Kinesis) -> list[Shard]:
            listed = list_shards(kinesis)
            world.trim()
            return listed

        monkeypatch.setattr(Kinesis, "list_shards", then_gone)
        asked = {name: begin if value == "t" else value for name, value in asked.items()}
        if told:
            with pytest.raises(DataLossError, match=shard_id(0)):
                Fill(world).open(**asked)
        else:
            assert [each.shard_id for each in Fill(world).open(**asked).stretches] == [shard_id(1)]


class TestPinned:
    def test_what_comes_later_is_not_read(self, world: World, fill: Fill) -> None:
        numbers = world.put(b"0", b"1")
        fill.open()
        world.put(b"2")
        assert len(fill.finish()) == 1
        assert fill.numbers() == texts(numbers)
        assert list(fill.run("again")[0].ranges) == []

    def test_opened_again_it_has_the_same_bounds(self, world: World, fill: Fill) -> None:
        world.put(b"0", b"1")
        asked = {"from": "2020-01-01T00:00:00Z", "shards": [shard_id(0)]}
        first = fill.open(**asked)
        world.put(b"2")
        assert fill.open(**asked) == first
        assert fill.open() == first
        before = written(world), fill.rows()
        for other in ({"from": "2020-01-01T00:00:01Z"}, {**asked, "read_fraction": 0.25}, {"shards": [shard_id(0)]}):
            with pytest.raises(
                ConflictError, match="was opened for another request: expected from 2020-01-01T.*found "
            ):
                fill.open(**other)
        assert (written(world), fill.rows()) == before

    def test_two_that_open_it_at_once_agree(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        world.put(b"0")
        barrier = threading.Barrier(2)
        open_backfill = MemoryLedger.open_backfill

        def together(*arguments: Any) -> str:
            barrier.wait(10)
            world.put(b"more")
            return open_backfill(*arguments)

        monkeypatch.setattr(MemoryLedger, "open_backfill", together)
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(lambda _: Fill(world).open(), range(2))
        assert one == other == Backfill.from_text(world.ledger.backfills("p")["b"])

    def test_a_batch_of_one_that_was_not_opened_is_refused(self, world: World, fill: Fill) -> None:
        with pytest.raises(ConfigError, match="pipeline p has no backfill b: found none at all"):
            fill.run()

    def test_the_live_namespace_is_none(self, world: World) -> None:
        world.put(b"0")
        with pytest.raises(ConflictError, match="cannot be opened in namespace live"):
            world.steps.open_backfill(Request())

    @pytest.mark.parametrize("recreated", [True, False])
    def test_a_dataset_of_another_stream_or_ledger_is_refused(self, world: World, fill: Fill, recreated: bool) -> None:
        world.put(b"0")
        world.run()
        if recreated:
            world.client.delete_stream(StreamName=world.stream)
            world.advance(seconds=5)
            world.client.create_stream(StreamName=world.stream, ShardCount=1)
            world.put(b"1")
        else:
            world.ledger = MemoryLedger()
        with pytest.raises(ConflictError, match="is not this pipeline's"):
            fill.open()
        assert world.ledger.backfills("p") == {}
        assert not Path(world.pipeline.dataset, "backfill").exists()

    def test_a_moved_dataset_is_refused(self, world: World, fill: Fill) -> None:
        world.put(b"0")
        world.run()
        world.settings["dataset"] = str(world.root / "elsewhere" / "lake")
        with pytest.raises(ConflictError, match="the ledger knows pipeline p otherwise, dataset"):
            fill.open()
        assert world.ledger.backfills("p") == {}


class TestBatches:
    def test_byte_limit_cuts_batches_and_the_last_one_ends_at_the_bound(self, make_world: MakeWorld) -> None:
        world = make_world(max_range_bytes=100)
        numbers = world.put(*[b"x" * 40] * 7)
        fill = Fill(world)
        fill.open(shards=[shard_id(0)], from_=numbers[1].text, to=numbers[5].text)
        plans = fill.finish()
        assert [(str(range_.start), range_.through) for plan in plans for range_ in plan.ranges] == [
            (f"AT {numbers[1]}", numbers[2]),
            (f"AFTER {numbers[2]}", numbers[4]),
            (f"AFTER {numbers[4]}", numbers[5]),
        ]
        assert [plan.behind for plan in plans] == [True, True, False]
        assert fill.numbers() == texts(numbers[1:6])

    def test_no_empty_batch_follows_where_a_cut_falls_on_the_bound(self, make_world: MakeWorld) -> None:
        world = make_world(max_range_bytes=80)
        numbers = world.put(*[b"x" * 40] * 6)
        fill = Fill(world)
        fill.open(shards=[shard_id(0)], to=numbers[3].text)
        assert [plan.behind for plan in fill.finish()] == [True, False]
        assert fill.numbers() == texts(numbers[:4])

    @pytest.mark.parametrize("count", [4, 5])
    def test_a_closed_shard_is_read_through_its_end(self, make_world: MakeWorld, count: int) -> None:
        world = make_world(max_range_bytes=80)
        numbers = world.put(*[b"x" * 40] * count)
        world.split(0)
        fill = Fill(world)
        fill.open()
        assert [len(list(plan.ranges)) for plan in fill.finish()] == [1] * ((count + 1) // 2)
        assert [row.range.through for row in fill.rows()][-1] == SHARD_END
        assert [row.contents.rows for row in fill.rows() if row.contents][-1] > 0
        assert fill.numbers() == texts(numbers)

    def test_no_empty_batch_follows_where_the_window_ends_before_a_closed_shards_last_record(
        self, world: World, fill: Fill
    ) -> None:
        numbers = world.put(b"0", b"1")
        world.advance(hours=2)
        numbers += world.put(b"2")
        world.split(0)
        world.control(page_limit=2)
        fill.open()
        assert [(range_.through, plan.behind) for plan in fill.finish() for range_ in plan.ranges] == [
            (SHARD_END, False)
        ]
        assert fill.numbers() == texts(numbers)

    def test_one_batch_reaches_a_bound_near_the_tip(self, world: World, fill: Fill) -> None:
        """Where a live plan would leave the last records to the next scheduled one."""
        numbers = world.put(*[b"x"] * 6)
        world.control(page_limit=2)
        fill.open()
        assert [plan.behind for plan in fill.finish()] == [False]
        assert fill.numbers() == texts(numbers)

    def test_window_cuts_batches(self, make_world: MakeWorld) -> None:
        world = make_world(max_window="1h")
        numbers = []
        for _ in range(5):
            numbers += world.put(b"x", b"y")
            world.advance(hours=0.5)
        fill = Fill(world)
        fill.open()
        plans = fill.finish()
        assert [range_.through for plan in plans for range_ in plan.ranges] == [numbers[3], numbers[7], numbers[9]]
        assert fill.numbers() == texts(numbers)

    def test_shards_are_read_side_by_side_children_too_and_each_to_its_own_end(self, make_world: MakeWorld) -> None:
        world = make_world(max_range_bytes=80, max_group_ranges=1)
        parents = world.put(*[b"x" * 40] * 5)
        world.split(0)
        children = world.put(b"x" * 40, shard=1)
        fill = Fill(world)
        fill.open()
        plans = fill.finish()
        assert [[range_.shard_id[-1] for range_ in plan.ranges] for plan in plans] == [["0", "1"], ["0"], ["0"]]
        assert len(plans[0].groups) == 2
        assert (fill.numbers(0), fill.numbers(1)) == (texts(parents), texts(children))

    def test_another_run_takes_an_open_range_over_with_its_end(self, world: World, fill: Fill) -> None:
        numbers = world.put(*[b"x"] * 4)
        fill.open()
        opened = fill.steps.plan(Run("kinesis_backfill", "dag-run"))
        world.put(b"more")
        fill.finish("shardlake-cli")
        assert [row.range for row in fill.rows()] == list(opened.ranges)
        assert fill.numbers() == texts(numbers)
        fill.steps.verify(opened.batch_id)
        assert fill.steps.commit(opened.batch_id).rows == 4  # the first run, gone on with later: nothing changes

    def test_a_shard_that_does_not_answer_waits_for_the_next_batch(
        self, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = make_world(2)
        world.put(b"0")
        world.put(b"1", shard=1)
        fill = Fill(world)
        fill.open()
        iterator = Kinesis._iterator

        def throttled(kinesis: Kinesis, shard: str, **position: Any) -> str:
            if shard == shard_id(0):
                raise IngestError("throttled")
            return iterator(kinesis, shard, **position)

        with monkeypatch.context() as patch:
            patch.setattr(Kinesis, "_iterator", throttled)
            plan, _ = fill.run()
        assert ([range_.shard_id for range_ in plan.ranges], plan.behind) == ([shard_id(1)], True)
        assert fill.finish("again")[-1].behind is False
        assert (len(fill.numbers(0)), len(fill.numbers(1))) == (1, 1)


class TestBesideLive:
    def test_it_leaves_the_live_pipeline_as_it_was(self, make_world: MakeWorld) -> None:
        world = make_world(2, max_range_bytes=200)
        world.produce(60)
        world.run("live-1")
        world.split(0)
        world.produce(20)
        world.plan("live-open")
        before = written(world)
        fill = Fill(world)
        fill.open()
        assert len(fill.finish()) > 1
        assert written(world) == before
        world.run_until_caught_up()
        world.assert_every_record_is_there_once()
        total = sum(len(fill.numbers(shard)) for shard in range(4))
        assert total == 80

    @pytest.mark.parametrize("bucket", PLACES, indirect=True)
    def test_its_files_lie_below_the_datasets_own_on_every_store(self, make_world: MakeWorld, bucket: object) -> None:
        world = make_world(max_range_bytes=80)
        numbers = world.put(*[b"x" * 40] * 3)
        world.run_until_caught_up()
        live = {key: world.lake.read(key) for key in world.lake.keys("")}
        fill = Fill(world)
        fill.open(from_="2020-01-01T00:00:00Z")
        assert [plan.behind for plan in fill.finish()] == [True, False]
        path, system = world.lake.place("backfill/b/data")
        rows = pq.read_table(path, filesystem=system, columns=["sequence_number"]).column(0).to_pylist()
        assert sorted(rows) == texts(numbers)
        for place in (world.steps, fill.steps):
            assert [one.findings for one in audit(place)] == [()] * 2
        found = {key: world.lake.read(key) for key in world.lake.keys("") if not key.startswith("backfill/b/")}
        assert found == live

    def test_it_needs_no_live_pipeline_and_leaves_it_its_own_start(self, make_world: MakeWorld) -> None:
        world = make_world(start="latest")
        numbers = world.put(b"0", b"1")
        fill = Fill(world)
        fill.open()
        fill.finish()
        assert fill.numbers() == texts(numbers)
        assert (world.ledger.shards("p"), world.ledger.chains("p", LIVE)) == ({}, {})
        assert world.run()[1] is None
        assert world.chain().position == after(numbers[1])

    def test_the_same_range_has_the_same_rows(self, world: World, fill: Fill) -> None:
        numbers = world.put(*[b"record"] * 20)
        plan, _ = world.run()
        fill.open()
        fill.finish()
        (live,) = plan.ranges
        assert live.through == numbers[-1]
        (row,) = fill.rows()
        assert row.range == live
        key = FileKey.of(live).path
        one, other = read_footer(world.home, key), read_footer(fill.home, key)
        assert (one.checksum, one.rows) == (other.checksum, other.rows)
        assert (row.contents and row.contents.checksum) == one.checksum

    def test_live_batches_and_two_backfills_at_once(self, make_world: MakeWorld) -> None:
        world = make_world(2, max_range_bytes=300)
        world.produce(60)
        fills = [Fill(world, "one"), Fill(world, "other")]
        for fill in fills:
            fill.open(read_fraction=1.0)
        world.produce(60)
        with ThreadPoolExecutor(3) as pool:
            done: list[Future[Any]] = [pool.submit(world.run_until_caught_up)]
            done += [pool.submit(fill.finish) for fill in fills]
            for each in done:
                each.result(60)
        world.assert_every_record_is_there_once()
        for fill in fills:
            found = sorted((shard, number) for shard in range(2) for number in fill.numbers(shard))
            expected = sorted((int(each.shard_id[-1]), each.sequence_number) for each in world.acknowledged[:60])
            assert found == expected


class TestLoss:
    @pytest.fixture
    def begun(self, make_world: MakeWorld) -> tuple[Fill, list[SequenceNumber]]:
        """A backfill of the second to the ninth of ten records, of which it has read three."""
        world = make_world(max_range_bytes=120)
        numbers = world.put(*[b"x" * 40] * 10)
        fill = Fill(world)
        fill.open(shards=[shard_id(0)], from_=numbers[1].text, to=numbers[8].text)
        fill.run()
        return fill, numbers

    def test_fail_tells_it_and_goes_no_further(self, begun: tuple[Fill, list[SequenceNumber]]) -> None:
        fill, numbers = begun
        fill.world.trim(before=numbers[6])
        before = fill.rows()
        with pytest.raises(
            DataLossError, match=f"after position AFTER {numbers[3]} .*found {numbers[6]} as the oldest"
        ):
            fill.run("run-2")
        assert fill.rows() == before

    def test_skip_records_it_in_its_own_folder_and_reads_the_rest(
        self, begun: tuple[Fill, list[SequenceNumber]]
    ) -> None:
        fill, numbers = begun
        live = written(fill.world)
        fill.world.trim(before=numbers[6])
        fill.world.settings["on_data_loss"] = "skip"
        fill.finish("later")
        assert [(row.state, row.range.start, row.range.through) for row in fill.rows()[1:]] == [
            ("lost", after(numbers[3]), numbers[6].plus(-1)),
            ("committed", at(numbers[6]), numbers[8]),
        ]
        (marker,) = fill.home.path(f"_shardlake/lost/shard_id={shard_id(0)}").iterdir()
        assert marker.name == f"{numbers[3].key}-{numbers[6].plus(-1).key}.json"
        assert fill.numbers() == texts([*numbers[1:4], *numbers[6:9]])
        assert written(fill.world) == live

    @pytest.mark.parametrize("left", [9, None])
    def test_skip_loses_nothing_beyond_the_bound(
        self, begun: tuple[Fill, list[SequenceNumber]], left: int | None
    ) -> None:
        fill, numbers = begun
        fill.world.trim(before=numbers[left] if left else None)
        fill.world.settings["on_data_loss"] = "skip"
        assert [list(plan.ranges) for plan in fill.finish("later")] == [[]]
        (lost,) = fill.rows()[1:]
        assert (lost.state, lost.range.through) == ("lost", numbers[8])
        assert list(fill.run("again")[0].ranges) == []

    def test_skip_of_an_open_range_keeps_its_end(self, begun: tuple[Fill, list[SequenceNumber]]) -> None:
        fill, numbers = begun
        opened = fill.steps.plan(Run("dag", "killed"))
        fill.world.trim(before=numbers[5])
        fill.world.settings["on_data_loss"] = "skip"
        fill.finish("later")
        (range_,) = opened.ranges
        assert [(row.state, row.range.through) for row in fill.rows()[1:]] == [
            ("lost", numbers[5].plus(-1)),
            ("committed", range_.through),
            ("committed", numbers[8]),
        ]

    @pytest.mark.parametrize("on_data_loss", ["fail", "skip"])
    def test_a_shard_that_leaves_the_stream_midway(
        self, begun: tuple[Fill, list[SequenceNumber]], on_data_loss: str
    ) -> None:
        fill, numbers = begun
        fill.world.split(0)
        fill.world.trim()
        fill.world.settings["on_data_loss"] = on_data_loss
        if on_data_loss == "fail":
            with pytest.raises(DataLossError, match="found no record left"):
                fill.run("later")
        else:
            fill.finish("later")
            assert [(row.state, row.range.through) for row in fill.rows()[1:]] == [("lost", numbers[8])]

    def test_a_shard_that_one_listing_leaves_out_is_read_all_the_same(
        self, begun: tuple[Fill, list[SequenceNumber]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill, numbers = begun
        monkeypatch.setattr(Kinesis, "list_shards", lambda kinesis: [])
        fill.finish("later")
        assert fill.numbers() == texts(numbers[1:9])

    def test_a_loss_shows_also_while_the_listing_leaves_the_shard_out(
        self, begun: tuple[Fill, list[SequenceNumber]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill, numbers = begun
        fill.world.trim(before=numbers[6])
        monkeypatch.setattr(Kinesis, "list_shards", lambda kinesis: [])
        with pytest.raises(DataLossError, match=f"found {numbers[6]} as the oldest"):
            fill.run("later")

    def test_the_very_first_record_is_missed_too(self, world: World, fill: Fill) -> None:
        """Also where its number is the one that the listing gives as the shard's start."""
        numbers = world.put(b"0", b"1", b"2")
        fill.open()
        world.trim(before=numbers[1])
        list_shards = Kinesis.list_shards

        def starting_with_it(kinesis: Kinesis) -> list[Shard]:
            return [replace(shard, starting_sequence_number=numbers[0].text) for shard in list_shards(kinesis)]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Kinesis, "list_shards", starting_with_it)
            with pytest.raises(DataLossError, match=f"found {numbers[1]} as the oldest"):
                fill.run()

    @pytest.mark.parametrize("beyond", [False, True])
    def test_a_record_seen_and_not_given_out_is_an_error_to_be_tried_again(
        self, make_world: MakeWorld, beyond: bool
    ) -> None:
        """Whether nothing is behind the position, or only what lies beyond the bound."""
        world = make_world(max_range_bytes=1)
        numbers = world.put(*[b"x"] * 6)
        last = gap_in(numbers) if beyond else 5
        fill, through = Fill(world), numbers[last].plus(1)
        stretch = SequenceRange(shard_id(0), at(numbers[0]), through, numbers[0])
        claim_dataset(fill.home, fill.steps.planner().draft(Run("dag", "open")))
        world.ledger.open_backfill("p", "b", Backfill(Request(), (stretch,)).to_text(), {shard_id(0): stretch.start})
        for row in range(last + 1):
            assert fill.run(f"run-{row}")[0].behind
        world.control(page_limit=1)
        with pytest.raises(IngestError, match="does not give the records of .* out that were seen"):
            fill.run("next")


class TestReadFraction:
    def test_it_is_in_the_plan_of_every_batch_and_not_in_the_live_ones(self, make_world: MakeWorld) -> None:
        world = make_world(max_range_bytes=80)
        world.put(*[b"x" * 40] * 4)
        fill = Fill(world)
        fill.open(read_fraction=0.9)
        assert [plan.read_fraction for plan in fill.finish()] == [0.9, 0.9]
        assert world.plan("live").read_fraction is None
        world.settings["read_fraction"] = 0.7
        assert world.plan("paced").read_fraction == 0.7

    @pytest.mark.parametrize(("fraction", "least_s", "most_s"), [(1.0, 1.0, 30.0), (None, 0.0, 0.9)])
    def test_calls_are_paced_as_the_service_counts_them(
        self, world: World, fraction: float | None, least_s: float, most_s: float
    ) -> None:
        numbers = world.put(*[b"x"] * 12)
        world.control(page_limit=2, reset_stats=True)
        range_ = SequenceRange(shard_id(0), at(numbers[0]), numbers[-1], numbers[0])
        begun_s = time.monotonic()
        pages = list(read_range(world.kinesis, range_, 86_400_000, fraction))
        passed_s = time.monotonic() - begun_s
        assert (len(pages), world.calls()["GetRecords"]) == (6, 7)  # and a look back at the end
        assert least_s <= passed_s < most_s

    def test_bytes_are_paced(self, world: World) -> None:
        numbers = world.put(*[b"x" * 2**19] * 3)
        world.control(page_limit=1)
        range_ = SequenceRange(shard_id(0), at(numbers[0]), numbers[-1], numbers[0])
        begun_s = time.monotonic()
        list(read_range(world.kinesis, range_, 86_400_000, 1.0))
        assert time.monotonic() - begun_s >= 0.5


@pytest.mark.parametrize("parity", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_interrupted_between_any_two_effects_it_is_gone_on_with(
    make_world: MakeWorld, effects: Effects, parity: int
) -> None:
    """By the same run again behind every second effect, behind the others by another one that asks for nothing."""
    stream = make_world(max_range_bytes=80)
    numbers = stream.put(*[b"x" * 40] * 3)
    asked = {"from": "2020-01-01T00:00:00Z", "read_fraction": 1.0}
    request = parse_request(asked)

    def begin(name: str, last: int | None) -> Fill:
        (root := stream.root / name).mkdir(parents=True)
        fill = Fill(replace(stream, root=root, ledger=MemoryLedger()))
        with effects.until(last):
            fill.steps.open_backfill(request)
            fill.run("first")
        return fill

    begin("clean", None)
    clean = list(effects.done)
    assert {"claim", "open_backfill", "pin", "link", "replace", "commit", "rmtree"} <= set(clean)
    assert "record_listing" not in clean
    for last in range(len(clean)):
        fill = begin(f"interrupted-{last}", last)
        assert effects.done == clean[:last]
        opened = fill.world.ledger.backfill("p", "b")
        fill.open(**(asked if last % 2 == parity or opened is None else {}))
        if last % 2 == parity:
            fill.run("first")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shardlake.lake.local._ABANDONED_S", 0)  # an hour later
            fill.finish("later")
        assert opened in (None, fill.world.ledger.backfill("p", "b"))
        assert fill.numbers() == texts(numbers)
        assert {row.state for row in fill.rows()} == {"committed"}
        assert fill.home.names("_shardlake/tmp") == []
        assert list(fill.home.path("_shardlake").glob(".writing-*")) == []


def test_a_stretch_that_the_limits_allow_is_one_range(make_world: Callable[..., World]) -> None:
    world = make_world(max_window="1d")
    world.produce(12_500)  # a look for the tip reads a page of 10,000 at most
    world.advance(seconds=300)
    steps = Steps(world.pipeline, world.ledger, namespace="one")
    (stretch,) = steps.open_backfill(Request()).stretches
    plan = steps.plan(Run("dag", "run"))
    assert (list(plan.ranges), plan.behind) == ([stretch], False)
