"""`shardlake plan --dry-run`: what the next batch would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from shardlake.cli.failures import Failure
from shardlake.cli.output import print_json, print_table, progress
from shardlake.cli.setup import Setup, json_option, pass_setup, pipeline_argument
from shardlake.errors import DataLossError

if TYPE_CHECKING:
    from shardlake.preview import Preview


@click.command("plan", short_help="Show what the next batch would be (--dry-run).")
@pipeline_argument
@click.option("--dry-run", is_flag=True, help="Required: planning for good is the first step of `run`.")
@json_option
@pass_setup
def plan_command(setup: Setup, name: str, dry_run: bool, as_json: bool) -> None:
    """Show which ranges a batch of PIPELINE would hold if it were planned now.

    Nothing is pinned and nothing written, neither to the ledger nor to the dataset. A plan by itself would help
    nobody, so only --dry-run is there: `shardlake run` plans, ingests, verifies and commits in one go.

    Exit code 3 where records are lost and on_data_loss is fail.

    With --json: an object with pipeline, behind, ranges (shard_id, start, through, open) and losses.
    """
    if not dry_run:
        raise click.UsageError(f"add --dry-run to look, or use `shardlake run {name}` to plan and ingest a batch")
    from shardlake.preview import preview

    steps = setup.looking(name)
    with progress(f"{name}: looking at every shard"):
        seen = preview(steps)
    if as_json:
        print_json({"pipeline": name, "behind": seen.behind, "ranges": _objects(seen), "losses": list(seen.losses)})
    else:
        _print(seen, steps.pipeline.on_data_loss)
    if seen.losses and steps.pipeline.on_data_loss == "fail":
        raise Failure(f"a batch planned now would fail: {seen.losses[0]}", DataLossError.exit_code)


def _objects(seen: Preview) -> list[dict[str, object]]:
    return [
        {
            "shard_id": range_.shard_id,
            "start": str(range_.start),
            "through": str(range_.through),
            "open": range_ in seen.open_ranges,
        }
        for range_ in seen.ranges
    ]


def _print(seen: Preview, on_data_loss: str) -> None:
    if seen.ranges:
        rows = [
            [range_.shard_id, str(range_.start), str(range_.through), "open" if range_ in seen.open_ranges else "new"]
            for range_ in seen.ranges
        ]
        print_table(["shard", "start", "through", "range"], rows)
    else:
        click.echo("nothing to read")
    click.echo(
        "records would be left behind it"
        if seen.behind
        else "it would catch up with the stream, but for its last minute at most"
    )
    if on_data_loss == "skip":
        for loss in seen.losses:
            click.echo(f"would be recorded as lost: {loss}")
