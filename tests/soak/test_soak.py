"""Two minutes of what `make soak` does for an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.soak import MOST_GROWTH, soak

pytestmark = pytest.mark.slow

SECONDS = 120


def test_memory_and_open_files_are_flat_and_every_record_is_there_once(tmp_path: Path) -> None:
    """Kills: clients, connections or files that are kept batch after batch; a record lost between kill and fault."""
    figures = soak(SECONDS, tmp_path, seed=5)
    print(figures)
    assert min(figures.batches, figures.faults) > 20
    assert min(figures.reshards, figures.restarts) > 4
    assert figures.days > 1.5  # the oldest are trimmed
    for usage in figures.usages:
        usage.check_flat(MOST_GROWTH)
