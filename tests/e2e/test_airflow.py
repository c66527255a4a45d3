"""Real Airflow, real Spark, a local Kinesis: what a deployment does after an outage, and what its users see and do."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from shardlake.names import LIVE, batch_directory, batch_id

if TYPE_CHECKING:
    from tests.e2e.conftest import Deployment

    from demo.airflow_home import Airflow

pytestmark = pytest.mark.slow

DAG = "kinesis_ingest__clicks"
HOUR_S = 3600
Wait = Callable[[Callable[[], object], float], None]
Get = Callable[..., tuple[int, str]]


@dataclass(frozen=True)
class CaughtUp:
    """An Airflow that has just caught up with an outage of 10 intervals, and the runs that it took."""

    deployment: Deployment
    airflow: Airflow
    runs: list[dict[str, Any]]

    @property
    def first_run(self) -> str:
        """The id of the first run."""
        return str(self.runs[0]["dag_run_id"])

    def states(self, run_id: str) -> dict[str, str]:
        """The state of each task of a run, of which none is mapped over more than one group."""
        return {each["task_id"]: each["state"] for each in self.airflow.api.task_instances(DAG, run_id)}

    def run(self, run_id: str) -> dict[str, Any]:
        """A run as it is now."""
        (found,) = [each for each in self.airflow.api.dag_runs(DAG) if each["dag_run_id"] == run_id]
        return found

    def page_url(self, dag_id: str, run_id: str) -> str:
        """Where the page of a run's batch is."""
        return f"{self.airflow.url}/shardlake/{quote(dag_id, safe='')}/{quote(run_id, safe='')}"


@pytest.fixture(scope="module")
def caught_up(deployment: Deployment, wait: Wait) -> CaughtUp:
    """Ten hours' records wait when Airflow starts, for a pipeline of one hour's interval and windows of four."""
    deployment.add("clicks", schedule="1h", max_window="4h")
    deployment.add("quiet", shards=1)
    for _ in range(10):
        deployment.put("clicks", 40)
        deployment.kinesis.control({"advance_clock_s": HOUR_S})
    airflow = deployment.start_airflow()

    def runs() -> list[dict[str, Any]]:
        return sorted(airflow.api.dag_runs(DAG), key=lambda run: str(run["start_date"]))

    def is_over() -> bool:
        done = runs()
        if not done or any(run["state"] not in ("success", "failed") for run in done):
            return False
        last = done[-1]
        instances = airflow.api.task_instances(DAG, last["dag_run_id"])
        return last["state"] == "failed" or [i["state"] for i in instances if i["task_id"] == "follow_up"] == [
            "skipped"
        ]

    wait(lambda: DAG in {dag["dag_id"] for dag in airflow.api.dags()}, 30)
    wait(is_over, 300)
    return CaughtUp(deployment, airflow, runs())


class TestRecovery:
    def test_three_batches_make_up_for_ten_missed_intervals(self, caught_up: CaughtUp) -> None:
        first, second, third = caught_up.runs
        assert [run["state"] for run in caught_up.runs] == ["success"] * 3
        assert first["run_type"] == "scheduled"
        for before, after in ((first, second), (second, third)):
            expected = hashlib.sha256(before["dag_run_id"].encode()).hexdigest()[:16]
            assert after["dag_run_id"] == f"follow_up__{expected}"

    def test_each_run_starts_as_soon_as_the_one_before_it_has_ended(self, caught_up: CaughtUp) -> None:
        times = [
            (datetime.fromisoformat(run["start_date"]), datetime.fromisoformat(run["end_date"]))
            for run in caught_up.runs
        ]
        gaps_s = [(start - end).total_seconds() for (_, end), (start, _) in itertools.pairwise(times)]
        assert all(0 <= gap_s < 10 for gap_s in gaps_s), gaps_s

    def test_every_record_is_there_once(self, caught_up: CaughtUp) -> None:
        caught_up.deployment.assert_every_record_is_there_once("clicks")

    def test_the_events_tell_of_every_row(self, caught_up: CaughtUp) -> None:
        events = caught_up.airflow.api.asset_events(source_dag_id=DAG)
        assert [(event["source_run_id"], event["extra"]["rows"]) for event in events] == [
            (run["dag_run_id"], rows) for run, rows in zip(caught_up.runs, (160, 160, 80), strict=True)
        ]


def test_a_run_with_nothing_to_read_skips_spark_and_ends_green(caught_up: CaughtUp, wait: Wait) -> None:
    batches, api = caught_up.deployment.batches("clicks"), caught_up.airflow.api
    events = len(api.asset_events(source_dag_id=DAG))

    run_id = api.trigger(DAG)["dag_run_id"]
    wait(lambda: caught_up.run(run_id)["state"] in ("success", "failed"), 30)

    assert caught_up.run(run_id)["state"] == "success"
    assert caught_up.states(run_id) == {
        "plan": "success",
        "ingest": "skipped",
        "verify": "skipped",
        "commit": "skipped",
        "follow_up": "skipped",
    }
    assert caught_up.deployment.batches("clicks") == batches
    assert len(api.asset_events(source_dag_id=DAG)) == events


