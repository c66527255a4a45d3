"""The retention is lowered while a plan is made: what it takes is told, whatever an old note says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from shardlake.errors import DataLossError, UnavailableError
from shardlake.plan import BatchPlan, Run
from shardlake.ranges import SequenceNumber
from support.model_pipeline import ModelPipeline
from support.model_stream import HOUR_MS, ModelStream


class Retention:
    """The retention of a stream, which begins with a week: it is set right before a listing, behind the description.

    Attributes:
        described: how many times the stream was described.
    """

    def __init__(self, stream: ModelStream) -> None:
        stream.local.retention_hours = 168
        self.described = 0
        self._next: Iterator[int] = iter(())
        self._local, self._describe, self._list_shards = stream.local, stream.describe, stream.list_shards
        stream.describe, stream.list_shards = self.describe, self.list_shards

    def set_while_planning(self, *hours: int) -> None:
        """Set it before the next listings, one after another."""
        self._next = iter(hours)

    def describe(self) -> object:
        self.described += 1
        return self._describe()

    def list_shards(self) -> object:
        self._local.retention_hours = next(self._next, self._local.retention_hours)
        return self._list_shards()


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def stream() -> ModelStream:
    return ModelStream(1)


@pytest.fixture
def retention(stream: ModelStream) -> Retention:
    return Retention(stream)


@pytest.fixture
def pipeline(stream: ModelStream, retention: Retention, tmp_path: Path) -> ModelPipeline:
    """A shard read through its only record, behind which a plan found nothing; then two records came."""
    pipeline = ModelPipeline(stream, tmp_path)
    stream.put(0)
    pipeline.commit(pipeline.plan())
    assert pipeline.plan().groups == ()
    stream.put(0, 2)
    return pipeline


def read_from(plan: BatchPlan) -> Sequence[SequenceNumber | None]:
    return [range_.anchor for range_ in plan.ranges]


def propose(pipeline: ModelPipeline) -> object:
    planner = pipeline.planner()
    return planner.propose(planner.draft(Run("dag", "dry")))


@pytest.mark.parametrize("plan", [ModelPipeline.plan, propose], ids=["plan", "dry run"])
def test_what_it_takes_between_the_description_and_the_look_is_told(
    stream: ModelStream, retention: Retention, pipeline: ModelPipeline, plan: Callable[[ModelPipeline], object]
) -> None:
    """Kills: the note believed for as long as the retention was when the plan began."""
    stream.wait(25)
    (left,) = stream.put(0)
    retention.set_while_planning(24)
    with pytest.raises(DataLossError, match=f"found {left} as the oldest record left"):
        plan(pipeline)
    assert [row.state for row in pipeline.rows] == ["committed"]


def test_skip_records_it(stream: ModelStream, retention: Retention, pipeline: ModelPipeline) -> None:
    pipeline.settings["on_data_loss"] = "skip"
    stream.wait(25)
    (left,) = stream.put(0)
    retention.set_while_planning(24)
    plan = pipeline.plan()
    assert (read_from(plan), plan.stream.retention_ms) == ([left], 24 * HOUR_MS)
    assert [row.state for row in pipeline.rows] == ["committed", "lost", "planned"]


def test_where_it_takes_nothing_that_came_later_nothing_is_told(
    stream: ModelStream, retention: Retention, pipeline: ModelPipeline
) -> None:
    """Kills: every change taken for a loss."""
    stream.wait(25)
    (_, first, *_) = stream.put_numbers["shardId-000000000000"]
    retention.set_while_planning(48)
    plan = pipeline.plan()
    assert (read_from(plan), plan.stream.retention_ms) == ([first], 48 * HOUR_MS)


def test_again_and_again_the_plan_is_to_be_tried_again(
    stream: ModelStream, retention: Retention, pipeline: ModelPipeline
) -> None:
    """Kills: the second look believed unseen, and looking for ever."""
    stream.wait(25)
    retention.set_while_planning(48, 24)
    before = pipeline.chains
    with pytest.raises(UnavailableError, match="the retention of stream model was lowered twice while it was planned"):
        pipeline.plan()
    assert pipeline.chains == before
    with pytest.raises(DataLossError):
        pipeline.plan()


@pytest.mark.parametrize(("idle_hours", "described"), [(0, 1), (11, 1), (13, 2), (100, 2)])
def test_the_stream_is_described_again_only_where_a_note_is_old(
    stream: ModelStream, retention: Retention, pipeline: ModelPipeline, idle_hours: int, described: int
) -> None:
    """Kills: one more call in every plan; and none where a day of retention would not do."""
    stream.wait(idle_hours)
    retention.described = 0
    assert len(list(pipeline.plan().ranges)) == 1
    assert retention.described == described


def test_a_raised_one_is_no_reason_to_look_again(
    stream: ModelStream, retention: Retention, pipeline: ModelPipeline
) -> None:
    stream.wait(25)
    retention.set_while_planning(336)
    retention.described = 0
    assert pipeline.plan().stream.retention_ms == 168 * HOUR_MS
    assert retention.described == 2
