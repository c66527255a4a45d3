"""The command line: each command a thin module over the core.

Modules here import what is heavy (pyarrow, boto3, SQLAlchemy) only while a command runs, so that `--help` is quick.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType

import click

import shardlake
from shardlake.cli.abandon import abandon_command
from shardlake.cli.audit import audit_command
from shardlake.cli.backfill import backfill_command
from shardlake.cli.backfills import backfills_command
from shardlake.cli.deregister import deregister_command
from shardlake.cli.failures import TellingGroup
from shardlake.cli.files import files_command
from shardlake.cli.journal import journal_command
from shardlake.cli.plan import plan_command
from shardlake.cli.ranges import ranges_command
from shardlake.cli.rebuild import ledger_group
from shardlake.cli.repair import repair_command
from shardlake.cli.run import run_command
from shardlake.cli.setup import Setup
from shardlake.cli.status import status_command

__all__ = ["command_line", "main"]


@click.group(
    "shardlake",
    cls=TellingGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Exit codes: 0 fine, 2 usage or configuration, 3 data loss, 4 conflict (ledger, dataset and stream contradict each
other), 1 anything else.""",
)
@click.version_option(shardlake.__version__, prog_name="shardlake")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The pipelines.  [default: $SHARDLAKE_CONFIG, else include/pipelines.yaml]",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def command_line(context: click.Context, config: Path | None, debug: bool) -> None:
    """Amazon Kinesis streams to Parquet, each record once.

    AWS credentials come from the default chain (environment, profile, role): `aws_conn_id` and ledgers named
    airflow://<connection id> are known to Airflow's tasks only.
    """
    context.obj = Setup(config)


for command in (
    *(run_command, backfill_command, plan_command, status_command, ranges_command, files_command, audit_command),
    *(backfills_command, repair_command, abandon_command, journal_command, deregister_command, ledger_group),
):
    command_line.add_command(command)


def main() -> None:
    """The entry point."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    command_line(prog_name="shardlake")


def _leave(number: int, _frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that Spark is ended too."""
    sys.exit(128 + number)
