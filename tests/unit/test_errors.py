"""The error tree: what each says, whether trying again can help, and the exit code."""

from __future__ import annotations

import pickle
import re

import pytest

from shardlake import errors
from shardlake.errors import (
    ConfigError,
    ConflictError,
    DataLossError,
    IngestError,
    ShardlakeError,
    UnavailableError,
    most_severe,
)


@pytest.mark.parametrize(
    ("error", "exit_code", "terminal"),
    [
        (ShardlakeError, 1, False),
        (ConfigError, 2, True),
        (DataLossError, 3, True),
        (ConflictError, 4, True),
        (IngestError, 1, False),
        (UnavailableError, 1, False),
    ],
)
def test_exit_code_and_whether_to_try_again(error: type[ShardlakeError], exit_code: int, terminal: bool) -> None:
    assert (error.exit_code, error.terminal) == (exit_code, terminal)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigError("it is wrong"), "it is wrong"),
        (ConfigError("it is wrong", todo="Mend it"), "it is wrong. Mend it"),
        (ConfigError("it is wrong", expected=1, found=0), "it is wrong: expected 1, found 0"),
        (ConfigError("it is wrong", found="", todo="Mend it."), "it is wrong: found . Mend it"),
    ],
)
def test_the_message_has_what_was_expected_what_was_found_and_what_to_do(error: ShardlakeError, said: str) -> None:
    assert str(error) == said


def test_the_fields_are_kept() -> None:
    error = ConflictError("two files", expected="one", found="two", todo="Look")
    assert (error.what, error.expected, error.found, error.todo) == ("two files", "one", "two", "Look")


def test_the_drawing_of_the_tree_is_the_tree() -> None:
    lines = re.findall(r"^    ([│├└─ ]*)(\w+Error)", errors.__doc__ or "", re.MULTILINE)
    drawn = {name: len(indent) // 4 for indent, name in lines}
    defined = {
        name: len(value.__mro__) - len(ShardlakeError.__mro__)
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, ShardlakeError)
    }
    assert drawn == defined


def test_errors_cross_processes_with_their_message() -> None:
    error = pickle.loads(pickle.dumps(DataLossError("gone", expected=1, found=2, todo="Go on")))  # noqa: S301 (our own)
    assert (type(error), str(error)) == (DataLossError, "gone: expected 1, found 2. Go on")


def test_a_terminal_error_is_more_severe_than_an_earlier_passing_one() -> None:
    unavailable, loss, conflict = UnavailableError("later"), DataLossError("gone"), ConflictError("two")
    assert most_severe([unavailable, loss, conflict]) is loss
    assert most_severe([unavailable]) is unavailable
