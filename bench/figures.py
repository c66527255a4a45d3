"""A figure that was taken, the goal that it has, and whether it is reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should be, against a bound."""

    kind: Literal["at most", "at least", "above"]
    bound: float

    def reached(self, value: float) -> bool:
        """Whether a value is on the right side; the bound itself is, but for `above`."""
        if self.kind == "at most":
            return value <= self.bound
        return value >= self.bound if self.kind == "at least" else value > self.bound

    def __str__(self) -> str:
        return {"at most": "≤", "at least": "≥", "above": ">"}[self.kind] + f" {number_text(self.bound)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    Attributes:
        section: the number of the goal in issue 6.
        what: what was measured.
        unit: of the values.
        taken: the values, one a repetition; none where it could not be measured.
        how: how it was taken, or why it could not be.
        goal: None: shown for what stands beside it.
        at: where it stands in a picture: the number of shards, or a range's size in MiB.
    """

    section: int
    what: str
    unit: str
    taken: tuple[float, ...]
    how: str
    goal: Goal | None = None
    at: float | None = None

    @property
    def value(self) -> float | None:
        """The median of what was taken."""
        return median(self.taken) if self.taken else None

    @property
    def verdict(self) -> Literal["reached", "missed", "not measured", ""]:
        """Whether the goal is reached; empty where there is none."""
        if self.value is None:
            return "not measured"
        if self.goal is None:
            return ""
        return "reached" if self.goal.reached(self.value) else "missed"

    def to_json(self) -> dict[str, Any]:
        """What the results file says of it."""
        goal = self.goal and str(self.goal)
        return {**asdict(self), "goal": goal, "value": self.value, "verdict": self.verdict}


def not_measured(section: int, what: str, reason: str) -> Figure:
    """The row of what could not be measured."""
    return Figure(section, what, "", (), reason)


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, ...]:
    """The ratio of two medians, as the one value of a figure; none where one of them is missing."""
    return (median(ours) / median(theirs),) if ours and theirs else ()


def number_text(value: float) -> str:
    """A number with as many digits as tell something."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
