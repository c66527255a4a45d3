"""The Spark job on a stream of another account: its tasks assume the role, by the credentials that they are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest

from shardlake.batch import Steps
from shardlake.config import SparkEngine
from shardlake.engines.spark_submit import SparkSubmit
from shardlake.plan import Run
from support.account import EXTERNAL_ID, ROLE, account_of

pytestmark = pytest.mark.slow


def test_each_worker_assumes_it_once(
    kinesis: Any, steps: Callable[..., Steps], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [(f"plane-{n % 50}", b"%d" % n) for n in range(1000)]
    with account_of(kinesis.endpoint_url) as account:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", account.endpoint_url)
        account.caller = "AKIACONNECTION"
        made = steps(
            items,
            shards=6,
            session=boto3.Session(account.caller, "secret"),
            endpoint_url=account.endpoint_url,
            stream_role={"role_arn": ROLE, "external_id": EXTERNAL_ID},
        )
        plan = made.plan(Run("dag", "run"))
        (here,) = account.issued
        account.calls.clear()
        lines: list[str] = []
        made.ingest(plan.batch_id, 0, SparkSubmit(SparkEngine()), lines.append)
        made.verify(plan.batch_id)
        assert made.commit(plan.batch_id).rows == pq.read_table(Path(made.home.url("data"))).num_rows == 1000
    assert {asked.key_id for asked in account.asked} == {account.caller}
    assert {call.key_id for call in account.calls} == {*account.issued} - {here}
    assert len(account.issued) in (2, 3)  # here, and in the workers of local[2]
    assert not [line for line in lines for key in account.issued if key in line]
