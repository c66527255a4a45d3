"""Which cells are tried on Airflow, and which of them in one run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle

from support.faults.airflow.dag import TASKS
from support.faults.airflow.lane import is_untold, task_of
from support.faults.airflow.ways import ALONE, GOING_ON, JVM, LAST, NEXT_RUN, ONE_INDEX, WAYS
from support.faults.boundaries import Boundary
from support.faults.results import Cell

_BY_A_PERSON = ("one task", "downstream", "the whole run")

_CORE = (
    "plan: COMMIT ranges batches",
    "ingest: start Spark",
    "worker: link data/shard_id=*/*.parquet",
    "driver: rename _shardlake/batches/*/report-*.json",
    "verify: rename _shardlake/batches/*/verified.json",
    "commit: COMMIT ranges",
    "supervisor of commit: PATCH state",
)
"""Where what was done begins to count for the next step."""


PART = (
    *(("plan: COMMIT ranges batches", "the whole run"), ("worker: link data/shard_id=*/*.parquet", JVM)),
    *(("verify: rename _shardlake/batches/*/verified.json", "one task"), ("commit: COMMIT ranges", "an old run")),
    *(("driver: rename _shardlake/batches/*/report-*.json", ONE_INDEX), ("verify: say SucceedTask", "downstream")),
    *(("supervisor of commit: PATCH state", "shardlake run"), ("ingest: start Spark", NEXT_RUN)),
)
"""A few cells of three runs, a lane each, with all ways that concern one run only."""


def cells(boundaries: list[Boundary], ledger: str) -> Iterable[tuple[str, str]]:
    """Each boundary once, the ways by turns; the other ways and victims at the core. On PostgreSQL, each way once."""
    pairs = _once_each_way(boundaries) if ledger == "postgres" else [*_covering(boundaries), *_at_the_core(boundaries)]
    return dict.fromkeys((str(boundary), way) for boundary, way in pairs)


def _covering(boundaries: list[Boundary]) -> Iterator[tuple[Boundary, str]]:
    turns = {task: cycle([way for way in GOING_ON if _suits(way, task)]) for task in TASKS}
    by_a_person = cycle(_BY_A_PERSON)
    for boundary in boundaries:
        yield boundary, next(by_a_person if is_untold(boundary) else turns[task_of(boundary)])


def _at_the_core(boundaries: list[Boundary]) -> Iterator[tuple[Boundary, str]]:
    core = [boundary for boundary in boundaries if str(boundary) in _CORE]
    yield from ((boundary, way) for way in (*LAST, *ALONE) for boundary in core)
    yield from (
        (boundary, JVM) for boundary in boundaries if boundary.role in ("worker", "driver") and boundary.count == 1
    )


def _once_each_way(boundaries: list[Boundary]) -> Iterator[tuple[Boundary, str]]:
    core = {str(boundary): boundary for boundary in boundaries if str(boundary) in _CORE}
    yield core[_CORE[2]], JVM
    yield from zip(cycle(core.values()), (way for way in WAYS if way != JVM))


def _suits(way: str, task: str) -> bool:
    """Whether a way needs no more than that the task is killed, and leaves what comes after it to be killed too."""
    return way != JVM and (way != ONE_INDEX or task == "ingest")


def strings(cells: Iterable[Cell], boundaries: Mapping[str, Boundary]) -> Iterator[list[Cell]]:
    """Cells that one run can have: a kill a task, in the order of tasks, until the run is left to others.

    A run costs half a minute, most of it for Spark; so each has as many kills as it can.
    """
    waiting = {task: deque[Cell]() for task in TASKS}
    for cell in cells:
        waiting[task_of(boundaries[cell.boundary])].append(cell)
    while any(waiting.values()):
        string: list[Cell] = []
        for queue in waiting.values():
            if queue and not (string and _is_last(string[-1], boundaries)):
                string.append(queue.popleft())
        yield string


def _is_last(cell: Cell, boundaries: Mapping[str, Boundary]) -> bool:
    return cell.way in LAST or (cell.way == ONE_INDEX and task_of(boundaries[cell.boundary]) != "ingest")
