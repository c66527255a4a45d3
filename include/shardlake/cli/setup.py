"""What commands work with: the configured pipeline, its ledger, its steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shardlake.errors import ConfigError
from shardlake.names import LIVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardlake.batch import Steps
    from shardlake.config import Pipeline
    from shardlake.engines import Engine
    from shardlake.ledger import Ledger

pipeline_argument = click.argument("name", metavar="PIPELINE")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else on stdout.")
backfill_option = click.option("--backfill", metavar="ID", help="One of its backfills, instead of the live pipeline.")
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

    def looking(self, name: str, backfill: str | None = None) -> Steps:
        """The steps of a pipeline, or of one of its backfills, for commands that only look.

        A ledger that is not there yet counts as empty.

        Raises:
            ConfigError: the pipeline has no such backfill.
        """
        from shardlake.ledger.existing import ledger_to_look_at

        pipeline = self.pipeline(name)
        return _steps(pipeline, ledger_to_look_at(pipeline.ledger_url), backfill)

    def mending(self, name: str, backfill: str | None) -> Steps:
        """The steps of a pipeline, or of one of its backfills, for commands that change what is there by hand.

        Raises:
            ConfigError: there is no ledger yet.
            ConfigError: the pipeline has no such backfill.
        """
        from shardlake.ledger.existing import existing_ledger

        pipeline = self.pipeline(name)
        ledger = existing_ledger(pipeline.ledger_url)
        if ledger is None:
            raise ConfigError(f"pipeline {name} has no ledger yet: there is nothing to mend")
        return _steps(pipeline, ledger, backfill)

    def working(self, name: str, check: Callable[[Steps], None], namespace: str = LIVE) -> Steps:
        """The steps of a pipeline, or of one of its backfills.

        Args:
            check: finds out, before a ledger is made, that there would be something to keep in it.

        Raises:
            ShardlakeError: it cannot; nothing was written.
        """
        from shardlake.batch import Steps
        from shardlake.ledger import open_ledger
        from shardlake.ledger.existing import existing_ledger
        from shardlake.ledger.memory import MemoryLedger

        pipeline = self.pipeline(name)
        ledger = existing_ledger(pipeline.ledger_url)
        if ledger is None:
            check(Steps(pipeline, MemoryLedger(), namespace=namespace))
            ledger = open_ledger(pipeline.ledger_url)
        return Steps(pipeline, ledger, namespace=namespace)

    def engine(self, pipeline: Pipeline) -> Engine:
        """The engine that a pipeline names."""
        from shardlake.engines.spark_submit import SparkSubmit

        return SparkSubmit(pipeline.engine)


def _steps(pipeline: Pipeline, ledger: Ledger, backfill: str | None) -> Steps:
    """The steps of a pipeline, or of a backfill that it must have."""
    from shardlake.backfilling import opened
    from shardlake.batch import Steps

    if backfill is None:
        return Steps(pipeline, ledger)
    opened(ledger, pipeline.name, backfill)
    return Steps(pipeline, ledger, namespace=backfill)
