"""`shardlake ranges`: the chains of the ledger, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from shardlake.cli.output import print_json_array
from shardlake.cli.setup import Setup, backfill_option, json_option, pass_setup, pipeline_argument

if TYPE_CHECKING:
    from shardlake.ledger import LedgerRange, State

_LINE = "{:<20}  {:<9}  {:>12}  {:>14}  {:<62}  {}"


@click.command("ranges", short_help="List the ranges of the ledger.")
@pipeline_argument
@click.option("--shard", metavar="ID", help="Only this shard's.")
@click.option("--state", type=click.Choice(["planned", "committed", "lost"]), help="Only those in this state.")
@backfill_option
@json_option
@pass_setup
def ranges_command(
    setup: Setup, name: str, shard: str | None, state: State | None, backfill: str | None, as_json: bool
) -> None:
    """List the ranges of PIPELINE by shard, in sequence order.

    With --json: an array of objects with shard_id, state, start, through, batch_id, rows, bytes, checksum and
    closed_at_ms (null unless committed; closed_at_ms also where lost).
    """
    steps = setup.looking(name, backfill)
    rows = steps.ledger.ranges(name, steps.namespace, shard, state)
    if as_json:
        print_json_array(map(_object, rows))
        return
    click.echo(_LINE.format("shard", "state", "rows", "bytes", "start", "through"))
    for row in rows:
        counts = (f"{row.contents.rows:,}", f"{row.contents.bytes:,}") if row.contents else ("-", "-")
        range_ = row.range
        click.echo(_LINE.format(range_.shard_id, row.state, *counts, str(range_.start), range_.through))


def _object(row: LedgerRange) -> dict[str, Any]:
    held = row.contents
    return {
        "shard_id": row.range.shard_id,
        "state": row.state,
        "start": str(row.range.start),
        "through": str(row.range.through),
        "batch_id": row.batch_id,
        "rows": held.rows if held else None,
        "bytes": held.bytes if held else None,
        "checksum": held.checksum if held else None,
        "closed_at_ms": row.closed_at_ms,
    }
