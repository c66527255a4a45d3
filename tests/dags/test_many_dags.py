"""Many pipelines in one Airflow: each has a DAG of its own, also on one stream with one ledger."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

pytestmark = pytest.mark.slow


def test_two_pipelines_on_one_stream_have_two_dags_that_know_nothing_of_each_other(
    pipeline: Callable[..., Any], engine: Any
) -> None:
    first = pipeline()
    second = copy.copy(first)
    second.name, second.dataset = f"{first.name}-2", first.dataset.with_name("second")
    (entry,) = yaml.safe_load(first.config.read_text())["pipelines"].values()
    entries = {first.name: entry, second.name: {**entry, "dataset": str(second.dataset)}}
    first.config.write_text(yaml.safe_dump({"pipelines": entries}))
    first.put(50)
    assert first.run()[0] == "success"
    assert not second.dataset.exists()
    first.put(50)
    assert second.run()[0] == "success"
    assert [pq.read_table(each.dataset / "data").num_rows for each in (first, second)] == [50, 100]
