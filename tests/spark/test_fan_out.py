"""Enhanced fan-out in Spark's Python workers: package, credentials and CA bundle are found there, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardlake.batch import Steps
from shardlake.config import SparkEngine
from shardlake.engines.spark_submit import SparkSubmit
from shardlake.plan import Run
from support.fan_out_server import fan_out_server

pytestmark = pytest.mark.slow


def test_a_batch_is_read_by_subscriptions(
    steps: Callable[..., Steps], kinesis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fan_out_server(kinesis.endpoint_url, tmp_path) as server:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(server.ca_file))
        items = [(f"plane-{n % 50}", b"%d" % n) for n in range(3000)]
        made = steps(items, consumer={"enhanced_fan_out": "lake"}, endpoint_url=server.endpoint_url)
        plan, committed = made.run(Run("dag", "run"), SparkSubmit(SparkEngine()), print)
        assert committed is not None
        assert (committed.rows, len(committed.ranges)) == (3000, 2)
        assert {(s.request["ShardId"], s.at) for s in server.subscriptions} == {
            (range_.shard_id, str(range_.anchor)) for range_ in plan.ranges
        }
        assert sum(len(subscription.given) for subscription in server.subscriptions) == 3000
