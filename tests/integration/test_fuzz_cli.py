"""Whatever is typed: what was asked for, or a usage error, or one clear error; and no control character is echoed.

A longer run: FUZZ_EXAMPLES=10000.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click
import pytest

from shardlake.cli import command_line
from support.command_line import entry_of, write_config
from support.fuzz import EXAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import World

HOSTILE = [
    *("", "\0", "a\0b", "\udcff", "\ud800x", "\x1b[31mred", "\x1b]0;title\x07", "x" * 10_000, "-", "--", "-1", "NaN"),
    *("../../etc", "1" * 200, "é", "a b", "\n", "${HOME}", "%s%n", "1e999", "/", ".", "'; DROP TABLE", "live", "p"),
    *("2026-99-99T00:00:00Z", "9999-12-31T23:59:59-23:59", "shardId-000000000000"),
]
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with what it is called by."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, *path, name)
    else:
        yield path, command


def hostile_arguments(command: click.Command, chance: random.Random) -> Iterator[str]:
    """Arguments of a command, most of which are wrong."""
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            yield chance.choice(["p", "p", "p", chance.choice(HOSTILE)])
        elif chance.random() < 0.5:
            yield parameter.opts[0]
            if not (isinstance(parameter, click.Option) and parameter.is_flag):
                yield chance.choice(HOSTILE)


@pytest.mark.parametrize("name", [" ".join(path) for path, _ in commands(command_line)])
def test_arguments_that_are_hostile(make_world: Callable[..., World], tmp_path: Path, name: str) -> None:
    world = make_world(1)
    world.put(b"record")
    shardlake = write_config(tmp_path / "pipelines.yaml", p=entry_of(world))
    assert shardlake("run", "p").exit_code == 0
    (path, command), chance = (
        next(each for each in commands(command_line) if " ".join(each[0]) == name),
        random.Random(name),
    )
    outside = sorted(tmp_path.iterdir())
    for _ in range(EXAMPLES // 8):
        arguments = list(hostile_arguments(command, chance))
        result = shardlake(*path, *arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
        assert result.exit_code in (0, 1, 2, 3, 4), (arguments, result.output)
        assert "run again with: shardlake --debug" not in result.stderr, (arguments, result.stderr)
        assert not CONTROL.search(result.stdout + result.stderr), arguments
    assert sorted(tmp_path.iterdir()) == outside


@pytest.mark.parametrize("argument", ["\x1b[31m", "\0", "a\x07", "\udcff"])
def test_an_argument_that_is_no_text_is_a_usage_error(tmp_path: Path, argument: str) -> None:
    result = write_config(tmp_path / "pipelines.yaml")("run", argument)
    assert result.exit_code == 2
    assert f"Error: an argument holds a control character, or is not UTF-8: {argument!r}\n" in result.stderr
