"""`shardlake deregister`: the consumer of a pipeline is removed by hand, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from shardlake.kinesis.consumers import TAG
from support.command_line import CommandLine, entry_of, write_config

if TYPE_CHECKING:
    from tests.integration.conftest import World


@pytest.fixture
def shardlake(world: World) -> CommandLine:
    return write_config(world.root.parent / "pipelines.yaml", p=entry_of(world))


@pytest.fixture
def consumers(world: World) -> Callable[[], dict[str, str]]:
    """The consumers of the stream, name and ARN: one of the pipeline, and two that are not."""
    arn = world.kinesis.describe()[0].arn
    for name, tags in {"lake": {TAG: "p"}, "other": {TAG: "q"}, "foreign": {"team": "p"}}.items():
        world.kinesis.register_consumer(arn, name, tags)
    return lambda: {name: each.arn for name, each in world.kinesis.consumers(arn).items()}


def test_the_pipelines_own_is_removed(shardlake: CommandLine, consumers: Callable[[], dict[str, str]]) -> None:
    arn = consumers()["lake"]
    assert shardlake.json("deregister", "p", "lake", "--yes") == {
        "pipeline": "p",
        "consumer": "lake",
        "consumer_arn": arn,
    }
    assert list(consumers()) == ["other", "foreign"]


def test_it_says_what_it_did(shardlake: CommandLine, consumers: Callable[[], dict[str, str]]) -> None:
    arn = consumers()["lake"]
    assert shardlake.lines("deregister", "p", "lake", "--yes") == [f"deregistered {arn}"]


@pytest.mark.parametrize(
    ("consumer", "exit_code", "said"),
    [
        ("other", 4, "expected its tag shardlake-pipeline to say p, found q."),
        ("foreign", 4, "expected its tag shardlake-pipeline to say p, found no such tag."),
        ("none", 2, "has no consumer none"),
    ],
)
def test_another_is_not_touched(
    shardlake: CommandLine, consumers: Callable[[], dict[str, str]], consumer: str, exit_code: int, said: str
) -> None:
    before = consumers()
    result = shardlake("deregister", "p", consumer, "--yes")
    assert result.exit_code == exit_code
    assert said in result.stderr
    assert consumers() == before


def test_it_asks_first(shardlake: CommandLine, consumers: Callable[[], dict[str, str]]) -> None:
    before = consumers()
    result = shardlake("deregister", "p", "lake")
    assert result.exit_code == 1
    assert f"Deregister {before['lake']}?" in result.stderr
    assert consumers() == before