class TestBatchLink:
    def test_an_ingest_task_links_to_its_batch(self, caught_up: CaughtUp, get: Get) -> None:
        api = caught_up.airflow.api
        task = f"{api.url}/api/v2/dags/{DAG}/dagRuns/{quote(caught_up.first_run)}/taskInstances/ingest"
        status, body = get(f"{task}/links?map_index=0", api.token)
        link = caught_up.page_url(DAG, caught_up.first_run).removeprefix(api.url)
        assert (status, json.loads(body)["extra_links"]) == (200, {"Batch": link})

    def test_its_page_shows_plan_report_and_what_was_verified(self, caught_up: CaughtUp, get: Get) -> None:
        status, body = get(caught_up.page_url(DAG, caught_up.first_run), caught_up.airflow.api.token)
        assert status == 200
        assert "2 ranges, 160 rows" in body
        assert body.count("<td>verified") == 2
        for name in ("plan.json", "report-0000.json", "verified.json"):
            assert f"<summary>{name}</summary>" in body

    def test_its_page_needs_a_login(self, caught_up: CaughtUp, get: Get) -> None:
        status, body = get(caught_up.page_url(DAG, caught_up.first_run))
        assert (status, json.loads(body)) == (401, {"detail": "Not authenticated"})

    @pytest.mark.parametrize(
        ("dag_id", "run_id"),
        [
            (DAG, "manual__no-such-run"),
            (DAG, "../../owner.json"),
            (DAG, "<script>alert(1)</script>"),
            ("kinesis_ingest__quiet", None),
            ("kinesis_ingest__nothing", None),
            ("clicks", None),
            ("<script>", None),
            ("~", None),
        ],
    )
    def test_there_is_no_page_of_anything_else(
        self, caught_up: CaughtUp, get: Get, dag_id: str, run_id: str | None
    ) -> None:
        status, body = get(caught_up.page_url(dag_id, run_id or caught_up.first_run), caught_up.airflow.api.token)
        assert status == 404
        assert "<h1>No batch</h1>" in body
        assert [leak for leak in ("clicks", "quiet", "<script>", str(caught_up.deployment.root)) if leak in body] == []

    def test_a_hostile_run_id_is_only_text(self, caught_up: CaughtUp, get: Get) -> None:
        hostile = "</title></pre><script>alert('x')</script>/.."
        dataset = caught_up.deployment.dataset("clicks")
        of_first, of_hostile = (
            dataset / batch_directory(batch_id("clicks", LIVE, DAG, run_id))
            for run_id in (caught_up.first_run, hostile)
        )
        shutil.copytree(of_first, of_hostile)
        try:
            plan = json.loads((of_first / "plan.json").read_text())
            plan["run"]["run_id"], plan["losses"] = hostile, [hostile]
            (of_hostile / "plan.json").write_text(json.dumps(plan))
            status, body = get(caught_up.page_url(DAG, hostile), caught_up.airflow.api.token)
        finally:
            shutil.rmtree(of_hostile)
        assert status == 200
        assert "<script" not in body
        # The page's title and heading, the loss and the plan's text twice.
        assert body.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;/..") == 5


def test_a_cleared_run_changes_nothing(caught_up: CaughtUp, wait: Wait) -> None:
    deployment, api = caught_up.deployment, caught_up.airflow.api
    files, rows = deployment.checksums("clicks"), deployment.ledger_rows("clicks")
    assert len(files) == len(rows) == 6

    cleared = api.clear(DAG, caught_up.first_run, ["plan"])
    wait(lambda: caught_up.run(caught_up.first_run)["state"] in ("success", "failed"), 60)

    assert sorted(each["task_id"] for each in cleared) == ["commit", "follow_up", "ingest", "plan", "verify"]
    instances = api.task_instances(DAG, caught_up.first_run)
    assert {each["task_id"]: (each["state"], each["try_number"]) for each in instances} == {
        "plan": ("success", 2),
        "ingest": ("success", 2),
        "verify": ("success", 2),
        "commit": ("success", 2),
        "follow_up": ("skipped", 2),  # the run that it would start is there already
    }
    assert (deployment.checksums("clicks"), deployment.ledger_rows("clicks")) == (files, rows)
    deployment.assert_every_record_is_there_once("clicks")


def test_adding_an_entry_adds_a_dag(caught_up: CaughtUp, wait: Wait) -> None:
    api = caught_up.airflow.api
    before = {dag["dag_id"] for dag in api.dags()}
    assert before == {DAG, "kinesis_ingest__quiet", "kinesis_backfill"}

    caught_up.deployment.add("added")

    wait(lambda: {dag["dag_id"] for dag in api.dags()} == {*before, "kinesis_ingest__added"}, 30)
    assert api.import_errors() == []


def test_nothing_of_it_is_left(caught_up: CaughtUp) -> None:
    background = caught_up.deployment.background
    processes = background.processes
    assert [process.name for process in processes if not process.alive()] == []

    background.end()

    assert [member for process in processes for member in process.members()] == []
