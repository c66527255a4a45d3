"""Words that tests about planning share: positions, what a plan holds, and a client that is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.page import Page
from shardlake.ledger import LedgerRange
from shardlake.names import LIVE
from shardlake.plan import BatchPlan
from shardlake.ranges import SequenceNumber, SequenceRange, Start
from shardlake.shards import Shard

if TYPE_CHECKING:
    from tests.integration.conftest import World


def shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


def at(number: SequenceNumber) -> Start:
    return Start("AT", number)


def after(number: SequenceNumber) -> Start:
    return Start("AFTER", number)


def beginning(world: World, shard: int = 0) -> Start:
    """The position at a shard's own start."""
    return at(SequenceNumber(world.shard(shard).starting_sequence_number))


def ranges(plan: BatchPlan) -> dict[str, SequenceRange]:
    return {range_.shard_id: range_ for range_ in plan.ranges}


def planned(plan: BatchPlan) -> list[str]:
    return sorted(ranges(plan))


def only(plan: BatchPlan) -> SequenceRange:
    (range_,) = plan.ranges
    return range_


def lost(world: World) -> list[LedgerRange]:
    return list(world.ledger.ranges("p", LIVE, state="lost"))


class HookedKinesis(Kinesis):
    """A client that does something before each call."""

    def __init__(self, world: World, before: Callable[[], object]) -> None:
        self.__dict__.update(world.kinesis.__dict__)
        self._before = before

    def list_shards(self) -> list[Shard]:
        self._before()
        return super().list_shards()

    def _iterator(self, shard_id: str, **position: object) -> str:
        self._before()
        return super()._iterator(shard_id, **position)

    def get_records(self, iterator: str, limit: int = 10_000) -> Page:
        self._before()
        return super().get_records(iterator, limit)


def assert_nothing_is_written(world: World) -> None:
    assert world.ledger.shards("p") == {}
    assert world.ledger.chains("p", LIVE) == {}
    assert not world.root.exists()
