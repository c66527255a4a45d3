"""A backfill: one bounded stretch of records a shard, read by hand, beside the live pipeline and without touching it.

What is asked for (`Request`) names shards and times or sequence numbers; what is pinned in the ledger (`Backfill`)
holds records seen, so a backfill that is gone on with reads what it set out to read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from shardlake.errors import ConfigError, ConflictError
from shardlake.names import SHARD_ID
from shardlake.plan import range_from_json, range_to_json
from shardlake.ranges import Position, SequenceNumber, SequenceRange, Start

DAG_ID = "kinesis_backfill"
"""The id of the one DAG for all pipelines' backfills."""

READ_FRACTION = 0.5
"""The share of a shard's read limits that a backfill takes unless told otherwise: the rest is the live pipeline's."""

BOUND = r"^\s*([0-9]{1,56}|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]{4,15}([Zz]|[+-][0-9]{2}:?[0-9]{2}))\s*$"
"""What `from` and `to` may look like: a sequence number, or a time with an offset."""

SHARD_LINE = rf"^\s*({SHARD_ID.pattern})?\s*$"
"""What a line of shard ids may look like: forms give out empty ones, too."""

Bound = SequenceNumber | int | None
"""A sequence number, an arrival time in milliseconds since the epoch, or none: as far as there is something."""


class Request(BaseModel):
    """What a person asks for. Without anything in particular: all that is retained.

    Attributes:
        shards: shard ids, each once and in order; none: all shards.
        from_: from this record, or the first that arrived at this time or later; none: from the oldest retained.
        to: through this record, or up to the first that arrived at this time or later, which is left out; none:
            through the newest.
        read_fraction: share of each shard's read limits.
        retained_only: begin with what is left where the beginning is no longer retained.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, str_strip_whitespace=True)

    shards: Annotated[tuple[str, ...], AfterValidator(lambda shards: tuple(sorted({*shards} - {""})))] = ()
    from_: str | None = Field(None, alias="from", pattern=BOUND)
    to: str | None = Field(None, pattern=BOUND)
    read_fraction: float = Field(READ_FRACTION, strict=True, gt=0, le=1)
    retained_only: bool = Field(False, strict=True)

    def __str__(self) -> str:
        shards = ", ".join(self.shards) or "all shards"
        bounds = f"from {self.from_ or 'the oldest'} to {self.to or 'the newest'} of {shards}"
        return f"{bounds}, read fraction {self.read_fraction:g}{', retained only' if self.retained_only else ''}"

    @property
    def begin(self) -> Bound:
        """`from_` as a value."""
        return _bound(self.from_)

    @property
    def end(self) -> Bound:
        """`to` as a value."""
        return _bound(self.to)


@dataclass(frozen=True, slots=True)
class Backfill:
    """The bounds of a backfill, as they are pinned.

    Attributes:
        request: what was asked for.
        stretches: a shard's records to read, from the first to the last, each seen when the backfill was opened; at
            most one a shard. Its batches cut ranges from it, front to back.
    """

    request: Request
    stretches: tuple[SequenceRange, ...]

    def to_text(self) -> str:
        """Canonical JSON."""
        stretches = [range_to_json(stretch) for stretch in self.stretches]
        return json.dumps(
            {"request": self.request.model_dump(by_alias=True), "stretches": stretches}, sort_keys=True, indent=1
        )

    def left(self, positions: Mapping[str, Position]) -> Backfill:
        """What is left of it once its shards, by id, are read up to these positions."""
        left = []
        for stretch in self.stretches:
            position = positions[stretch.shard_id]
            if isinstance(position, Start) and position.key < stretch.through.key:
                left.append(replace(stretch, start=position, anchor=position.number))
        return replace(self, stretches=tuple(left))

    @classmethod
    def from_text(cls, text: str) -> Backfill:
        """The backfill that `to_text` wrote.

        Raises:
            ConflictError: the text is none.
        """
        try:
            stored = json.loads(text)
            request = Request(**stored["request"])
            return cls(request, tuple(range_from_json(stretch) for stretch in stored["stretches"]))
        except (KeyError, TypeError, ValueError, RecursionError) as exc:
            raise ConflictError(f"these are not the bounds of a backfill ({exc})") from exc


def parse_request(asked: Mapping[str, Any]) -> Request:
    """A request from a form or a command line.

    Raises:
        ConfigError: it cannot be one; the message names the key.
    """
    try:
        request = Request(**{key: value for key, value in asked.items() if value not in (None, "")})
        numbers = [bound for bound in (request.begin, request.end) if isinstance(bound, SequenceNumber)]
    except ValidationError as exc:
        keys = ", ".join(sorted({str(error["loc"][0])[:40] for error in exc.errors() if error["loc"]})[:8])
        raise ConfigError(
            f"the backfill's {keys}",
            expected="shard ids; from and to: a sequence number or a time like 2026-01-31T00:00:00Z, or nothing;"
            " a read fraction above 0 and up to 1",
        ) from exc
    except ValueError as exc:
        raise ConfigError(f"the backfill's from or to: {exc}") from exc
    _check_shards(request.shards)
    if numbers and len(request.shards) != 1:
        raise ConfigError(
            "the backfill's from or to is a sequence number, which is one shard's",
            expected="one shard",
            found=f"{len(request.shards)} shards" if request.shards else "all shards",
            todo="Name the shard, or give times",
        )
    return request


def _check_shards(shards: Sequence[str]) -> None:
    for shard_id in shards:
        if not SHARD_ID.fullmatch(shard_id):
            raise ConfigError("the backfill's shards", expected="shard ids", found=repr(shard_id[:140]))


def _bound(text: str | None) -> Bound:
    if text is None:
        return None
    if re.fullmatch(r"[0-9]+", text, re.ASCII):
        return SequenceNumber(text)
    since = datetime.fromisoformat(text.upper()) - datetime(1970, 1, 1, tzinfo=UTC)
    if since < timedelta(0):
        raise ValueError(f"a time before 1970: {text}")
    return -(-since // timedelta(milliseconds=1))  # records arrive at whole milliseconds: none before the bound counts
