"""A real Airflow in a folder of its own: on the loopback interface only, with scheduled runs, gone at the end."""

import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from demo.airflow_home import Airflow, AirflowHome, start_airflow
from demo.background import Background
from demo.processes import Process

pytestmark = pytest.mark.slow

_DAG = """\
import os
from datetime import timedelta
from airflow.sdk import Asset, dag, task

@dag(schedule=timedelta(seconds=3), catchup=False, max_active_runs=1)
def trivial():
    @task
    def plan():
        print("JAVA_HOME is", os.environ["JAVA_HOME"])
        return [10, 20]

    @task
    def ingest(number):
        return number + 1

    @task(outlets=[Asset("there")])
    def commit(numbers, *, outlet_events):
        outlet_events[Asset("there")].extra = {"sum": sum(numbers)}

    commit(ingest.expand(number=plan()))

trivial()
"""


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    with Background(tmp_path_factory.mktemp("background") / "processes.json") as background:
        yield background


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, background: Background) -> Airflow:
    root = tmp_path_factory.mktemp("airflow")
    for folder in ("dags", "plugins"):
        (root / folder).mkdir()
    (root / "dags" / "trivial.py").write_text(_DAG)
    home = AirflowHome(root / "home", root / "dags", root / "plugins", {"JAVA_HOME": "/opt/a-java"})
    return start_airflow(home, background)


def _wait_for(condition: Callable[[], object], within_s: float = 60) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.2)


def _scheduled_successes(airflow: Airflow) -> list[str]:
    runs = airflow.api.dag_runs("trivial")
    return [run["dag_run_id"] for run in runs if (run["run_type"], run["state"]) == ("scheduled", "success")]


def _listening(processes: tuple[Process, ...]) -> set[str]:
    connections = [each for process in processes for member in process.members() for each in member.net_connections()]
    return {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}


def test_scheduled_runs_succeed_and_can_be_asked_about(airflow: Airflow) -> None:
    _wait_for(lambda: len(_scheduled_successes(airflow)) >= 2)
    airflow.api.set_paused("trivial", True)
    run = _scheduled_successes(airflow)[0]

    instances = airflow.api.task_instances("trivial", run)

    assert sorted((each["task_id"], each["map_index"], each["state"], each["try_number"]) for each in instances) == [
        ("commit", -1, "success", 1),
        ("ingest", 0, "success", 1),
        ("ingest", 1, "success", 1),
        ("plan", -1, "success", 1),
    ]
    assert airflow.api.xcom("trivial", run, "plan") == [10, 20]
    assert airflow.api.xcom("trivial", run, "ingest", map_index=1) == 21
    assert "JAVA_HOME is /opt/a-java" in airflow.api.task_log("trivial", run, "plan")
    (event,) = [each for each in airflow.api.asset_events() if each["source_run_id"] == run]
    assert event["extra"] == {"sum": 32}
    assert airflow.api.import_errors() == []


def test_a_cleared_map_index_runs_again_with_what_comes_after_it(airflow: Airflow) -> None:
    _wait_for(lambda: _scheduled_successes(airflow))
    run = _scheduled_successes(airflow)[0]

    airflow.api.set_paused("trivial", False)  # nothing of a paused DAG runs, cleared or not
    airflow.api.clear("trivial", run, [("ingest", 1)])

    def tries() -> list[tuple[str, int, int]]:
        done = [each for each in airflow.api.task_instances("trivial", run) if each["state"] == "success"]
        return sorted((each["task_id"], each["map_index"], each["try_number"]) for each in done)

    _wait_for(lambda: tries() == [("commit", -1, 2), ("ingest", 0, 1), ("ingest", 1, 2), ("plan", -1, 1)])


def test_a_manual_run_can_be_triggered(airflow: Airflow) -> None:
    assert airflow.api.trigger("trivial")["run_type"] == "manual"


def test_it_listens_on_the_loopback_interface_only(airflow: Airflow, background: Background) -> None:
    assert _listening(background.processes) == {"127.0.0.1"}


def test_nothing_of_it_is_left(airflow: Airflow, background: Background) -> None:
    processes = background.processes
    assert [process.name for process in processes if not process.alive()] == []

    background.end()

    assert [member for process in processes for member in process.members()] == []
