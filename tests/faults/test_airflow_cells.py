"""Which cells are tried on Airflow, and which of them in one run."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from support.faults.airflow.cells import PART, cells, strings
from support.faults.airflow.lane import is_untold, task_of
from support.faults.airflow.ways import GOING_ON, JVM, LAST, ONE_INDEX, WAYS
from support.faults.boundaries import Boundary
from support.faults.results import Cell

NAMES = (
    *("supervisor of plan: PATCH run", "plan: COMMIT ranges batches", "plan: say SucceedTask"),
    *("supervisor of ingest: PATCH run", "ingest: start Spark", "worker: link data/shard_id=*/*.parquet"),
    *("driver: rename _shardlake/batches/*/report-*.json", "worker: end"),
    *(
        "supervisor of verify: PATCH run",
        "verify: rename _shardlake/batches/*/verified.json",
        "verify: say SucceedTask",
    ),
    *("commit: COMMIT ranges", "supervisor of commit: PATCH state", "supervisor of follow_up: PATCH run"),
)
BOUNDARIES = {name: Boundary(name, 1) for name in NAMES} | {"worker: end (2)": Boundary("worker: end", 2)}


def asked(ledger: str) -> list[Cell]:
    pairs = cells(list(BOUNDARIES.values()), ledger)
    return [Cell("airflow", ledger, boundary, way) for boundary, way in pairs]


def test_every_boundary_and_every_way_is_tried() -> None:
    assert {cell.boundary for cell in asked("sqlite")} == set(BOUNDARIES)
    assert {cell.way for cell in asked("sqlite")} == set(WAYS)
    assert sorted(cell.way for cell in asked("postgres")) == sorted(WAYS)


def test_what_airflow_never_finds_out_is_left_to_a_person_or_a_new_scheduler() -> None:
    ways = {cell.way for cell in asked("sqlite") if is_untold(BOUNDARIES[cell.boundary])}
    assert ways == {"one task", "downstream", "the whole run"}


def test_a_run_is_interrupted_once_a_task_in_their_order_and_not_after_it_was_left_to_others() -> None:
    runs = list(strings(asked("sqlite"), BOUNDARIES))
    assert Counter(chain.from_iterable(runs)) == Counter(asked("sqlite"))
    for run in runs:
        tasks = [task_of(BOUNDARIES[cell.boundary]) for cell in run]
        assert tasks == sorted(set(tasks), key=["plan", "ingest", "verify", "commit", "follow_up"].index)
        assert not [cell for cell in run[:-1] if cell.way in LAST]


def test_the_part_is_three_runs_with_every_way_that_needs_no_more_than_one_lane() -> None:
    assert len(list(strings([Cell("airflow", "sqlite", *pair) for pair in PART], BOUNDARIES))) == 3
    assert {way for _, way in PART} == {*GOING_ON, *LAST} - {"retry"}
    assert {JVM, ONE_INDEX} <= {way for _, way in PART}
