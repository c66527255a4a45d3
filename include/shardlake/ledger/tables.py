"""The ledger's tables as statements name them, and rows ↔ values. Their definitions are in the migrations."""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, ParamSpec, TypeVar

import sqlalchemy as sa

from shardlake.errors import ConflictError
from shardlake.ledger import Contents, JournalEntry, LedgerRange
from shardlake.ranges import SHARD_END, Position, SequenceNumber, SequenceRange, ShardEnd, Start, parse_through
from shardlake.shards import Shard


def _table(name: str, columns: str) -> sa.TableClause:
    return sa.table(f"shardlake_{name}", *(sa.column(column) for column in columns.split()))


ledger = _table("ledger", "ledger_id")
pipelines = _table("pipelines", "pipeline stream_arn stream_created_at_ms dataset")
shards = _table(
    "shards",
    "pipeline shard_id parents starting_hash_key ending_hash_key starting_sequence_number ending_sequence_number"
    " missing",
)
batches = _table("batches", "batch_id pipeline namespace dag_id run_id plan digest created_at_ms")
chains = _table(
    "chains",
    "pipeline namespace shard_id start_kind start_number start_key"
    " caught_up_key caught_up_at_ms caught_up_retention_ms",
)
ranges = _table(
    "ranges",
    "pipeline namespace shard_id start_kind start_number start_key through through_key anchor"
    " state batch_id rows bytes checksum closed_at_ms",
)
backfills = _table("backfills", "pipeline namespace bounds created_at_ms")
journal = _table(
    "journal",
    "pipeline entry_number at_ms who action namespace shard_id start_kind start_number through anchor reason",
)

Columns = ParamSpec("Columns")
Value = TypeVar("Value")


def _checked(value_of_row: Callable[Columns, Value]) -> Callable[Columns, Value]:
    """Refuse a row that no constraint would have let in: the database was edited, or is damaged."""

    @functools.wraps(value_of_row)
    def checked(*columns: Columns.args, **named: Columns.kwargs) -> Value:
        try:
            return value_of_row(*columns, **named)
        except ValueError as exc:
            raise ConflictError(
                f"the ledger holds a row that cannot be: {exc}",
                todo="Bring its database back from a copy, or rebuild it: shardlake ledger rebuild",
            ) from exc

    return checked


_KEYS = ("pipeline", "namespace", "start_key", "through_key")


def value_columns(rows: sa.FromClause) -> list[sa.ColumnElement[Any]]:
    """The columns of `ranges`, or of an alias of it, that `ledger_range` takes."""
    return [column for column in rows.c if column.name not in _KEYS]


@_checked
def ledger_range(values: Sequence[Any]) -> LedgerRange:
    """The row with these `value_columns`."""
    *of_range, state, batch_id, rows, bytes_, checksum, closed_at_ms = values
    contents = None if rows is None else Contents(rows, bytes_, checksum)
    return LedgerRange(_range(of_range), state, batch_id, contents, closed_at_ms)


def range_row(pipeline: str, namespace: str, row: LedgerRange) -> dict[str, Any]:
    """The row to insert for a new range."""
    return {
        "pipeline": pipeline,
        "namespace": namespace,
        **_range_columns(row.range),
        "start_key": row.range.start.key,
        "through_key": row.range.through.key,
        "state": row.state,
        "batch_id": row.batch_id,
        "closed_at_ms": row.closed_at_ms,
    }


@_checked
def journal_entry(values: Sequence[Any]) -> JournalEntry:
    """The row of an entry, without its number."""
    pipeline, at_ms, who, action, namespace, *of_range, reason = values
    return JournalEntry(at_ms, who, action, pipeline, namespace, _range(of_range), reason)


def journal_row(entry: JournalEntry) -> dict[str, Any]:
    """The row to insert for a new entry, without its number."""
    return {
        "pipeline": entry.pipeline,
        "at_ms": entry.at_ms,
        "who": entry.who,
        "action": entry.action,
        "namespace": entry.namespace,
        **_range_columns(entry.range),
        "reason": entry.reason,
    }


def _range(values: Sequence[Any]) -> SequenceRange:
    """The range with these columns, in the order of `_range_columns`."""
    shard_id, kind, number, through, anchor = values
    return SequenceRange(
        shard_id,
        Start(kind, SequenceNumber(number)),
        parse_through(through),
        None if anchor is None else SequenceNumber(anchor),
    )


def _range_columns(range_: SequenceRange) -> dict[str, Any]:
    """The columns that keep a range exactly, its texts as they are."""
    return {
        "shard_id": range_.shard_id,
        "start_kind": range_.start.kind,
        "start_number": range_.start.number.text,
        "through": str(range_.through),
        "anchor": range_.anchor and range_.anchor.text,
    }


@_checked
def position(kind: str, number: str | None) -> Position:
    """A chain's start from its columns."""
    return SHARD_END if number is None else Start(kind, SequenceNumber(number))  # type: ignore[arg-type]  # CHECKed


def chain_row(pipeline: str, namespace: str, shard_id: str, start: Position) -> dict[str, Any]:
    """The row to insert for a new chain."""
    kind, number = (start.value, None) if isinstance(start, ShardEnd) else (start.kind, start.number.text)
    return {
        "pipeline": pipeline,
        "namespace": namespace,
        "shard_id": shard_id,
        "start_kind": kind,
        "start_number": number,
        "start_key": start.key,
    }


@_checked
def shard(values: Sequence[Any]) -> Shard:
    """The row of a shard, without its pipeline."""
    shard_id, parents, *others = values
    return Shard(shard_id, tuple(json.loads(parents)), *others)


def shard_row(pipeline: str, shard: Shard) -> dict[str, Any]:
    """The row to insert for a new shard."""
    return {**asdict(shard), "pipeline": pipeline, "parents": json.dumps(shard.parents)}
