"""A request's JSON members, read with the checks and the words of the API's model."""

import json
import re
from typing import Any

from local_kinesis.errors import SerializationException, ValidationException

STREAM_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
HASH_KEY = re.compile(r"0|[1-9][0-9]{0,38}")


class Arguments:
    """The members of a request's body.

    Every getter raises SerializationException on a wrong JSON type and ValidationException on a broken constraint.
    A member that is null counts as left out.
    """

    __slots__ = ("_members",)

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members

    @classmethod
    def parse(cls, body: bytes) -> "Arguments":
        """Reads a body; an empty one has no members."""
        try:
            members = json.loads(body) if body else {}
        except ValueError as exc:
            raise SerializationException(f"the body is not JSON: {exc}") from exc
        if not isinstance(members, dict):
            raise SerializationException("Start of structure or map found where not expected.")
        return cls(members)

    def names(self) -> set[str]:
        """The members that are there."""
        return {name for name, value in self._members.items() if value is not None}

    def optional_text(self, name: str, pattern: re.Pattern[str] | None = None) -> str | None:
        """A string, or None."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise SerializationException(f"{name} must be a string")
        if pattern is not None and not pattern.fullmatch(value):
            raise _invalid(name, value, f"Member must satisfy regular expression pattern: {pattern.pattern}")
        return value

    def text(self, name: str, pattern: re.Pattern[str] | None = None) -> str:
        """A string that must be there."""
        value = self.optional_text(name, pattern)
        if value is None:
            raise _invalid(name, None, "Member must not be null")
        return value

    def choice(self, name: str, *allowed: str) -> str:
        """One of some words."""
        value = self.text(name)
        if value not in allowed:
            raise _invalid(name, value, f"Member must satisfy enum value set: [{', '.join(allowed)}]")
        return value

    def optional_integer(self, name: str, low: int, high: int) -> int | None:
        """An integer within bounds, or None."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise SerializationException(f"{name} must be an integer")
        if value < low:
            raise _invalid(name, value, f"Member must have value greater than or equal to {low}")
        if value > high:
            raise _invalid(name, value, f"Member must have value less than or equal to {high}")
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer within bounds that must be there."""
        value = self.optional_integer(name, low, high)
        if value is None:
            raise _invalid(name, None, "Member must not be null")
        return value

    def optional_time_ms(self, name: str) -> float | None:
        """A time, given in seconds since the epoch, in milliseconds; or None."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise SerializationException(f"{name} must be a number of seconds since the epoch")
        # A float of seconds is off by less than a microsecond, which must not move it over a millisecond's edge.
        return round(value * 1000, 3)

    def optional_structure(self, name: str) -> "Arguments | None":
        """A JSON object, or None."""
        value = self._members.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise SerializationException(f"{name} must be an object")
        return Arguments(value)

    def structures(self, name: str, low: int, high: int) -> list[dict[str, Any]]:
        """A list of JSON objects of a length within bounds."""
        value = self._members.get(name)
        if not isinstance(value, list):
            raise _invalid(name, None, "Member must not be null") if value is None else SerializationException(name)
        if not low <= len(value) <= high:
            bound = f"less than or equal to {high}" if value else f"greater than or equal to {low}"
            raise _invalid(name, f"[{len(value)} members]", f"Member must have length {bound}")
        if not all(isinstance(each, dict) for each in value):
            raise SerializationException(f"{name} must hold objects")
        return value


def _invalid(name: str, value: object, constraint: str) -> ValidationException:
    found = "null" if value is None else f"'{value}'"
    member = name[0].lower() + name[1:]
    return ValidationException(
        f"1 validation error detected: Value {found} at '{member}' failed to satisfy constraint: {constraint}"
    )
