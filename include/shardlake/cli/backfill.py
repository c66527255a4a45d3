"""`shardlake backfill`: a bounded stretch of the stream into a namespace of its own, beside the live pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from shardlake.cli.batches import run_batch, tell_committed
from shardlake.cli.output import (
    count_text,
    duration_text,
    print_json,
    print_json_array,
    print_table,
    progress,
    size_text,
)
from shardlake.cli.setup import Setup, json_option, pass_setup, pipeline_argument

if TYPE_CHECKING:
    from shardlake.backfill import Request
    from shardlake.batch import Committed, Steps
    from shardlake.engines import Engine
    from shardlake.estimate import Estimate
    from shardlake.plan import BatchPlan


@click.command("backfill", short_help="Ingest a stretch of the stream once more, beside the live pipeline.")
@pipeline_argument
@click.option(
    "--shard", "shards", metavar="ID", multiple=True, help="Only this shard; may be repeated.  [default: all]"
)
@click.option("--from", "from_", metavar="BOUND", help="First record, or time.  [default: the oldest retained]")
@click.option("--to", metavar="BOUND", help="Last record, or time, which is left out.  [default: the newest]")
@click.option("--id", "name_", metavar="ID", help="Its name; without bounds: go on with the backfill of this name.")
@click.option("--read-fraction", type=float, help="Share of each shard's read limits to take.  [default: 0.5]")
@click.option("--retained-only", is_flag=True, help="Begin with what is left if the beginning is no longer retained.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be read, and how long that takes.")
@click.option("-v", "--verbose", is_flag=True, help="Show Spark's log, on stderr.")
@json_option
@pass_setup
def backfill_command(
    setup: Setup, /, name: str, name_: str | None, dry_run: bool, verbose: bool, as_json: bool, **asked: Any
) -> None:
    """Ingest a stretch of PIPELINE's stream into <dataset>/backfill/<id>/, until it is committed.

    A BOUND is a time with an offset, like 2026-01-31T00:00:00Z, or the sequence number of a record of the one shard
    named. Bounds are resolved to records that are there, and pinned: a backfill that was interrupted goes on where it
    was with `--id ID` alone. The live pipeline goes on beside it, and its position does not move.

    Exit code 3 where the beginning is no longer retained; nothing is started then.

    With --json: an array with one object a batch, as `run` has it, and backfill, the id; with --dry-run an object with
    backfill, dataset, stretches (shard_id, first, through, ranges, records, bytes, calls, seconds) and seconds.
    """
    from shardlake.backfill import Request, parse_request
    from shardlake.names import backfill_namespace

    request = parse_request({"from": asked.pop("from_"), **asked})
    namespace = backfill_namespace(name_ or f"cli-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}")
    if name_ and request == Request():
        setup.looking(name, namespace)  # a name alone goes on with what is there: one mistyped must not open another
    if dry_run:
        _tell_plan(setup.looking(name), namespace, request, as_json)
        return
    steps = setup.working(name, lambda steps: _check(steps, request), namespace)
    with progress(f"{name}: looking for the bounds"):
        stretches = steps.open_backfill(request).stretches
    batches = _batches(steps, setup.engine(steps.pipeline), verbose)
    with _telling_how_to_go_on(name, namespace):
        if as_json:
            print_json_array({**asdict(done), "behind": plan.behind, "backfill": namespace} for plan, done in batches)
            return
        click.echo(f"backfill {namespace}: {count_text(len(stretches), 'shard')}, into {steps.home.url('data')}")
        for _, done in batches:
            tell_committed(done)
        click.echo(f"backfill {namespace} is complete")


def _batches(steps: Steps, engine: Engine, verbose: bool) -> Iterator[tuple[BatchPlan, Committed]]:
    behind = True
    while behind:
        plan, done = run_batch(steps, engine, verbose)
        behind = plan.behind
        if done:
            yield plan, done


@contextmanager
def _telling_how_to_go_on(name: str, namespace: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        click.echo(f"To go on with it: shardlake backfill {name} --id {namespace}", err=True)
        raise


def _check(steps: Steps, request: Request) -> None:
    steps.planner().resolve_backfill(request)
    steps.home.check_writable()


def _tell_plan(live: Steps, namespace: str, request: Request, as_json: bool) -> None:
    from shardlake.batch import Steps
    from shardlake.estimate import estimate

    steps = Steps(live.pipeline, live.ledger, namespace=namespace)
    with progress(f"{steps.pipeline.name}: looking at the stretches"):
        draft, backfill = steps.planner().left_of_backfill(request)
        found = estimate(steps.pipeline, steps.kinesis(), draft, backfill)
    seconds = max((each.seconds for each in found), default=0.0)
    if as_json:
        stretches = [_object(each) for each in found]
        print_json({"backfill": namespace, "dataset": draft.dataset, "stretches": stretches, "seconds": seconds})
        return
    if not found:
        click.echo(f"backfill {namespace} is complete: nothing is left to read")
        return
    numbers = ["ranges", "records", "bytes", "calls", "time"]
    print_table(["shard", "first", "through", *numbers], map(_row, found), right=numbers)
    records, size = sum(each.records for each in found), sum(each.bytes for each in found)
    share = f"{backfill.request.read_fraction:.0%} of each shard's read limits"
    click.echo(f"about {count_text(records, 'record')}, {size_text(size)}, into {draft.dataset}")
    click.echo(f"at least {duration_text(round(seconds * 1000))} with {share} and all shards side by side")


def _row(each: Estimate) -> list[str]:
    stretch, time = each.stretch, duration_text(round(each.seconds * 1000))
    counts = [f"{each.ranges:,}", f"{each.records:,}", size_text(each.bytes), f"{each.calls:,}"]
    return [stretch.shard_id, str(stretch.start), str(stretch.through), *counts, time]


def _object(each: Estimate) -> dict[str, Any]:
    stretch = each.stretch
    bounds = {"shard_id": stretch.shard_id, "first": str(stretch.start), "through": str(stretch.through)}
    return {**bounds, **{name: getattr(each, name) for name in ("ranges", "records", "bytes", "calls", "seconds")}}
