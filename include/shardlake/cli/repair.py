"""`shardlake repair`: committed ranges whose files are missing or damaged, read again from Kinesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from shardlake.cli.by_hand import confirmed, entry_of, reason_option, yes_option
from shardlake.cli.failures import Failure
from shardlake.cli.output import count_text, print_json, progress
from shardlake.cli.setup import Setup, backfill_option, json_option, pass_setup, pipeline_argument
from shardlake.errors import ShardlakeError, most_severe

if TYPE_CHECKING:
    from shardlake.audit_files import Finding
    from shardlake.batch import Steps
    from shardlake.ledger import LedgerRange
    from shardlake.plan import BatchPlan


@click.command("repair", short_help="Read committed ranges again whose files are missing or damaged.")
@pipeline_argument
@click.option("--shard", metavar="ID", help="Only this shard's.")
@backfill_option
@reason_option
@yes_option
@json_option
@pass_setup
def repair_command(
    setup: Setup, name: str, shard: str | None, backfill: str | None, reason: str | None, yes: bool, as_json: bool
) -> None:
    """Find the committed ranges of PIPELINE whose files are missing or damaged, and read them from Kinesis again.

    A file comes back under its own name, and only if it holds what the ledger says was committed. What the stream no
    longer retains cannot be repaired, and is told: restore such a file from a backup.

    Asks first; who, when and why are kept in the ledger: see `shardlake journal`.

    Exit code 3 where a range is no longer retained, 4 where the stream has other records than were committed.

    With --json: an object with pipeline, looked_at, repaired and failed (path, finding, error).
    """
    from shardlake.repair import broken, whose

    steps = setup.mending(name, backfill)
    draft, looked_at, found = whose(steps), 0, list[tuple["LedgerRange", "Finding"]]()
    with progress(f"{name}: reading the committed files") as shown:
        for row, finding in broken(steps, draft, shard):
            looked_at += 1
            shown.tell(f"{name}: {count_text(looked_at, 'file')}, {len(found)} missing or damaged")
            if finding:
                found.append((row, finding))
    if found:
        for _, finding in found:
            click.echo(f"{finding.kind}: {finding.message}", err=True)
        reason = confirmed(f"Read {count_text(len(found), 'range')} from Kinesis again?", reason, yes)
    outcomes = [(finding, _repaired(steps, draft, row, reason or "")) for row, finding in found]
    repaired = [finding.path for finding, exc in outcomes if exc is None]
    failed = [(finding, exc) for finding, exc in outcomes if exc]
    if as_json:
        objects = [{"path": each.path, "finding": each.kind, "error": str(exc)} for each, exc in failed]
        print_json({"pipeline": name, "looked_at": looked_at, "repaired": repaired, "failed": objects})
    else:
        for path in repaired:
            click.echo(f"repaired: {path}")
        for finding, exc in failed:
            click.echo(f"not repaired: {finding.path}: {exc}")
        click.echo(f"{count_text(looked_at, 'file')} looked at, {len(repaired)} repaired, {len(failed)} not")
    if failed:
        worst = most_severe([exc for _, exc in failed])
        raise Failure(f"{count_text(len(failed), 'range')} of {name} could not be repaired: {worst}", worst.exit_code)


def _repaired(steps: Steps, draft: BatchPlan, row: LedgerRange, reason: str) -> ShardlakeError | None:
    """Repair a range; what went wrong, if something did."""
    from shardlake.repair import repair

    try:
        with progress(f"{steps.pipeline.name}: {row.range}"):
            repair(steps, draft, row, entry_of(steps, "repair", row.range, reason))
    except ShardlakeError as exc:
        return exc
    return None
