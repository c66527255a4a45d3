"""The kinds of faults: what each does to a call that it befalls, and the parameters it takes in a plan."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from local_kinesis.clock import Clock
from local_kinesis.delivery import Delivery
from local_kinesis.errors import (
    ExpiredIteratorException,
    InternalFailure,
    InvalidArgumentException,
    KMSThrottlingException,
    LimitExceededException,
    ProvisionedThroughputExceededException,
    ServiceError,
    ServiceUnavailable,
)
from local_kinesis.http1 import Reply

MAX_JUMP_S = 10 * 365 * 86_400
_THROTTLES: dict[str, type[ServiceError]] = {
    each.__name__: each
    for each in (ProvisionedThroughputExceededException, LimitExceededException, KMSThrottlingException)
}


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a fault may work with.

    Attributes:
        rate_exceeded: the words for this call throttled.
        run: lets the operation take effect; its errors come as replies, too.
        empty_page: the reply of an empty page, so many ms behind.
    """

    rate_exceeded: str
    run: Callable[[], Reply]
    empty_page: Callable[[int], Reply]
    clock: Clock


@dataclass(frozen=True)
class Fault(ABC):
    """One kind, with its parameters."""

    only: ClassVar[str | None] = None
    """The one operation it is for; None if for any."""

    @abstractmethod
    def answer(self, circumstances: Circumstances) -> Reply:
        """The reply to a call, or the ServiceError that it is to be answered with."""


@dataclass(frozen=True)
class Throttle(Fault):
    """The operation does not take effect and answers ``error``, one of the three the service throttles with."""

    error: str = "ProvisionedThroughputExceededException"

    def __post_init__(self) -> None:
        _require(self.error in tuple(_THROTTLES), f"error must be one of {', '.join(_THROTTLES)}", self.error)

    def answer(self, circumstances: Circumstances) -> Reply:
        raise _THROTTLES[self.error](circumstances.rate_exceeded)


@dataclass(frozen=True)
class ServerError(Fault):
    """The operation does not take effect and answers HTTP 500 or 503."""

    status: int = 500

    def __post_init__(self) -> None:
        _require(self.status in (500, 503), "status must be 500 or 503", self.status)

    def answer(self, circumstances: Circumstances) -> Reply:
        if self.status == 500:
            raise InternalFailure("Internal Service Failure")
        raise ServiceUnavailable("The request has failed due to a temporary failure of the server.")


@dataclass(frozen=True)
class Reset(Fault):
    """A TCP reset: ``before`` the operation takes effect, or after it, in the ``middle`` of the reply's body."""

    at: str = "before"

    def __post_init__(self) -> None:
        _require(self.at in ("before", "middle"), "at must be before or middle", self.at)

    def answer(self, circumstances: Circumstances) -> Reply:
        if self.at == "before":
            return Reply(200, b"", "", Delivery(body_share=None, ending="reset"))
        return replace(circumstances.run(), delivery=Delivery(body_share=0.5, ending="reset"))


@dataclass(frozen=True)
class LostReply(Fault):
    """The operation takes effect, and the connection is reset without a byte of the reply."""

    def answer(self, circumstances: Circumstances) -> Reply:
        return replace(circumstances.run(), delivery=Delivery(body_share=None, ending="reset"))


@dataclass(frozen=True)
class Delay(Fault):
    """The operation takes effect, and the reply comes ``ms`` later."""

    ms: int

    def __post_init__(self) -> None:
        _require_whole("ms", self.ms)

    def answer(self, circumstances: Circumstances) -> Reply:
        return replace(circumstances.run(), delivery=Delivery(delay_ms=self.ms))


@dataclass(frozen=True)
class Slow(Fault):
    """The operation takes effect, and the reply's body comes in pieces, with pauses between them."""

    piece_bytes: int
    pause_ms: int

    def __post_init__(self) -> None:
        _require_whole("piece_bytes", self.piece_bytes)
        _require_whole("pause_ms", self.pause_ms)

    def answer(self, circumstances: Circumstances) -> Reply:
        return replace(circumstances.run(), delivery=Delivery(piece_bytes=self.piece_bytes, pause_ms=self.pause_ms))


@dataclass(frozen=True)
class TruncatedBody(Fault):
    """The operation takes effect; the connection is closed after a share of what Content-Length promises."""

    keep: float = 0.5

    def __post_init__(self) -> None:
        _require_share(self.keep)

    def answer(self, circumstances: Circumstances) -> Reply:
        return replace(circumstances.run(), delivery=Delivery(body_share=self.keep, ending="close"))


@dataclass(frozen=True)
class CutJson(Fault):
    """The operation takes effect; a share of the reply's JSON comes, with a Content-Length that fits."""

    keep: float = 0.5

    def __post_init__(self) -> None:
        _require_share(self.keep)

    def answer(self, circumstances: Circumstances) -> Reply:
        reply = circumstances.run()
        return replace(reply, body=reply.body[: int(len(reply.body) * self.keep)])


@dataclass(frozen=True)
class EmptyPage(Fault):
    """GetRecords returns no records, ``behind_ms`` behind, and an iterator that stands where it stood."""

    only: ClassVar[str | None] = "GetRecords"
    behind_ms: int = 1000

    def __post_init__(self) -> None:
        _require_whole("behind_ms", self.behind_ms)

    def answer(self, circumstances: Circumstances) -> Reply:
        return circumstances.empty_page(self.behind_ms)


@dataclass(frozen=True)
class ExpiredIterator(Fault):
    """GetRecords takes its iterator for an expired one."""

    only: ClassVar[str | None] = "GetRecords"

    def answer(self, circumstances: Circumstances) -> Reply:
        raise ExpiredIteratorException("Iterator expired. The fault plan of this server says so.")


@dataclass(frozen=True)
class ClockJump(Fault):
    """The service's clock jumps by ``seconds``, back if below 0, and stays so; then the operation takes effect."""

    seconds: float

    def __post_init__(self) -> None:
        fits = type(self.seconds) in (int, float) and -MAX_JUMP_S <= self.seconds <= MAX_JUMP_S
        _require(fits, f"seconds must be a number between -{MAX_JUMP_S} and {MAX_JUMP_S}", self.seconds)

    def answer(self, circumstances: Circumstances) -> Reply:
        circumstances.clock.jump(self.seconds)
        return circumstances.run()


def _require(condition: bool, expected: str, found: object) -> None:
    if not condition:
        raise InvalidArgumentException(f"{expected}, not {found!r}")


def _require_whole(name: str, value: object) -> None:
    _require(type(value) is int and value > 0, f"{name} must be a whole number above 0", value)


def _require_share(value: Any) -> None:
    _require(type(value) in (int, float) and 0 <= value < 1, "keep must be a share from 0 to below 1", value)
