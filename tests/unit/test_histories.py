"""Histories of a stream at random: reshards, outages, incomplete listings, batches that are never committed.

Against the shards' own log of what was put: every record is planned at most once, in an order in which no child comes
before its parents; what is not planned is left out by the start of the configuration, or told as lost.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from local_kinesis.errors import ServiceError
from shardlake.kinesis.failures import ShardGoneError
from shardlake.kinesis.start import oldest_lasting
from shardlake.plan import BatchPlan
from shardlake.ranges import SHARD_END, SequenceNumber
from support.model_pipeline import ModelPipeline
from support.model_stream import BEGINNING_MS, HOUR_MS, ModelStream

RETENTION_H = 24
nth = st.integers(0, 20)
STEPS = st.one_of(
    st.tuples(st.just("put"), nth, st.integers(1, 3)),
    st.tuples(st.just("put"), nth, st.integers(1, 3)),
    st.tuples(st.just("split"), nth),
    st.tuples(st.just("merge"), nth),
    st.tuples(st.just("resize"), st.integers(1, 6)),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 6, 23, 26])),
    st.tuples(st.just("hide"), st.integers(0, 3)),
    st.tuples(st.just("outage"), nth),
    st.tuples(st.just("batch"), st.booleans()),
    st.tuples(st.just("batch"), st.booleans()),
)


class History:
    """A stream, its pipeline, and what must hold of both."""

    def __init__(self, folder: Path, shards: int, start: Any) -> None:
        self.stream = ModelStream(shards)
        self.pipeline = ModelPipeline(self.stream, folder, start=start, on_data_loss="skip")
        self.before: dict[str, list[SequenceNumber]] | None = None
        """What was put before the first batch, by shard id."""
        self.bygone: set[SequenceNumber] = set()
        """What was gone by then."""
        self.planned_at_ms = self.stream.now_ms
        self.longest_gap_ms = 0
        self.hide = 0

    def step(self, verb: str, *arguments: Any) -> None:
        """One step; a reshard that the stream refuses is none."""
        with contextlib.suppress(ServiceError):
            getattr(self, f"_{verb}")(*arguments)

    def _open(self, nth: int) -> int:
        shards = self.stream.local.open_shards
        index: int = shards[nth % len(shards)].index
        return index

    def _put(self, nth: int, count: int) -> None:
        self.stream.put(self._open(nth), count)

    def _split(self, nth: int) -> None:
        if len(self.stream.local.shards) < 20:
            self.stream.split(self._open(nth))

    def _merge(self, nth: int) -> None:
        shards = self.stream.local.open_shards
        if len(shards) > 1:
            self.stream.merge(shards[nth % (len(shards) - 1)].index, shards[nth % (len(shards) - 1) + 1].index)

    def _resize(self, target: int) -> None:
        if len(self.stream.local.shards) < 20:
            self.stream.resize(target)

    def _wait(self, hours: float) -> None:
        self.stream.wait(hours)

    def _outage(self, nth: int) -> None:
        """Nobody looks for longer than records last; some come before and after a reshard, and some at the end."""
        self._put_everywhere()
        self._split(nth)
        self._put_everywhere()
        self._wait(RETENTION_H + 1)
        self._put_everywhere()

    def _put_everywhere(self) -> None:
        for shard in self.stream.local.open_shards:
            self.stream.put(shard.index)

    def _hide(self, count: int) -> None:
        """The next listing leaves out the youngest shards."""
        self.hide = count

    def _leave_out(self, count: int) -> None:
        """Leave out shards that are a few minutes old, as a listing in mid-reshard may."""
        self.stream.hidden = ()
        since_ms = self.stream.now_ms - HOUR_MS // 6
        young = [each.shard_id for each in self.stream.local.shards if each.parents and each.created_ms > since_ms]
        self.stream.hidden = set(young[len(young) - count :]) - self.pipeline.chains.keys()

    def _batch(self, committed: bool) -> None:
        if self.before is None:
            self.before = {id_: list(numbers) for id_, numbers in self.stream.put_numbers.items()}
            self.bygone = {n for id_, numbers in self.before.items() for n in {*numbers} - {*self._retained(id_)}}
            self.planned_at_ms = self.stream.now_ms
        self._leave_out(self.hide)
        plan = self.pipeline.plan()
        self.hide, self.stream.hidden = 0, ()
        self.longest_gap_ms = max(self.longest_gap_ms, self.stream.now_ms - self.planned_at_ms)
        self.planned_at_ms = self.stream.now_ms
        self._check_order(plan)
        self._check_can_be_read(plan)
        if committed:
            self.pipeline.commit(plan)
            if plan.behind:  # a next run follows at once
                self._batch(True)

    def _check_order(self, plan: BatchPlan) -> None:
        chains = self.pipeline.chains
        parents = {shard.shard_id: [parent.shard_id for parent in shard.parents] for shard in self.stream.local.shards}
        for range_ in plan.ranges:
            for parent in parents[range_.shard_id]:
                assert parent not in chains or chains[parent].position is SHARD_END

    def _check_can_be_read(self, plan: BatchPlan) -> None:
        for range_ in plan.ranges:
            put = [n for n in self.stream.put_numbers.get(range_.shard_id, []) if n not in self.bygone]
            first = next((n for n in put if n.key > range_.start.key), None)
            assert range_.anchor == first
            assert first is None or first in self._retained(range_.shard_id)

    def _retained(self, shard_id: str) -> list[SequenceNumber]:
        numbers: list[SequenceNumber] = []
        with contextlib.suppress(ShardGoneError):
            numbers = self.stream.retained(shard_id)
        return numbers

    def end(self) -> None:
        """A last record on every open shard, batches until there is nothing more to do, and the sums."""
        self._put_everywhere()
        self._batch(True)
        self.pipeline.rounds()
        rows = self.pipeline.rows
        starts = {row.range.shard_id: row.range.start.key for row in reversed(rows)}
        assert self.before is not None
        for id_, numbers in self.stream.put_numbers.items():
            of_shard = [row for row in rows if row.range.shard_id == id_]
            lost = [row for row in of_shard if row.state == "lost"]
            for number in numbers:
                found = [row for row in of_shard if row.range.start.key < number.key <= row.range.through.key]
                assert len(found) <= 1
                left_out = number in self.before.get(id_, []) and (id_ not in starts or number.key <= starts[id_])
                assert found or left_out or self._is_of_a_shard_that_came_and_went(id_)
                assert not (found and found[0] in lost and self._lasts(id_, number))
            if self.longest_gap_ms < RETENTION_H * HOUR_MS:
                for row in lost:
                    assert any(row.range.start.key < number.key <= row.range.through.key for number in numbers)

    def _lasts(self, id_: str, number: SequenceNumber) -> bool:
        """Whether the record is there, and will be for a while."""
        lasting = None
        with contextlib.suppress(ShardGoneError):
            lasting = oldest_lasting(self.stream, id_, RETENTION_H * HOUR_MS)
        return lasting is not None and lasting <= number

    def _is_of_a_shard_that_came_and_went(self, id_: str) -> bool:
        """No listing ever showed it; then its loss is told with a child's beginning."""
        if id_ in self.pipeline.chains:
            return False
        shard = next(shard for shard in self.stream.local.shards if shard.shard_id == id_)
        told = {row.range.shard_id for row in self.pipeline.rows if row.state == "lost"}
        children = [child.shard_id for child in shard.children]
        return shard.expired and any(id_ in told or self._is_of_a_shard_that_came_and_went(id_) for id_ in children)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.mark.parametrize("start", ["trim_horizon", "latest", "mark"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=st.integers(1, 3), steps=st.lists(STEPS, max_size=40), mark_h=st.sampled_from([0, 1, 30]))
def test_every_record_is_planned_once_or_told(
    tmp_path_factory: pytest.TempPathFactory, start: str, shards: int, steps: list[tuple[Any, ...]], mark_h: int
) -> None:
    at = datetime.fromtimestamp(BEGINNING_MS / 1000 + mark_h * 3600, tz=UTC)
    history = History(tmp_path_factory.mktemp("h"), shards, {"at_timestamp": at} if start == "mark" else start)
    if start == "mark":
        history.stream.wait(mark_h)
    for step in steps:
        history.step(*step)
    history.end()
