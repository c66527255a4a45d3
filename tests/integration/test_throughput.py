"""The limits of a shard: other readers at it, a share of it, and the largest records that there are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardlake.kinesis.budget import Budget
from shardlake.kinesis.client import PLANNING_S
from shardlake.kinesis.reader import read_range
from shardlake.ranges import SequenceRange, Start
from support.aggregates import aggregate_of
from support.faults.boundaries import wait_until

if TYPE_CHECKING:
    from tests.integration.conftest import World

SHARD = "shardId-000000000000"
MIB = 2**20
LARGEST = 10 * MIB - 1
"""Of 10 MiB, one byte is the partition key's."""


def throttled(world: World) -> int:
    shards: dict[str, dict[str, int]] = world.server.stats()["shards"].get(world.stream, {})  # none before a call
    return shards.get(SHARD, {}).get("GetRecordsThrottled", 0)


@contextmanager
def other_readers(world: World, count: int, pause_s: float) -> Iterator[None]:
    """Others who ask for the shard's records, and ask again whatever they are answered."""
    stop = threading.Event()
    where = {"StreamName": world.stream, "ShardId": SHARD, "ShardIteratorType": "TRIM_HORIZON"}

    def ask() -> None:
        iterator = world.client.get_shard_iterator(**where)["ShardIterator"]
        while not stop.wait(pause_s):
            try:
                world.client.get_records(ShardIterator=iterator, Limit=1)
            except world.client.exceptions.ProvisionedThroughputExceededException:
                continue

    with ThreadPoolExecutor(count) as pool:
        asking = [pool.submit(ask) for _ in range(count)]
        try:
            yield
        finally:
            stop.set()
        for each in asking:
            each.result()


@pytest.mark.slow
def test_a_shard_that_others_read_all_the_time_is_read_to_the_end(world: World) -> None:
    """Kills: throttles that are tried a number of times; waiting that grows for as long as one is throttled."""
    world.produce(60)
    world.control(page_limit=6, limits=[{"stream": world.stream, "read_calls_per_s": 20}], reset_stats=True)
    with other_readers(world, 2, pause_s=0.06):
        wait_until(lambda: throttled(world), 30, "they do not use up what the shard holds")
        world.plan(kinesis=world.kinesis.within(Budget(PLANNING_S)))
        world.run()
        assert throttled(world) > 3
    world.control(limits=[])
    world.run_until_caught_up()
    world.assert_every_record_is_there_once()


def test_two_pipelines_and_another_reader_share_a_shard_and_nobody_is_throttled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: a share that is not kept. All rates are twenty times the service's, so that it takes seconds."""
    monkeypatch.setattr("shardlake.kinesis.quota.SHARD_CALLS_PER_S", 100)
    numbers = world.put(*[b"x"] * 100)
    range_ = SequenceRange(SHARD, Start("AT", numbers[0]), numbers[-1], numbers[0])
    limits = {"stream": world.stream, "read_calls_per_s": 100, "iterator_calls_per_s": None}
    world.control(page_limit=1, limits=[limits], reset_stats=True)

    def pipeline() -> list[str]:
        pages = read_range(world.kinesis, range_, 86_400_000, read_fraction=0.4)
        return [number for page in pages for number in page.sequence_numbers]

    begun_s = time.monotonic()
    with other_readers(world, 1, pause_s=0.055), ThreadPoolExecutor(2) as pool:
        found = [pool.submit(pipeline) for _ in range(2)]
        assert [each.result() for each in found] == [[number.text for number in numbers]] * 2
    assert time.monotonic() - begun_s > 2.4
    assert world.calls()["GetRecords"] > 200
    assert throttled(world) == 0


def test_a_shard_that_refused_a_call_is_read_at_the_pace_of_its_limits(world: World) -> None:
    """Kills: waiting by guess, which is throttled again and again; a pace for what was never throttled.

    All rates are twice the service's, so that it takes seconds.
    """
    numbers = [number for _ in range(8) for number in world.put(*[bytes(50_000)] * 100)]
    range_ = SequenceRange(SHARD, Start("AT", numbers[0]), numbers[-1], numbers[0])
    limits = {"stream": world.stream, "read_bytes_per_s": 4 * MIB, "read_calls_per_s": None}
    world.control(limits=[limits], reset_stats=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shardlake.kinesis.quota.SHARD_BYTES_PER_S", 4 * MIB)
        patch.setattr("shardlake.kinesis.quota.SHARD_CALLS_PER_S", 10)
        begun_s = time.monotonic()
        assert sum(map(len, read_range(world.kinesis, range_, 86_400_000))) == 800
        taken_s = time.monotonic() - begun_s
    assert 0 < throttled(world) <= 9  # tries of the first call that was too soon; by guess 18
    assert (800 * 50_000 - 6 * MIB) / (4 * MIB) < taken_s < 14

    world.control(limits=[])
    begun_s = time.monotonic()
    assert sum(map(len, read_range(world.kinesis, range_, 86_400_000))) == 800
    assert time.monotonic() - begun_s < 4


@pytest.fixture
def large(make_world: Callable[..., World]) -> World:
    """A stream that takes the largest records, with ranges that are planned much smaller."""
    world = make_world(max_range_bytes="1MiB")
    arn = world.client.describe_stream_summary(StreamName=world.stream)["StreamDescriptionSummary"]["StreamARN"]
    world.client.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=10_240)
    return world


def data(world: World) -> list[bytes]:
    """The data of a shard's published files."""
    files = map(world.lake.read, world.lake.keys(f"data/shard_id={SHARD}/"))
    columns = (pq.read_table(pa.BufferReader(file), columns=["data"]).column(0) for file in files)
    return [each for column in columns for each in column.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("limits", [[], [{"read_bytes_per_s": 20 * MIB}]], ids=["", "paced by throttles"])
def test_records_of_ten_mebibytes_are_read_one_a_range(large: World, limits: list[dict[str, Any]]) -> None:
    """Kills: a byte limit that a full page does not end; one too small for a record; giving up on a used-up quota."""
    records = [bytes([n]) * LARGEST for n in range(3)]
    numbers = []
    for record in records:
        numbers += large.put(record)
        large.advance(seconds=5)
    large.control(limits=[{"stream": large.stream, **each} for each in limits], reset_stats=True)
    assert large.run_until_caught_up() == 3
    assert large.numbers() == [number.text for number in numbers]
    assert data(large) == records
    assert (throttled(large) > 0) == bool(limits)


@pytest.mark.slow
@pytest.mark.parametrize("users", [1, 500])
def test_an_aggregate_of_ten_mebibytes_is_unpacked(large: World, users: int) -> None:
    """Kills: an aggregate cut where the range's bytes end."""
    overhead = len(aggregate_of(*[bytes(LARGEST // users)] * users)) - LARGEST // users * users
    records = [b"%d" % n + bytes((LARGEST - overhead) // users - len(b"%d" % n)) for n in range(users)]
    (number,) = large.put(aggregate_of(*records))
    assert large.run_until_caught_up() == 1
    assert large.numbers() == [number.text] * users
    assert data(large) == records
