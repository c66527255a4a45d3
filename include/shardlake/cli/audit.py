"""`shardlake audit`: ledger, files and stream compared, row by row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import click

from shardlake.cli.failures import Failure
from shardlake.cli.output import count_text, print_json, progress, size_text
from shardlake.cli.setup import Setup, backfill_option, json_option, pass_setup, pipeline_argument
from shardlake.errors import ConflictError, DataLossError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shardlake.audit_files import Finding
    from shardlake.auditing import Audited


@dataclass(slots=True)
class _Sums:
    ranges: int = 0
    rows: int = 0
    bytes: int = 0
    not_retained: int = 0
    lost: int = 0
    findings: list[Finding] = field(default_factory=list)


@click.command("audit", short_help="Compare ledger, files and stream.")
@pipeline_argument
@backfill_option
@json_option
@pass_setup
def audit_command(setup: Setup, name: str, backfill: str | None, as_json: bool) -> None:
    """Read every committed range of PIPELINE again, from its file and from Kinesis.

    Row counts and checksums, recomputed from the rows, have to be those of the ledger, and every file under data/ has
    to belong to a range. What the stream no longer retains is compared between file and ledger. Reads as much as all
    batches together did, against the same limits of the stream.

    Exit code 4 where something differs, 3 where rows are lost, 1 where the stream did not answer.

    With --json: an object with pipeline, ranges, rows, bytes, not_retained, lost and findings (kind, path, message).
    """
    from shardlake.auditing import audit

    steps = setup.looking(name, backfill)
    with progress(f"{name}: audit") as shown:
        sums = _sum(audit(steps), lambda sums: shown.tell(f"{name}: {_compared(sums)}"))
    if as_json:
        print_json({"pipeline": name, **asdict(sums)})
    else:
        for finding in sums.findings:
            click.echo(f"{finding.kind}: {finding.message}")
        click.echo(f"{_compared(sums)}: {_verdict(sums)}")
    if sums.findings:
        codes = {finding.error.exit_code for finding in sums.findings}
        worst = next(code for code in (DataLossError.exit_code, ConflictError.exit_code, 1) if code in codes)
        raise Failure(f"the audit of {name} has {count_text(len(sums.findings), 'finding')}", worst)


def _sum(audited: Iterable[Audited], tell: Callable[[_Sums], None]) -> _Sums:
    sums = _Sums()
    for one in audited:
        sums.findings += one.findings
        sums.lost += one.lost
        if one.contents:
            sums.ranges += 1
            sums.rows += one.contents.rows
            sums.bytes += one.contents.bytes
            sums.not_retained += not one.retained
        tell(sums)
    return sums


def _compared(sums: _Sums) -> str:
    return f"{count_text(sums.ranges, 'committed range')}, {count_text(sums.rows, 'row')}, {size_text(sums.bytes)}"


def _verdict(sums: _Sums) -> str:
    if sums.findings:
        return count_text(len(sums.findings), "finding")
    lost = f"; {count_text(sums.lost, 'range')} declared lost before" if sums.lost else ""
    if sums.not_retained:
        gone = f"of {sums.not_retained} the stream no longer retains the records: ledger and file agree"
        return f"ledger, file and stream agree ({gone}){lost}"
    return f"ledger, file and stream agree{lost}"
