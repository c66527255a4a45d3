"""`shardlake status`: where every shard stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from shardlake.cli.output import duration_text, print_json, print_table, progress
from shardlake.cli.setup import Setup, json_option, pass_setup, pipeline_argument
from shardlake.errors import ShardlakeError
from shardlake.redact import redact

if TYPE_CHECKING:
    from shardlake.batch import Steps
    from shardlake.status import ShardStatus


@click.command("status", short_help="Show where every shard stands.")
@pipeline_argument
@json_option
@pass_setup
def status_command(setup: Setup, name: str, as_json: bool) -> None:
    """Show position, lag, retention headroom and open range of every shard of PIPELINE.

    \b
    finished  committed to the shard's end
    idle      nothing is unread
    behind    records are unread; lag: the age of the first, headroom: how long until it is trimmed
    trimmed   the next record to read may be gone: see `plan --dry-run`
    new       not planned yet, also because its parents come first
    unknown   the stream could not be asked (then the reason follows, and the exit code is not 0)

    With --json: an object with pipeline, stream, error and shards (shard_id, state, position, lag_s, headroom_s,
    open_range).
    """
    steps = setup.looking(name)
    with progress(f"{name}: asking the stream"):
        shards, error = _statuses(steps)
    if as_json:
        said = redact(str(error)) if error else None
        objects = [_object(shard) for shard in shards]
        print_json({"pipeline": name, "stream": steps.pipeline.stream, "error": said, "shards": objects})
    elif shards:
        columns = ["shard", "state", "lag", "headroom", "position", "open range through"]
        print_table(columns, map(_row, shards), right=["lag", "headroom"])
    elif not error:
        click.echo(f"pipeline {name} has read nothing yet")
    if error:
        raise error


def _statuses(steps: Steps) -> tuple[list[ShardStatus], ShardlakeError | None]:
    """What ledger and stream know; what the ledger alone knows, and why, where the stream cannot be asked."""
    from shardlake.status import current_status, recorded_status

    try:
        return current_status(steps.ledger, steps.pipeline.name, steps.kinesis()), None
    except ShardlakeError as exc:
        return recorded_status(steps.ledger, steps.pipeline.name), exc


def _row(status: ShardStatus) -> list[str]:
    return [
        status.shard_id,
        status.state,
        duration_text(status.lag_ms),
        duration_text(status.headroom_ms),
        str(status.position or "-"),
        str(status.open_range.through) if status.open_range else "-",
    ]


def _object(status: ShardStatus) -> dict[str, Any]:
    range_ = status.open_range
    return {
        "shard_id": status.shard_id,
        "state": status.state,
        "position": str(status.position) if status.position else None,
        "lag_s": None if status.lag_ms is None else status.lag_ms / 1000,
        "headroom_s": None if status.headroom_ms is None else status.headroom_ms / 1000,
        "open_range": {"start": str(range_.start), "through": str(range_.through)} if range_ else None,
    }
