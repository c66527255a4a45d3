"""`shardlake journal`: what people did to ranges by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from shardlake.cli.output import print_json_array
from shardlake.cli.setup import Setup, json_option, pass_setup, pipeline_argument

if TYPE_CHECKING:
    from shardlake.ledger import JournalEntry


@click.command("journal", short_help="List what people did to ranges by hand.")
@pipeline_argument
@json_option
@pass_setup
def journal_command(setup: Setup, name: str, as_json: bool) -> None:
    """List repairs and given-up ranges of PIPELINE and its backfills, the oldest first, with who, when and why.

    With --json: an array of objects with at, who, action, namespace, shard_id, start, through and reason.
    """
    entries = map(_object, setup.looking(name).ledger.journal(name))
    if as_json:
        print_json_array(entries)
        return
    for entry in entries:
        click.echo("{at}  {who}  {action}  {namespace}  {shard_id} {start} through {through}: {reason}".format(**entry))


def _object(entry: JournalEntry) -> dict[str, Any]:
    return {
        "at": datetime.fromtimestamp(entry.at_ms / 1000, tz=UTC).isoformat(timespec="milliseconds"),
        "who": entry.who,
        "action": entry.action,
        "namespace": entry.namespace,
        "shard_id": entry.range.shard_id,
        "start": str(entry.range.start),
        "through": str(entry.range.through),
        "reason": entry.reason,
    }
