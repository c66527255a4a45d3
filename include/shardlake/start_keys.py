"""What a pipeline's entry may say of where reading begins: the keys `start` and `shard_starts`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from shardlake.names import SHARD_ID
from shardlake.ranges import SequenceNumber, Start


def _number(text: str) -> str:
    if not int(SequenceNumber(text)):
        raise ValueError("no record has the number 0")
    return text


class _Start(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class AtTimestamp(_Start):
    """A start by arrival time."""

    at_timestamp: datetime = Field(description="a time with an offset, like 2026-01-31T00:00:00Z")

    @model_validator(mode="before")
    @classmethod
    def _no_numbers(cls, value: Any) -> Any:
        if isinstance(value, dict) and not isinstance(value.get("at_timestamp", ""), str | datetime):
            raise ValueError("a number is not a time")
        return value

    @model_validator(mode="after")
    def _aware(self) -> AtTimestamp:
        if self.at_timestamp.tzinfo is None or self.at_timestamp < datetime(1970, 1, 1, tzinfo=UTC):
            raise ValueError("a time without an offset, or before 1970")
        return self

    @property
    def at_ms(self) -> int:
        """Milliseconds since the epoch."""
        return (self.at_timestamp - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


class AtSequenceNumber(_Start):
    """A start with a record of one shard."""

    at_sequence_number: Annotated[str, AfterValidator(_number)]

    @property
    def position(self) -> Start:
        """Before the record."""
        return Start("AT", SequenceNumber(self.at_sequence_number))


class AfterSequenceNumber(_Start):
    """A start behind a record of one shard."""

    after_sequence_number: Annotated[str, AfterValidator(_number)]

    @property
    def position(self) -> Start:
        """Behind the record."""
        return Start("AFTER", SequenceNumber(self.after_sequence_number))


StreamStart = Literal["trim_horizon", "latest"] | AtTimestamp
ShardStart = StreamStart | AtSequenceNumber | AfterSequenceNumber
ShardStarts = dict[Annotated[str, Field(pattern=rf"^{SHARD_ID.pattern}$")], ShardStart]

STREAM_START = "trim_horizon, latest, or {at_timestamp: <time with an offset, like 2026-01-31T00:00:00Z>}"
SHARD_STARTS = (
    "{<shard id>: <start>, …}, a start being one of trim_horizon, latest, {at_timestamp: <time with an offset>},"
    ' {at_sequence_number: "<number of a record>"} and {after_sequence_number: "<number of a record>"}'
)
