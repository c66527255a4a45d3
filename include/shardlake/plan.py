"""The plan of a batch: the ranges of one run, pinned before anything is read, and what decides names and content.

The ledger holds the plan's text; the plan file beside the dataset is a copy of it. Whoever reads the copy (the Spark
job) checks it against the digest that the ledger's text has. A plan holds no secret.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from shardlake.errors import ConflictError
from shardlake.names import SHARD_ID
from shardlake.ranges import SequenceNumber, SequenceRange, Start, parse_through

LAYOUT = 1
"""Version of names, schema and row order in data files; a plan of another layout is refused."""

RETRY_BUDGET_S = 600.0
"""How long reading a range goes on without a new record, unless told otherwise."""

Aggregates = Literal["keep", "drop", "quarantine"]
"""What becomes of a KPL aggregate with a user record outside of its shard's hash keys."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role to assume; nothing of it is a secret.

    Attributes:
        external_id: what the role's trust policy asks for, if it does.
        session_name: what the logs of the role's account call us, 2 to 64 letters, digits and `+=,.@-_`.
    """

    role_arn: str
    external_id: str | None
    session_name: str


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as it was when planning; creation time tells a recreated stream from this one.

    Attributes:
        role: the role in which it is read; None: as whoever reads it is.
    """

    name: str
    arn: str
    created_at_ms: int
    retention_ms: int
    region: str
    endpoint_url: str | None
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """How a dataset on S3 is reached; nothing of it is a secret. See `storage` in the configuration.

    Attributes:
        region: the bucket's.
        endpoint_url: another endpoint than the region's own.
        role_arn: the role in which the dataset is read and written.
        external_id: what that role's trust policy asks for.
        kms_key_id: the key that S3 encrypts new objects with.
    """

    region: str
    endpoint_url: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    kms_key_id: str | None = None


@dataclass(frozen=True, slots=True)
class HashRange:
    """A shard's hash keys, from the first to the last: decimal texts of 128-bit numbers. They never change."""

    shard_id: str
    starting: str
    ending: str


