"""`shardlake abandon`: give up an open range with its files."""

from __future__ import annotations

import click

from shardlake.cli.by_hand import confirmed, entry_of, reason_option, yes_option
from shardlake.cli.output import count_text, print_json
from shardlake.cli.setup import Setup, backfill_option, json_option, pass_setup, pipeline_argument


@click.command("abandon", short_help="Give up an open range with its files; its records are planned anew.")
@pipeline_argument
@click.option("--shard", metavar="ID", required=True, help="The shard.")
@backfill_option
@reason_option
@yes_option
@json_option
@pass_setup
def abandon_command(
    setup: Setup, name: str, shard: str, backfill: str | None, reason: str | None, yes: bool, as_json: bool
) -> None:
    """Give up the open range of a shard of PIPELINE, with the files that were published for it.

    For a range that cannot be finished as it was planned. No record is lost: the position stays, and the next batch
    plans from there. End the pipeline's runs first; a run that goes on with the old range ends in a conflict.

    Asks first; who, when and why are kept in the ledger: see `shardlake journal`.

    With --json: an object with pipeline, shard_id, start, through and removed (the files).
    """
    from shardlake.abandon import abandon, files_of, open_range

    steps = setup.mending(name, backfill)
    range_ = open_range(steps, shard)
    files = files_of(steps, range_)
    click.echo(f"open: {range_}", err=True)
    for file in files:
        click.echo(f"to be removed: {steps.home.url(file)}", err=True)
    reason = confirmed(f"Give up this range and {count_text(len(files), 'file')}?", reason, yes)
    abandon(steps, range_, entry_of(steps, "abandon", range_, reason))
    if as_json:
        bounds = {"shard_id": shard, "start": str(range_.start), "through": str(range_.through)}
        print_json({"pipeline": name, **bounds, "removed": files})
    else:
        click.echo(f"given up; the next batch begins {range_.start} again")
