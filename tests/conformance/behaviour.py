"""A behaviour: something asked of a Kinesis, what the service's documentation says of it, and what is observed.

An observation is a plain value. An error of the service is its name; no reply within the time limit is `NO_REPLY`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from tests.conformance.server import UNANSWERED
from tests.conformance.stream import Stream

ACCEPTED = "accepted"
NO_REPLY = "no reply"

Ask = Callable[[Stream], Any]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One question.

    Attributes:
        name: the asking function's.
        documented: what the documentation says, in a sentence of ours; or that it does not say.
        answer: what is observed where that holds.
        shards: the open shards of the stream that it is asked of.
        opens: the shards that asking opens: by resharding, or in streams beside that one.
        a_day: whether it needs the service's clock to move by more than a day.
        ask: asks it of a stream of its own and returns what is observed.
    """

    name: str
    documented: str
    answer: Any
    shards: int
    opens: int
    a_day: bool
    ask: Ask

    def observe(self, stream: Stream) -> Any:
        """What a Kinesis answers."""
        return reply(lambda: self.ask(stream))


BEHAVIOURS: dict[str, Behaviour] = {}


def behaviour(
    documented: str, *, answer: Any, shards: int = 1, opens: int = 0, a_day: bool = False
) -> Callable[[Ask], Ask]:
    """Notes a function as the question of a behaviour."""

    def note(ask: Ask) -> Ask:
        name = ask.__name__
        assert name not in BEHAVIOURS, f"there is a behaviour {name} already"
        BEHAVIOURS[name] = Behaviour(name, documented, answer, shards, opens, a_day, ask)
        return ask

    return note


def reply(call: Callable[[], Any]) -> Any:
    """What a call returns, or the name of the error that it is answered with."""
    try:
        return call()
    except ClientError as exc:
        return exc.response["Error"]["Code"]
    except UNANSWERED:
        return NO_REPLY


def verdict(call: Callable[[], Any]) -> str:
    """ACCEPTED, or the name of the error that a call is answered with."""

    def accepted() -> str:
        call()
        return ACCEPTED

    found: str = reply(accepted)
    return found


def refused(call: Callable[[], Any]) -> bool:
    """Whether a call is answered with an error, where the documentation does not say with which."""
    return verdict(call) not in (ACCEPTED, NO_REPLY)
