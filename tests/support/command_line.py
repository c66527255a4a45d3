"""The command line in this process, on a configuration file of its own, with an engine that needs no Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from click.testing import CliRunner, Result

from shardlake.cli import command_line
from shardlake.cli.setup import Setup
from shardlake.engines import Engine
from support.inline_engine import InlineEngine


@dataclass(frozen=True)
class CommandLine:
    """`shardlake --config FILE …`."""

    config: Path

    def __call__(self, *arguments: str, engine: Engine | None = None) -> Result:
        """Run a command; what it printed, and its exit code."""
        with patch.object(Setup, "engine", lambda setup, pipeline: engine or InlineEngine()):
            return CliRunner().invoke(command_line, ["--config", str(self.config), *arguments])

    def lines(self, *arguments: str) -> list[str]:
        """The lines on stdout of a command that ends well and says nothing on stderr."""
        result = self(*arguments)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout.splitlines()

    def json(self, *arguments: str, exit_code: int = 0) -> Any:
        """The one JSON document on stdout."""
        result = self(*arguments, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)


def write_config(file: Path, **pipelines: dict[str, Any]) -> CommandLine:
    """A configuration file with these entries, and the command line on it."""
    file.write_text(yaml.safe_dump({"pipelines": pipelines}), encoding="utf-8")
    return CommandLine(file)


def entry_of(world: Any, **more: Any) -> dict[str, Any]:
    """The entry of a pipeline that reads a test's stream; its ledger is a SQLite file beside the dataset."""
    world.root.mkdir(exist_ok=True)
    return {
        "stream": world.stream,
        "region": "us-east-1",
        "endpoint_url": world.server.endpoint_url,
        **world.place,
        "ledger": f"sqlite:///{world.root}/ledger.db",
        **more,
    }
