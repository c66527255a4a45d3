"""A plan of faults as JSON: a list of rules, each an object with these members, all but ``kind`` optional.

::

    kind                             one of KINDS; its parameters stand beside it
    operation, stream, shard         which calls the rule counts; a shard is known of GetRecords and GetShardIterator
    nth: N or [N, …]                 of these calls the Nth is befallen, counted from 1 since the plan was given,
    every: N                         or each Nth,
    probability: P, seed: S          or each with this probability, drawn from the seed (0);
                                     each of them without any of the three
    count: N                         no more than N calls are befallen; without it there is no end
"""

import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from random import Random
from typing import Any

from local_kinesis import fault_kinds
from local_kinesis.arguments import STREAM_NAME
from local_kinesis.errors import InvalidArgumentException
from local_kinesis.fault_kinds import Fault
from local_kinesis.faults import WITH_SHARD, Rule

_SHARD_ID = re.compile(r"shardId-[0-9]{12}")

KINDS: dict[str, type[Fault]] = {
    "throttle": fault_kinds.Throttle,
    "server_error": fault_kinds.ServerError,
    "reset": fault_kinds.Reset,
    "lost_reply": fault_kinds.LostReply,
    "delay": fault_kinds.Delay,
    "slow": fault_kinds.Slow,
    "truncated_body": fault_kinds.TruncatedBody,
    "cut_json": fault_kinds.CutJson,
    "empty_page": fault_kinds.EmptyPage,
    "expired_iterator": fault_kinds.ExpiredIterator,
    "clock_jump": fault_kinds.ClockJump,
}


def parsed_rules(plan: Any, operations: frozenset[str]) -> list[Rule]:
    """Reads a plan, a list of rules.

    Raises:
        InvalidArgumentException: a rule is not of the form above; the message tells which, and why.
    """
    if not isinstance(plan, list):
        raise InvalidArgumentException("faults must be a list of rules, [] to end them")
    rules = []
    for index, given in enumerate(plan):
        try:
            if not isinstance(given, dict):
                raise InvalidArgumentException("a rule must be an object")
            rules.append(_parsed_rule(given, operations))
        except InvalidArgumentException as exc:
            raise InvalidArgumentException(f"faults {index}: {exc}") from exc
    return rules


def _parsed_rule(given: dict[str, Any], operations: frozenset[str]) -> Rule:
    members = dict(given)
    operation = _text(members, "operation", "an operation of this server", operations.__contains__)
    shard_id = _text(members, "shard", "the id of a shard", _SHARD_ID.fullmatch)
    rule = Rule(
        given=given,
        operation=operation,
        stream=_text(members, "stream", "the name of a stream", STREAM_NAME.fullmatch),
        shard_id=shard_id,
        nth=_nth(members.pop("nth", None)),
        every=_whole(members, "every"),
        probability=_probability(members),
        random=Random(_seed(members)),  # noqa: S311 -- to be repeated, not to be secret
        count=_whole(members, "count"),
        fault=_fault(members.pop("kind", None), members),
    )
    if [rule.nth, rule.every, rule.probability].count(None) < 2:
        raise InvalidArgumentException("a rule takes one of nth, every and probability")
    only = rule.fault.only
    if only is not None and operation not in (None, only):
        raise InvalidArgumentException(f"{given['kind']} is for {only}, not {operation}")
    rule.operation = operation or only
    if shard_id is not None and rule.operation not in (None, *WITH_SHARD):
        raise InvalidArgumentException(f"a shard is known of {' and '.join(WITH_SHARD)}, not of {operation}")
    return rule


def _fault(kind: Any, parameters: dict[str, Any]) -> Fault:
    made = KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise InvalidArgumentException(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    taken = {field.name: field.default is MISSING for field in fields(made)}
    for name in parameters:
        if name not in taken:
            raise InvalidArgumentException(f"{kind} takes {', '.join(taken) or 'no parameters'}, not {name}")
    for name, required in taken.items():
        if required and name not in parameters:
            raise InvalidArgumentException(f"{kind} needs {name}")
    return made(**parameters)


def _text(members: dict[str, Any], name: str, expected: str, fits: Callable[[str], object]) -> str | None:
    value = members.pop(name, None)
    if value is None or (isinstance(value, str) and fits(value)):
        return value
    raise InvalidArgumentException(f"{name} must be {expected}, not {value!r}")


def _whole(members: dict[str, Any], name: str) -> int | None:
    value = members.pop(name, None)
    if value is None or (type(value) is int and value > 0):
        return value
    raise InvalidArgumentException(f"{name} must be a whole number above 0, not {value!r}")


def _nth(value: Any) -> frozenset[int] | None:
    if value is None:
        return None
    numbers = value if isinstance(value, list) else [value]
    if not numbers or not all(type(number) is int and number > 0 for number in numbers):
        raise InvalidArgumentException(f"nth must be a whole number above 0, or a list of them, not {value!r}")
    return frozenset(numbers)


def _probability(members: dict[str, Any]) -> float | None:
    value: float | None = members.pop("probability", None)
    if value is None and "seed" in members:
        raise InvalidArgumentException("a seed goes with a probability")
    if value is None or (type(value) in (int, float) and 0 < value <= 1):
        return value
    raise InvalidArgumentException(f"probability must be above 0 and not above 1, not {value!r}")


def _seed(members: dict[str, Any]) -> int:
    value = members.pop("seed", 0)
    if type(value) is not int:
        raise InvalidArgumentException(f"seed must be a whole number, not {value!r}")
    return value
