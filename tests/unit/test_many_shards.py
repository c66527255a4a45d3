"""A stream of 10,000 shards: what planning it costs, the calls to the service apart."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from shardlake.ranges import SHARD_END
from support.model_pipeline import ModelPipeline
from support.model_stream import ModelStream

pytestmark = pytest.mark.slow

SHARDS = 10_000


def test_every_shard_is_planned_with_few_calls_and_little_memory(tmp_path: Path) -> None:
    stream = ModelStream(SHARDS)
    pipeline = ModelPipeline(stream, tmp_path)
    for index in range(SHARDS):
        stream.put(index)
    plan = pipeline.plan()
    assert (len(list(plan.ranges)), len(plan.groups)) == (SHARDS, 40)
    assert stream.calls == 1 + 4 * SHARDS
    pipeline.commit(plan)
    stream.split(17)
    stream.calls = 0
    tracemalloc.start()
    idle = pipeline.plan()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(range_.shard_id, range_.through) for range_ in idle.ranges] == [("shardId-000000000017", SHARD_END)]
    assert stream.calls == 2 + 2 * SHARDS + 2 * 2  # two listings, a look at each shard, the beginnings of two
    assert peak_bytes < 150 * 2**20
