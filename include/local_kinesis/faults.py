"""A plan of faults: rules that say which calls are befallen by what, counted, and the same again for the same calls.

Every rule counts all calls that match it. A call is befallen by the first rule that is due; rules behind it are not.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

from local_kinesis import tokens
from local_kinesis.arguments import Arguments
from local_kinesis.fault_kinds import Fault
from local_kinesis.limits import rate_exceeded
from local_kinesis.stream import ACCOUNT_ID

WITH_SHARD = ("GetRecords", "GetShardIterator")
"""The operations whose calls name a shard."""


@dataclass(frozen=True, slots=True)
class Call:
    """What rules look at; stream and shard as the request names them, or None."""

    operation: str
    stream: str | None
    shard_id: str | None

    @classmethod
    def of(cls, operation: str, arguments: Arguments) -> "Call":
        """Reads a request, also one that the operation will refuse."""
        if operation == "GetRecords":
            index = _token_value(arguments, "ShardIterator", 2)
            shard_id = None if index is None else f"shardId-{index:012d}"
            return cls(operation, _token_value(arguments, "ShardIterator", 0), shard_id)
        name = arguments.optional_text("StreamName")
        if name is None:
            arn = arguments.optional_text("StreamARN")
            name = arn.rpartition("/")[2] if arn else None
        if name is None and operation == "ListShards":
            name = _token_value(arguments, "NextToken", 0)
        return cls(operation, name, arguments.optional_text("ShardId") if operation in WITH_SHARD else None)

    def rate_exceeded(self) -> str:
        """The message if it is throttled; the one without a shard is as the service has answered GetRecords in 2016."""
        if self.stream is not None and self.shard_id is not None:
            return rate_exceeded(self.stream, self.shard_id)
        of = f"for stream {self.stream} under" if self.stream is not None else "under"
        return f"Rate exceeded {of} account {ACCOUNT_ID}."


@dataclass(slots=True)
class Rule:
    """One rule of a plan, with its counts.

    Attributes:
        given: as it stands in the plan.
        fault: what befalls a call.
        random: what probabilities are drawn from.
        calls: how many calls matched.
        fired: how many of them it befell.
    """

    given: dict[str, Any]
    fault: Fault
    operation: str | None
    stream: str | None
    shard_id: str | None
    nth: frozenset[int] | None
    every: int | None
    probability: float | None
    random: Random
    count: int | None
    calls: int = 0
    fired: int = 0

    def counts(self, call: Call) -> bool:
        """Whether the rule is for this call, which is counted then."""
        wanted = (self.operation, self.stream, self.shard_id)
        found = (call.operation, call.stream, call.shard_id)
        matches = all(want in (None, find) for want, find in zip(wanted, found, strict=True))
        self.calls += matches
        return matches

    def is_due(self) -> bool:
        """Whether the call counted last is to be befallen; draws once a call where there is a probability."""
        if self.nth is not None:
            due = self.calls in self.nth
        elif self.every is not None:
            due = self.calls % self.every == 0
        else:
            due = self.probability is None or self.random.random() < self.probability
        return due and (self.count is None or self.fired < self.count)


class Faults:
    """The plan in force; there is none at the start."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def next(self, call: Call) -> Fault | None:
        """What is to befall this call; counts it."""
        due = [rule for rule in self.rules if rule.counts(call) and rule.is_due()]
        if not due:
            return None
        due[0].fired += 1
        return due[0].fault

    def snapshot(self) -> list[dict[str, Any]]:
        """Of each rule, for ``GET /_local/stats``: as given, how many calls matched, how many of these it befell."""
        return [{"rule": rule.given, "calls": rule.calls, "fired": rule.fired} for rule in self.rules]


def _token_value(arguments: Arguments, name: str, index: int) -> Any:
    token = arguments.optional_text(name)
    values = None if token is None else tokens.unseal(token)
    return values[index] if values and index < len(values) else None
