"""`shardlake ledger rebuild`: the ledger of a pipeline from what its dataset tells."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from shardlake.cli.by_hand import yes_option
from shardlake.cli.failures import Failure
from shardlake.cli.output import count_text, print_json, progress
from shardlake.cli.setup import Setup, json_option, pass_setup, pipeline_argument
from shardlake.errors import ConflictError

if TYPE_CHECKING:
    from shardlake.ledger.restoring import Told
    from shardlake.rebuild import Rebuilt


@click.group("ledger", short_help="Rebuild a ledger that was lost.")
def ledger_group() -> None:
    """Look after the ledger itself."""


@ledger_group.command("rebuild", short_help="Rebuild a pipeline's ledger from its dataset.")
@pipeline_argument
@click.option("--dry-run", is_flag=True, help="Show what would be restored, and write nothing.")
@yes_option
@json_option
@pass_setup
def rebuild_command(setup: Setup, name: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Restore the ledger of PIPELINE and of its backfills from the files of its dataset, and let it own the dataset.

    For a ledger that is lost, or that was restored from a backup and lacks what came later. End the pipeline's runs
    first. Every published file counts as committed. A gap, a fork, or a file of another pipeline is refused, and so is
    a ledger that has committed what the dataset does not have. The ledger that owned the dataset is refused afterwards.

    The dataset does not tell everything: what it leaves open is listed, with what is made of it. The journal of repairs
    and given-up ranges is gone with the ledger.

    Run `shardlake audit` afterwards: here, footers are believed.

    With --json: an object with pipeline, dry_run, owner (the ledger that owns the dataset), namespaces (namespace,
    shards, committed, lost, open, rows, batches), notes and conflicts.
    """
    from shardlake.batch import Steps
    from shardlake.ledger import open_ledger
    from shardlake.rebuild import rebuilt, restore

    steps = setup.looking(name)
    with progress(f"{name}: reading the footers"):
        found = rebuilt(steps)
    if as_json:
        print_json({"pipeline": name, "dry_run": dry_run, **_object(found)})
    else:
        _print(found)
    if found.conflicts:
        code = ConflictError.exit_code
        raise Failure(f"the ledger of {name} cannot be rebuilt: the dataset contradicts itself", code)
    if dry_run:
        return
    if not yes:
        click.confirm("Restore this, and let the ledger own the dataset?", abort=True, err=True)
    restore(Steps(steps.pipeline, open_ledger(steps.pipeline.ledger_url)), found)
    click.echo("restored; `shardlake audit` compares it with files and stream", err=as_json)


def _print(found: Rebuilt) -> None:
    for told in found.told:
        sums = _sums(told)
        click.echo(
            f"{told.namespace}: {count_text(sums['shards'], 'shard')}, {sums['committed']} ranges committed"
            f" ({count_text(sums['rows'], 'row')}), {sums['lost']} lost, {sums['open']} open;"
            f" {count_text(sums['batches'], 'batch', 'batches')}"
        )
    for note in found.notes:
        click.echo(f"not told: {note}")
    for conflict in found.conflicts:
        click.echo(f"conflict: {conflict}")


def _object(found: Rebuilt) -> dict[str, Any]:
    namespaces = [{"namespace": told.namespace, **_sums(told)} for told in found.told]
    return {"owner": found.owner, "namespaces": namespaces, "notes": found.notes, "conflicts": found.conflicts}


def _sums(told: Told) -> dict[str, int]:
    rows = [row for chain in told.ranges.values() for row in chain]
    states = Counter(row.state for row in rows)
    return {
        "shards": len(told.starts),
        "committed": states["committed"],
        "lost": states["lost"],
        "open": states["planned"],
        "rows": sum(row.contents.rows for row in rows if row.contents),
        "batches": len(told.batches),
    }
