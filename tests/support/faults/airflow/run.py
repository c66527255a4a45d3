"""One run of a lane: recorded, or interrupted and checked."""

from __future__ import annotations

from collections.abc import Sequence

from support.faults.airflow.dag import POLL_S, WITHIN_S
from support.faults.airflow.lane import ONE_AT_ONCE, Lane
from support.faults.airflow.ways import Way
from support.faults.boundaries import Boundary, wait_until


def record(lane: Lane) -> list[Boundary]:
    """Every boundary of a run that nobody interrupts, in order, over all its processes; each name once."""
    lane.site.put(40)
    lane.dag.succeeds(lane.dag.begin())
    lane.site.check()
    return list(lane.tap.told())


def interrupt(lane: Lane, kills: Sequence[tuple[Boundary, Way]]) -> None:
    """One run with its kills: what came of it is checked, and once more after another run.

    Raises:
        AssertionError: something does not hold.
    """
    site = lane.site
    site.put(40)
    for boundary, way in kills:
        way(lane, boundary)
    lane.dag.succeeds(lane.run)
    lane.dag.rest()
    wait_until(lane.is_quiet, WITHIN_S, "Spark does not end", every_s=POLL_S)
    site.check()
    seen = site.published()
    site.put(20)
    site.let_time_pass()
    lane.command()
    site.check()
    with ONE_AT_ONCE:  # all lanes' commands have one folder for temporary files
        site.check_nothing_is_half_written()
    published = site.published()
    assert {path: published.get(path) for path in seen} == seen, "a published file changed"