@dataclass(frozen=True, slots=True)
class Run:
    """The run that a batch belongs to."""

    dag_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The ranges of one run, in groups of one Spark job each.

    Attributes:
        batch_id: follows from pipeline, namespace and run (`names.batch_id`).
        ledger_id: the ledger that pinned the plan; together with pipeline and stream it owns the dataset.
        planned_at_ms: the service's time when planning began.
        behind: the window or the byte limit left records behind: another batch should follow at once.
        groups: the ranges, at most one a shard.
        read_fraction: the share of a shard's read limits that reading a range may take; None: it is not paced.
        retry_budget_s: how long reading a range goes on without a new record, while calls fail or pages are empty.
        losses: what `on_data_loss: fail` kept out of the batch; the run fails for it after the rest is committed.
        storage: how a dataset on S3 is reached; None for a folder.
        aggregates: `keep`: all aggregates are unpacked; `drop`, `quarantine`: not those that have a user record outside
            of the shard's hash keys. None: a plan from before aggregates were unpacked, records stay as they are.
        hash_ranges: those of the shards of `ranges`.
        consumer_arn: the registered consumer by which ranges are read (enhanced fan-out); None: they are polled.

    Raises:
        ValueError: `aggregates` is something else.
    """

    batch_id: str
    pipeline: str
    namespace: str
    run: Run
    stream: Stream
    dataset: str
    ledger_id: str
    planned_at_ms: int
    behind: bool
    groups: tuple[tuple[SequenceRange, ...], ...]
    read_fraction: float | None = None
    retry_budget_s: float = RETRY_BUDGET_S
    losses: tuple[str, ...] = ()
    layout: int = LAYOUT
    storage: Storage | None = None
    aggregates: Aggregates | None = None
    hash_ranges: tuple[HashRange, ...] = ()
    consumer_arn: str | None = None

    def __post_init__(self) -> None:
        if self.aggregates not in (None, *get_args(Aggregates)):
            raise ValueError(f"aggregates is one of {', '.join(get_args(Aggregates))}, found {self.aggregates!r}")

    def hash_range(self, shard_id: str) -> HashRange:
        """The hash keys of a shard.

        Raises:
            ConflictError: the plan does not say them.
        """
        found = [each for each in self.hash_ranges if each.shard_id == shard_id]
        if not found:
            raise ConflictError(f"the plan does not say the hash keys of {shard_id}", todo="Report this as a bug")
        return found[0]

    @property
    def ranges(self) -> Iterator[SequenceRange]:
        """All ranges, group after group."""
        return (range_ for group in self.groups for range_ in group)

    def with_ranges(self, ranges: Iterable[SequenceRange], group_size: int) -> BatchPlan:
        """The same plan with these ranges, cut in groups of at most `group_size`."""
        all_ = tuple(ranges)
        groups = tuple(all_[i : i + group_size] for i in range(0, len(all_), group_size))
        return replace(self, groups=groups)

    def to_text(self) -> str:
        """Canonical JSON: the same plan is the same text."""
        plan = {
            **asdict(replace(self, groups=())),
            "groups": [[range_to_json(range_) for range_ in group] for group in self.groups],
        }
        return json.dumps(plan, sort_keys=True, indent=1)

    @classmethod
    def from_text(cls, text: str) -> BatchPlan:
        """The plan that `to_text` wrote.

        Raises:
            ConflictError: the text is not a plan of this layout.
        """
        try:
            plan = json.loads(text)
            layout = plan["layout"]
            if layout == LAYOUT:
                _types().validate_json(json.dumps({**plan, "groups": []}), strict=True)
                return cls(
                    **{
                        **plan,
                        "run": Run(**plan["run"]),
                        "stream": _stream(plan["stream"]),
                        "losses": tuple(plan["losses"]),
                        "storage": Storage(**plan["storage"]) if plan.get("storage") else None,
                        "hash_ranges": tuple(HashRange(**each) for each in plan.get("hash_ranges", ())),
                        "groups": tuple(tuple(range_from_json(r) for r in group) for group in plan["groups"]),
                    }
                )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as exc:
            raise ConflictError(f"this is not a batch plan ({exc})", todo="Run the plan step again") from exc
        raise ConflictError(
            "a plan of another layout",
            expected=LAYOUT,
            found=layout,
            todo="Finish the batch with the code version that planned it",
        )


@functools.cache
def _types() -> TypeAdapter[BatchPlan]:
    """What checks the types of a plan's values, but for its ranges, which check themselves."""
    return TypeAdapter(BatchPlan)


def _stream(value: dict[str, Any]) -> Stream:
    role = value.get("role")
    return Stream(**{**value, "role": Role(**role) if role else None})


def digest(text: str) -> str:
    """SHA-256 of a plan's text, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def load_plan(text: str, expected_digest: str) -> BatchPlan:
    """The plan in a plan file, checked to be the ledger's.

    Raises:
        ConflictError: it is another one.
    """
    found = digest(text)
    if found != expected_digest:
        raise ConflictError(
            "the plan file is not the ledger's plan", expected=expected_digest, found=found, todo="Run plan again"
        )
    return BatchPlan.from_text(text)


def range_to_json(range_: SequenceRange) -> dict[str, Any]:
    """A range as it stands in plans, footers and reports: kinds and exact texts."""
    return {
        "shard_id": range_.shard_id,
        "start": [range_.start.kind, range_.start.number.text],
        "through": str(range_.through),
        "anchor": range_.anchor and range_.anchor.text,
    }


def range_from_json(value: dict[str, Any]) -> SequenceRange:
    """The range that `range_to_json` wrote.

    Raises:
        KeyError, TypeError, ValueError: the value is not a range.
    """
    kind, number = value["start"]
    anchor, shard_id = value["anchor"], value["shard_id"]
    if not SHARD_ID.fullmatch(shard_id):
        raise ValueError(f"not a shard id: {shard_id[:140]!r}")
    return SequenceRange(
        shard_id,
        Start(kind, SequenceNumber(number)),
        parse_through(value["through"]),
        None if anchor is None else SequenceNumber(anchor),
    )
