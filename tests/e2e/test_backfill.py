"""A backfill on a real Airflow with real Spark, triggered through the API beside a scheduled pipeline."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

from shardlake.ledger import Ledger, LedgerRange, open_ledger
from shardlake.names import LIVE, backfill_namespace

if TYPE_CHECKING:
    from tests.e2e.conftest import Deployment

    from demo.airflow_home import Airflow

pytestmark = pytest.mark.slow

LIVE_DAG, DAG = "kinesis_ingest__clicks", "kinesis_backfill"
OVER = ("success", "failed")
Wait = Callable[[Callable[[], object], float], None]


@dataclass(frozen=True)
class Done:
    """An Airflow on which a backfill of two batches has come to its end while its pipeline ran."""

    deployment: Deployment
    airflow: Airflow
    runs: list[dict[str, Any]]
    live_before: list[LedgerRange]

    @property
    def backfill(self) -> str:
        return backfill_namespace(str(self.runs[0]["dag_run_id"]))

    @property
    def ledger(self) -> Ledger:
        return open_ledger(f"sqlite:///{self.deployment.root}/clicks.db")

    def state(self) -> tuple[dict[str, str], list[LedgerRange]]:
        """Every file of the backfill with its checksum, and its ranges."""
        data = self.deployment.dataset("clicks") / "backfill" / self.backfill / "data"
        files = {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(data.rglob("*.parquet"))}
        return files, list(self.ledger.ranges("clicks", self.backfill))

    def tasks(self, run_id: str) -> list[tuple[str, int, str, int]]:
        """Each task instance of a run: task, map index, state, attempt."""
        instances = self.airflow.api.task_instances(DAG, run_id)
        return sorted((each["task_id"], each["map_index"], each["state"], each["try_number"]) for each in instances)


@pytest.fixture(scope="module")
def done(deployment: Deployment, wait: Wait) -> Done:
    deployment.add("clicks", schedule="1h", max_window="1h")
    for _ in range(2):
        deployment.put("clicks", 60)
        deployment.kinesis.control({"advance_clock_s": 3000})
    airflow = deployment.start_airflow()
    api = airflow.api
    wait(lambda: {DAG, LIVE_DAG} <= {dag["dag_id"] for dag in api.dags()}, 30)
    form = {"pipeline": "clicks", "from": "2020-01-01T00:00:00Z", "read_fraction": 1}
    api.trigger(DAG, form)
    deployment.put("clicks", 30)

    def is_over() -> bool:
        runs = api.dag_runs(DAG)
        skipped = any(each["state"] == "skipped" for run in runs for each in api.task_instances(DAG, run["dag_run_id"]))
        return all(run["state"] in OVER for run in runs) and (skipped or runs[-1]["state"] == "failed")

    wait(is_over, 150)
    wait(lambda: all(run["state"] in OVER for run in api.dag_runs(LIVE_DAG)), 120)
    ledger = open_ledger(f"sqlite:///{deployment.root}/clicks.db")
    return Done(deployment, airflow, api.dag_runs(DAG), list(ledger.ranges("clicks", LIVE)))


def test_two_runs_go_through_the_second_of_them_started_by_the_first(done: Done) -> None:
    first, second = done.runs
    assert [run["state"] for run in done.runs] == ["success"] * 2
    assert second["conf"] == {**first["conf"], **second["conf"], "backfill": done.backfill}
    assert [task for task in done.tasks(first["dag_run_id"]) if task[0] == "ingest"] == [("ingest", 0, "success", 1)]


def test_it_holds_each_record_that_was_there_once(done: Done) -> None:
    data = done.deployment.dataset("clicks") / "backfill" / done.backfill / "data"
    rows = pq.read_table(data, columns=["shard_id", "sequence_number"]).to_pylist()
    found = Counter((row["shard_id"], row["sequence_number"]) for row in rows)
    there = Counter((each.shard_id, each.sequence_number) for each in done.deployment.acknowledged["clicks"])
    assert not found - there
    assert {
        (each.shard_id, each.sequence_number) for each in done.deployment.acknowledged["clicks"][:120]
    } <= found.keys()
    assert done.ledger.backfills("clicks").keys() == {done.backfill}


def test_the_events_say_which_backfill_of_which_pipeline(done: Done) -> None:
    events = [event["extra"] for event in done.airflow.api.asset_events(source_dag_id=DAG)]
    assert {(event["pipeline"], event["backfill"]) for event in events} == {("clicks", done.backfill)}
    rows = [row.contents.rows for row in done.state()[1] if row.contents]
    assert sum(event["rows"] for event in events) == sum(rows)
    assert len({event["batch_id"] for event in events}) == 2


def test_the_page_of_each_batch_is_that_of_the_backfill(done: Done, get: Callable[..., tuple[int, str]]) -> None:
    for run in done.runs:
        url = f"{done.airflow.url}/shardlake/{DAG}/{quote(run['dag_run_id'], safe='')}"
        status, body = get(url, done.airflow.api.token)
        assert status == 200
        assert f"backfill/{done.backfill}" in body
        assert "<td>verified" in body
        assert get(url)[0] == 401


def test_a_mapped_task_that_is_cleared_changes_nothing(done: Done, wait: Wait) -> None:
    api, run_id = done.airflow.api, str(done.runs[0]["dag_run_id"])
    before = done.state()
    api.clear(DAG, run_id, [("ingest", 0)])
    wait(lambda: api.dag_run(DAG, run_id)["state"] in OVER, 60)
    assert [(task, index, attempt) for task, index, _, attempt in done.tasks(run_id) if attempt == 2] == [
        ("commit", -1, 2),
        ("follow_up", -1, 2),
        ("ingest", 0, 2),
        ("verify", -1, 2),
    ]
    assert api.dag_run(DAG, run_id)["state"] == "success"
    assert done.state() == before
    assert len(api.dag_runs(DAG)) == 2


@pytest.mark.parametrize(
    "form",
    [
        {"pipeline": "nope"},
        {"pipeline": "clicks", "shards": ["../x"]},
        {"pipeline": "clicks", "from": "yesterday"},
        {"pipeline": "clicks", "to": "2026-01-31"},
        {"pipeline": "clicks", "read_fraction": 0},
    ],
)
def test_a_form_filled_in_wrong_is_refused(done: Done, form: dict[str, Any]) -> None:
    with pytest.raises(HTTPError) as refused:
        done.airflow.api.trigger(DAG, form)
    assert 400 <= refused.value.code < 500
    assert "Invalid input for param" in json.loads(refused.value.read())["detail"]
    assert len(done.airflow.api.dag_runs(DAG)) == 2


def test_the_live_pipeline_went_on_as_ever(done: Done, wait: Wait) -> None:
    api = done.airflow.api

    def is_caught_up() -> bool:
        last = max(api.dag_runs(LIVE_DAG), key=lambda run: str(run["queued_at"]))
        states = {each["task_id"]: each["state"] for each in api.task_instances(LIVE_DAG, last["dag_run_id"])}
        return last["state"] in OVER and states["follow_up"] == "skipped"

    api.trigger(LIVE_DAG)
    wait(is_caught_up, 120)
    assert {run["state"] for run in api.dag_runs(LIVE_DAG)} == {"success"}
    rows = list(done.ledger.ranges("clicks", LIVE))
    assert [row for row in rows if row in done.live_before] == done.live_before
    done.deployment.assert_every_record_is_there_once("clicks")
