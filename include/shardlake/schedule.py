"""When a pipeline runs: durations like `15m`, cron expressions, presets like `@hourly`."""

from __future__ import annotations

import re
from datetime import timedelta

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly", "@once", "@continuous")
"""What Airflow knows by name."""

LONGEST = timedelta(days=365)
"""The longest duration: a stream retains records for 8,760 h at most."""

_DURATION = re.compile(r"([0-9]{1,9})\s*([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_CRON_FIELDS: tuple[tuple[int, int, list[str]], ...] = (
    (0, 59, []),
    (0, 23, []),
    (1, 31, []),
    (1, 12, ["", *_MONTHS]),
    (0, 7, _DAYS),
    (0, 59, []),
)
"""Lowest and highest number and the names, of minute, hour, day, month, weekday and (optional) second."""

_CRON_PART = re.compile(r"(?:\*|(?P<first>[a-z0-9]+)(?:-(?P<last>[a-z0-9]+))?)(?:/(?P<step>[0-9]{1,4}))?")


def parse_duration(value: object) -> timedelta:
    """A duration from its text, a whole number with a unit.

    Raises:
        ValueError: it is no such text, or not more than zero and at most `LONGEST`.
    """
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    duration = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match and int(match[1]) < 10**8 else None
    if not duration or duration > LONGEST:
        raise ValueError(f"not a duration: {value!r}")
    return duration


def parse_schedule(value: object) -> timedelta | str | None:
    """A schedule: None, a duration, a preset or a cron expression of 5 fields, or 6 with seconds.

    Raises:
        ValueError: it is none of these.
    """
    if value is None or (isinstance(value, str) and (value in PRESETS or _is_cron(value))):
        return value
    return parse_duration(value)


def _is_cron(text: str) -> bool:
    fields = text.lower().split()
    return len(fields) in (5, 6) and all(
        all(_fits(part, *bounds) for part in field.split(","))
        for field, bounds in zip(fields, _CRON_FIELDS, strict=False)
    )


def _fits(part: str, lowest: int, highest: int, names: list[str]) -> bool:
    match = _CRON_PART.fullmatch(part)
    if not match or (match["step"] and int(match["step"]) == 0):
        return False
    ends = [end for end in (match["first"], match["last"]) if end]
    return all(lowest <= _number(end, names) <= highest for end in ends)


def _number(text: str, names: list[str]) -> int:
    """A number, or what a name stands for; -1 for neither."""
    if text in names:
        return names.index(text)
    return int(text) if text.isdecimal() and len(text) <= 2 else -1
