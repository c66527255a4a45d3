"""What commands work with: the configured pipeline, its ledger, its steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shardlake.errors import ConfigError

if TYPE_CHECKING:
    from shardlake.batch import Steps
    from shardlake.config import Pipeline
    from shardlake.engines import Engine

pipeline_argument = click.argument("name", metavar="PIPELINE")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else on stdout.")
pass_setup = click.pass_obj


@dataclass(frozen=True, slots=True)
class Setup:
    """The global options of a command.

    Attributes:
        config: the configuration file that was named, if any.
    """

    config: Path | None

    def pipeline(self, name: str) -> Pipeline:
        """A pipeline by its name.

        Raises:
            ConfigError: it is not there, or wrong, or its ledger is known to Airflow only.
        """
        from shardlake.config import config_file, load_pipeline

        pipeline = load_pipeline(config_file(self.config), name)
        if pipeline.ledger_url.startswith("airflow://"):
            raise ConfigError(
                f"pipeline {name}, key ledger: {pipeline.ledger_url} is known to Airflow's tasks only",
                todo="Write ledger: ${SHARDLAKE_LEDGER}, with the ledger's own URL in the environment of this command",
            )
        return pipeline

    def looking(self, name: str) -> Steps:
        """The steps of a pipeline for commands that only look: a ledger that is not there yet counts as empty."""
        from shardlake.batch import Steps
        from shardlake.ledger.existing import ledger_to_look_at

        pipeline = self.pipeline(name)
        return Steps(pipeline, ledger_to_look_at(pipeline.ledger_url))

    def working(self, name: str) -> Steps:
        """The steps of a pipeline; its ledger is made if a first batch can be planned and written.

        Raises:
            ShardlakeError: it cannot; nothing was written.
        """
        from shardlake.batch import Steps
        from shardlake.ledger import open_ledger
        from shardlake.ledger.existing import existing_ledger
        from shardlake.ledger.memory import MemoryLedger
        from shardlake.preview import check

        pipeline = self.pipeline(name)
        ledger = existing_ledger(pipeline.ledger_url)
        if ledger is None:
            check(Steps(pipeline, MemoryLedger()))
            ledger = open_ledger(pipeline.ledger_url)
        return Steps(pipeline, ledger)

    def engine(self, pipeline: Pipeline) -> Engine:
        """The engine that a pipeline names."""
        from shardlake.engines.spark_submit import SparkSubmit

        return SparkSubmit(pipeline.engine)
