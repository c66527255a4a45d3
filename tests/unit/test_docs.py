"""What the documents name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs/kinesis.md").read_text(encoding="utf-8"))))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_table_of_behaviours_names_is_there(file: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")
