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
"""Whose worlds a bug is looked for in when its own do not show it."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """A bug that is to be seeded.

    Attributes:
        bug: puts it into the product.
        said: what the simulation says of it, as a regular expression.
        seed: in whose worlds it is looked for first; any will do, some show it sooner.
    """

    bug: Callable[[pytest.MonkeyPatch], None]
    said: str
    seed: int = 0


BUGS: dict[str, Seeded] = {
    "commit without compare": Seeded(chains.commit_without_compare, "is committed as|LedgerRange", seed=3),
    "pin without compare": Seeded(chains.pin_without_compare, "LedgerRange|stray|is followed by"),
    "an open range planned anew": Seeded(chains.open_range_planned_anew, "has become|stray files|LedgerRange"),
    "the end moved on take-over": Seeded(chains.end_moved_on_take_over, "is stuck|nothing is wrong|is still open"),
    "child before parent": Seeded(chains.child_before_parent, "is planned before its parent"),
    "the start resolved again": Seeded(chains.start_resolved_again, "is in no range", seed=2),
    "a lost range without its rest": Seeded(chains.rest_forgotten, "the rest of .* is gone", seed=3),
    "a loss without its marker": Seeded(chains.loss_without_marker, "losses and their markers", seed=1),
    "the report believed": Seeded(chains.report_believed, "its file is"),
    "committed unverified": Seeded(chains.commit_before_verify, "its file is"),
    "idleness not noted": Seeded(chains.idleness_not_noted, "nothing is lost there", seed=6),
    "a note trusted for longer than records were kept": Seeded(chains.retention_of_now, "was put"),
    "a backfill in the live namespace": Seeded(
        chains.backfill_commits_live, "moved the live position|is stuck|has become|has no end", seed=2
    ),
    "repaired with anything": Seeded(chains.repaired_with_anything, r"holds \[.* was put"),
    "rebuilt without its losses": Seeded(chains.rebuilt_without_losses, "contradicts itself", seed=2),
    "an end within an aggregate": Seeded(reading.end_within_an_aggregate, r"holds \[.* was put"),
    "an expired iterator resumed at the last record": Seeded(
        reading.expired_iterator_resumed_at, r"holds \[.* was put|is not there", seed=2
    ),
    "an expired iterator resumed behind a record": Seeded(
        reading.expired_iterator_resumed_behind_a_record, r"holds \[.* was put|is not there", seed=3
    ),
    "the anchor not checked": Seeded(reading.anchor_not_checked, r"holds \[.* was put|is not there", seed=2),
    "loss not looked for": Seeded(reading.loss_not_looked_for, r"holds \[.* was put"),
    "trimming under way not looked for": Seeded(
        reading.trimming_not_looked_for, r"holds \[.* was put|is not there", seed=3
    ),
    "a page read beyond the end": Seeded(reading.one_more_than_through, r"holds \[.* was put|nothing is wrong"),
    "a start hours behind the horizon": Seeded(
        reading.horizon_is_no_margin, "is in no range|is not read|is declared lost", seed=3
    ),
    "a start one record late": Seeded(reading.time_one_second_late, "is in no range|is not read"),
    "publish by rename": Seeded(files.rename_over, "is another file now", seed=1),
    "a put without its condition": Seeded(files.put_unconditionally, "is another file now", seed=1),
    "a committed file written again": Seeded(files.written_again, "is another file now"),
    "visible before it is whole": Seeded(files.visible_before_it_is_whole, "Could not open Parquet|Parquet"),
    "the file not synced": Seeded(files.file_not_synced, "is not what it was before the power was lost", seed=1),
    "the folder not synced": Seeded(files.folder_not_synced, "is committed, and its file is not there", seed=1),
    "a quarantine forgotten": Seeded(files.quarantine_forgotten, "is not there|without its quarantine"),
    "temporary files left": Seeded(files.temporary_files_left, "files are left"),
}
"""By what is wrong. Guards that would catch one as well are named where it is seeded."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in the worlds of a seed."""

    seed: int
    said: str


def found(name: str) -> Found | None:
    """What the simulation finds of a bug; None: nothing."""
    for seed in dict.fromkeys((BUGS[name].seed, *SEEDS)):
        with pytest.MonkeyPatch.context() as patch:
            BUGS[name].bug(patch)
            try:
                campaign(seed)
            except Exception as exc:
                return Found(seed, "".join(traceback.format_exception_only(exc)))
    return None
