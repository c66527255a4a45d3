"""Bugs that the product does not have, each of which the simulation has to find."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from simulation import bugs_of_chains as chains
from simulation import bugs_of_files as files
from simulation import bugs_of_reading as reading
from simulation.campaign import campaign

SEEDS = (0, 1, 2)
"""Whose worlds a bug is looked for in, one seed after the other."""

Bug = Callable[[pytest.MonkeyPatch], None]
BUGS: dict[str, tuple[Bug, str]] = {
    "commit without compare": (chains.commit_without_compare, "is committed as|LedgerRange"),
    "pin without compare": (chains.pin_without_compare, "LedgerRange|stray|is followed by"),
    "an open range planned anew": (chains.open_range_planned_anew, "has become|stray files|LedgerRange"),
    "the end moved on take-over": (chains.end_moved_on_take_over, "is stuck|nothing is wrong|is still open"),
    "child before parent": (chains.child_before_parent, "is planned before its parent"),
    "the start resolved again": (chains.start_resolved_again, "is in no range"),
    "a lost range without its rest": (chains.rest_forgotten, "the rest of .* is gone"),
    "a loss without its marker": (chains.loss_without_marker, "losses and their markers"),
    "the report believed": (chains.report_believed, "its file is"),
    "committed unverified": (chains.commit_before_verify, "its file is"),
    "idleness not noted": (chains.idleness_not_noted, "nothing is lost there"),
    "a note trusted for longer than records were kept": (chains.retention_of_now, "was put"),
    "a backfill in the live namespace": (
        chains.backfill_commits_live,
        "moved the live position|is stuck|has become|has no end",
    ),
    "repaired with anything": (chains.repaired_with_anything, r"holds \[.* was put"),
    "rebuilt without its losses": (chains.rebuilt_without_losses, "contradicts itself"),
    "an end within an aggregate": (reading.end_within_an_aggregate, r"holds \[.* was put"),
    "an expired iterator resumed at the last record": (reading.expired_iterator_resumed_at, r"holds \[.* was put"),
    "an expired iterator resumed behind a record": (
        reading.expired_iterator_resumed_behind_a_record,
        r"holds \[.* was put",
    ),
    "the anchor not checked": (reading.anchor_not_checked, r"holds \[.* was put"),
    "loss not looked for": (reading.loss_not_looked_for, r"holds \[.* was put"),
    "trimming under way not looked for": (reading.trimming_not_looked_for, r"holds \[.* was put"),
    "a page read beyond the end": (reading.one_more_than_through, r"holds \[.* was put|nothing is wrong"),
    "a start hours behind the horizon": (reading.horizon_is_no_margin, "is in no range|is not read|is declared lost"),
    "a start one record late": (reading.time_one_second_late, "is in no range|is not read"),
    "publish by rename": (files.rename_over, "is another file now"),
    "a put without its condition": (files.put_unconditionally, "is another file now"),
    "a committed file written again": (files.written_again, "is another file now"),
    "visible before it is whole": (files.visible_before_it_is_whole, "Could not open Parquet|Parquet"),
    "the file not synced": (files.file_not_synced, "is not what it was before the power was lost"),
    "the folder not synced": (files.folder_not_synced, "is committed, and its file is not there"),
    "a quarantine forgotten": (files.quarantine_forgotten, "is not there|without its quarantine"),
    "temporary files left": (files.temporary_files_left, "files are left"),
}
"""Each with what the simulation says of it. Guards that would catch one as well are named where it is seeded."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in the worlds of a seed."""

    seed: int
    said: str


def found(name: str, seeds: tuple[int, ...] = SEEDS) -> Found | None:
    """What the simulation finds of a bug; None: nothing."""
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            BUGS[name][0](patch)
            try:
                campaign(seed)
            except Exception as exc:
                return Found(seed, "".join(traceback.format_exception_only(exc)))
    return None
