"""`shardlake backfills`: which there are, by whose names one goes on with them or looks into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from shardlake.cli.output import print_json_array, print_table
from shardlake.cli.setup import Setup, json_option, pass_setup, pipeline_argument

if TYPE_CHECKING:
    from shardlake.ledger import Ledger


@click.command("backfills", short_help="List the backfills of a pipeline.")
@pipeline_argument
@json_option
@pass_setup
def backfills_command(setup: Setup, name: str, as_json: bool) -> None:
    """List the backfills of PIPELINE, the first opened first: what was asked for, and how far they have come.

    An id is what `backfill --id`, and --backfill of other commands, take.

    With --json: an array of objects with backfill, from, to, shards, read_fraction, retained_only, ranges and rows
    (committed), lost (ranges) and left (ids of the shards that are not read to their end).
    """
    ledger = setup.looking(name).ledger
    found = [_object(ledger, name, namespace, text) for namespace, text in ledger.backfills(name).items()]
    if as_json:
        print_json_array(found)
    elif found:
        numbers = ["ranges", "rows", "lost"]
        print_table(["backfill", "from", "to", "shards", *numbers, "left"], map(_row, found), right=numbers)
    else:
        click.echo(f"pipeline {name} has no backfill")


def _object(ledger: Ledger, pipeline: str, namespace: str, text: str) -> dict[str, Any]:
    from shardlake.backfill import Backfill

    backfill = Backfill.from_text(text)
    chains = ledger.chains(pipeline, namespace)
    left = backfill.left({shard_id: chain.position for shard_id, chain in chains.items()})
    committed = [row.contents.rows for row in ledger.ranges(pipeline, namespace, state="committed") if row.contents]
    return {
        "backfill": namespace,
        **backfill.request.model_dump(mode="json", by_alias=True),
        "ranges": len(committed),
        "rows": sum(committed),
        "lost": sum(1 for _ in ledger.ranges(pipeline, namespace, state="lost")),
        "left": [stretch.shard_id for stretch in left.stretches],
    }


def _row(found: dict[str, Any]) -> list[str]:
    left = f"{len(found['left'])} shards" if len(found["left"]) > 1 else "".join(found["left"]) or "nothing"
    counts = [f"{found[name]:,}" for name in ("ranges", "rows", "lost")]
    bounds = [found["from"] or "oldest", found["to"] or "newest", ", ".join(found["shards"]) or "all"]
    return [found["backfill"], *bounds, *counts, left]
