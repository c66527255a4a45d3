"""`shardlake files`: the files that count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from shardlake.cli.output import print_json_array
from shardlake.cli.setup import Setup, backfill_option, json_option, pass_setup, pipeline_argument
from shardlake.names import FileKey

if TYPE_CHECKING:
    from shardlake.ledger import LedgerRange


@click.command("files", short_help="List the committed files.")
@pipeline_argument
@backfill_option
@json_option
@pass_setup
def files_command(setup: Setup, name: str, backfill: str | None, as_json: bool) -> None:
    """List the committed files of PIPELINE, one path a line, by shard and in sequence order.

    A file that is published but not committed yet is in the dataset's data/ and not in this list.

    With --json: an array of objects with path, shard_id, rows and bytes.
    """
    steps = setup.looking(name, backfill)
    rows = steps.ledger.ranges(name, steps.namespace, state="committed")
    paths = ((steps.home.url(FileKey.of(row.range).path), row) for row in rows)
    if as_json:
        print_json_array(_object(path, row) for path, row in paths)
        return
    for path, _ in paths:
        click.echo(path)


def _object(path: str, row: LedgerRange) -> dict[str, Any]:
    held = row.contents
    return {
        "path": path,
        "shard_id": row.range.shard_id,
        "rows": held.rows if held else None,
        "bytes": held.bytes if held else None,
    }
