"""The DAG of backfills, run in this process: its form, its batches one after the other, its events."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from shardlake.errors import UnavailableError
from shardlake.names import backfill_namespace
from support.dag_parse import parse

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DAG = "kinesis_backfill"
SHARD = "shardId-000000000000"
EARLY = "2020-01-01T00:00:00Z"

PIPELINE = "clicks"
"""The name of every test's pipeline: Airflow's database takes a changed form over only after half a minute."""

Make = Callable[..., Any]
Rows = Callable[..., list[tuple[Any, ...]]]

GREEN = {"plan": ["success"], "ingest": ["success"], "verify": ["success"], "commit": ["success"]}
LAST = {**GREEN, "follow_up": ["skipped"]}


@pytest.fixture
def pipeline(pipeline: Make) -> Make:
    """Makes a pipeline on a stream of its own."""

    def make(shards: int = 2, **settings: Any) -> Any:
        made = pipeline(shards, **settings)
        made.config.write_text(made.config.read_text().replace(f"  {made.name}:", f"  {PIPELINE}:"))
        return made

    return make


def parsed() -> Any:
    """The DAG file's module, freshly parsed."""
    spec = importlib.util.spec_from_file_location(DAG, ROOT / "dags" / f"{DAG}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(conf: dict[str, Any], retries: int = 0) -> tuple[str, str, dict[str, list[str]]]:
    """Run the DAG once: the run's id and state, and the states of each task's instances."""
    dag = parsed().kinesis_backfill
    for task in dag.tasks:
        settings = task.partial_kwargs if hasattr(task, "partial_kwargs") else task.__dict__
        settings |= {"retries": retries, "retry_delay": timedelta(0), "retry_exponential_backoff": 0}
    done = dag.test(run_conf=conf)
    states: dict[str, list[str]] = {}
    for instance in sorted(done.get_task_instances(), key=lambda each: each.map_index):
        states.setdefault(instance.task_id, []).append(str(instance.state))
    return str(done.run_id), str(done.state), states


def ledger_of(made: Any) -> Any:
    from shardlake.ledger import open_ledger

    return open_ledger(f"sqlite:///{made.config.parent / 'ledger.db'}")


def data(made: Any, namespace: str) -> Path:
    return Path(made.dataset / "backfill" / namespace / "data")


def follow_ups(airflow_rows: Rows, backfill: str) -> list[dict[str, Any]]:
    """The forms of the runs that were triggered to go on with a backfill, all of which wait."""
    query = "SELECT conf, state FROM dag_run WHERE dag_id = ? AND run_id LIKE 'follow_up__%'"
    found = [(json.loads(conf), state) for conf, state in airflow_rows(query, DAG)]
    assert {state for _, state in found} <= {"queued"}
    return [conf for conf, _ in found if conf["backfill"] == backfill]


def test_a_backfill_goes_through_every_task_beside_the_live_pipeline(
    pipeline: Make, engine: Any, airflow_rows: Rows
) -> None:
    made = pipeline(shards=2)
    made.put(200)
    run_id, *outcome = run({"pipeline": PIPELINE})
    namespace = backfill_namespace(run_id)
    assert outcome == ["success", LAST]
    assert pq.read_table(data(made, namespace)).num_rows == 200
    assert not (made.dataset / "data").exists()
    ledger = ledger_of(made)
    assert (list(ledger.backfills(PIPELINE)), ledger.chains(PIPELINE, "live")) == ([namespace], {})

    ((extra,),) = airflow_rows(
        "SELECT extra FROM asset_event WHERE source_dag_id = ? AND source_run_id = ?", DAG, run_id
    )
    event = json.loads(extra)
    assert (event["pipeline"], event["backfill"], event["rows"]) == (PIPELINE, namespace, 200)
    assert event["batch_id"] == json.loads(engine.jobs[0].plan_text)["batch_id"]

    query = "SELECT task_id, value FROM xcom WHERE dag_id = ? AND run_id = ? AND key = 'return_value' ORDER BY task_id"
    found = {
        task: json.loads(json.loads(value) if isinstance(json.loads(value), str) else value)
        for task, value in airflow_rows(query, DAG, run_id)
    }
    assert found == {"plan": [0], "verify": {"verified": 2, "failed": 0}}


def test_a_long_one_is_gone_on_with_by_the_runs_that_it_starts(pipeline: Make, engine: Any, airflow_rows: Rows) -> None:
    made = pipeline(shards=1, max_range_bytes=200)
    made.put(50)
    asked = {"pipeline": PIPELINE, "shards": [SHARD], "from": EARLY, "read_fraction": 1}
    run_id, state, tasks = run(asked)
    assert (state, tasks) == ("success", {**GREEN, "follow_up": ["success"]})
    namespace = backfill_namespace(run_id)
    (form,) = follow_ups(airflow_rows, namespace)
    assert form == {
        **asked,
        "to": None,
        "retained_only": False,
        "backfill": namespace,
    }
    made.put(50)
    outcomes = [run(form)[1:] for _ in range(2)]
    assert [state for state, _ in outcomes] == ["success"] * 2
    assert outcomes[-1][1] == LAST
    assert pq.read_table(data(made, namespace)).num_rows == 50
    assert list(ledger_of(made).backfills(PIPELINE)) == [namespace]
    assert {json.loads(job.plan_text)["read_fraction"] for job in engine.jobs} == {1.0}


def test_a_backfill_is_gone_on_with_by_its_id_or_that_of_the_run_that_opened_it(pipeline: Make, engine: Any) -> None:
    made = pipeline(shards=1, max_range_bytes=200)
    made.put(50)
    run_id, *_ = run({"pipeline": PIPELINE, "from": EARLY})
    for named in (run_id, backfill_namespace(run_id)):
        assert run({"pipeline": PIPELINE, "backfill": named})[1] == "success"
    assert pq.read_table(data(made, backfill_namespace(run_id))).num_rows == 50
    assert len(ledger_of(made).backfills(PIPELINE)) == 1


def test_one_group_is_tried_again_without_the_others(pipeline: Make, engine: Any) -> None:
    made = pipeline(shards=3, max_group_ranges=1)
    made.put(300)
    engine.failures = [UnavailableError("the endpoint does not answer")]
    run_id, state, tasks = run({"pipeline": PIPELINE}, retries=1)
    assert (state, tasks["ingest"]) == ("success", ["success"] * 3)
    assert len(engine.jobs) == 4
    assert {tuple(job.ranges) for job in engine.jobs} == {(0,), (1,), (2,)}
    assert pq.read_table(data(made, backfill_namespace(run_id))).num_rows == 300


@pytest.mark.parametrize(
    "conf",
    [
        pytest.param({"backfill": "mistyped"}, id="an unknown backfill"),
        pytest.param({"backfill": "live"}, id="the live pipeline"),
        pytest.param({"nonsense": 1}, id="a key that is not in the form"),
    ],
)
def test_what_cannot_be_fails_at_once_and_writes_nothing(
    pipeline: Make, engine: Any, airflow_rows: Rows, conf: dict[str, Any]
) -> None:
    made = pipeline(shards=1)
    made.put(5)
    run_id, state, tasks = run({"pipeline": PIPELINE, **conf}, retries=2)
    assert (state, tasks["plan"], engine.jobs) == ("failed", ["failed"], [])
    query = "SELECT try_number FROM task_instance WHERE dag_id = ? AND run_id = ? AND task_id = 'plan'"
    assert airflow_rows(query, DAG, run_id) == [(1,)]
    assert not made.dataset.exists()
    assert ledger_of(made).backfills(PIPELINE) == {}


def test_what_is_no_longer_retained_is_said_before_anything_starts(pipeline: Make, engine: Any) -> None:
    made = pipeline(shards=1)
    made.put(5)
    made.kinesis.control({"advance_clock_s": 25 * 3600})
    made.put(7)
    assert run({"pipeline": PIPELINE, "from": EARLY})[1] == "failed"
    assert not made.dataset.exists()
    run_id, state, _ = run({"pipeline": PIPELINE, "from": EARLY, "retained_only": True})
    assert (state, pq.read_table(data(made, backfill_namespace(run_id))).num_rows) == ("success", 7)


GOOD: dict[str, list[Any]] = {
    "shards": [None, [], [SHARD], [SHARD, " shardId-1 ", ""]],
    "from": [None, "0", "1" * 56, EARLY, f" {EARLY} ", "2026-01-31 00:00:00.123+05:30"],
    "to": [None, "0", EARLY],
    "read_fraction": [0.01, 1],
    "retained_only": [True],
    "backfill": [None, "b", "manual__2026-01-31T00:00:00.123456+00:00"],
}
BAD: dict[str, list[Any]] = {
    "pipeline": [None, "", "nope", 1, ["clicks"]],
    "shards": [SHARD, ["../x"], ["a b"], [1], ["x" * 129], {}],
    "from": ["", "yesterday", "2026-01-31", "2026-01-31T00:00:00", "1" * 57, 1, ["1"]],
    "to": ["", "now", 1.5],
    "read_fraction": [0, -1, 1.01, "0.5", None],
    "retained_only": ["yes", None, 1],
    "backfill": [1, "x" * 251],
}


@pytest.fixture
def form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The form as it is shown."""
    from airflow.sdk.definitions.param import ParamsDict

    config = tmp_path / "pipelines.yaml"
    config.write_text("pipelines: {}\n")
    monkeypatch.setenv("SHARDLAKE_CONFIG", str(config))
    form = ParamsDict(parsed().params([PIPELINE]))
    form.validate()
    return form


def fill(form: Any, name: str, value: Any) -> Any:
    form[name] = value
    return form.validate()[name]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in GOOD.items() for value in values])
def test_the_form_takes(form: Any, name: str, value: Any) -> None:
    assert fill(form, name, value) == value


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_the_form_does_not_take(form: Any, name: str, value: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        fill(form, name, value)


def test_the_form_names_every_pipeline_and_asks_for_nothing_in_particular(pipeline: Make) -> None:
    from shardlake.backfill import Request, parse_request

    made = pipeline()
    entries = yaml.safe_load(made.config.read_text())
    entries["pipelines"]["other"] = {**entries["pipelines"][PIPELINE], "dataset": "/lake/other"}
    made.config.write_text(yaml.safe_dump(entries, sort_keys=False))
    dag = parsed().kinesis_backfill
    assert dag.params.get_param("pipeline").schema["enum"] == [PIPELINE, "other"]
    form = dag.params.dump()
    assert (form.pop("pipeline"), form.pop("backfill")) == (PIPELINE, None)
    assert parse_request(form) == Request()
    assert (dag.schedule, dag.catchup) == (None, False)


@pytest.mark.parametrize("empty", [False, True])
def test_the_dag_file_parses_within_a_second_and_loads_nothing_heavy(pipeline: Make, empty: bool) -> None:
    made = pipeline()
    if empty:
        made.config.write_text("pipelines: {}\n")
    parsed = parse(ROOT / "dags" / f"{DAG}.py")
    assert parsed.cpu_s < 1
    assert parsed.heavy == []
    assert ("kinesis_backfill" in parsed.names) is not empty
