"""Shard iterators: where a reader stands in a shard, sealed in a token that expires."""

from dataclasses import astuple, dataclass, replace
from typing import cast

from local_kinesis import tokens
from local_kinesis.arguments import Arguments
from local_kinesis.behaviour import Behaviour
from local_kinesis.errors import ExpiredIteratorException, InvalidArgumentException
from local_kinesis.shard import Shard

TYPES = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP")


@dataclass(frozen=True, slots=True)
class ShardIterator:
    """A position in a shard of a stream.

    Attributes:
        stream_created_ms: tells the stream from others of its name.
        after: the ordinal that is read through.
        empty_pages_round, empty_pages_served: see ``Behaviour``; kept here, as they are counted per chain of iterators.
        trimmed_pages_served: the empty pages this chain got for standing at a trimmed position.
    """

    stream: str
    stream_created_ms: int
    shard_index: int
    after: int
    issued_ms: int
    empty_pages_round: int = 0
    empty_pages_served: int = 0
    trimmed_pages_served: int = 0

    def token(self) -> str:
        """The iterator as the client gets it."""
        return tokens.seal(*astuple(self))

    @classmethod
    def opened(cls, token: str, now_ms: int, life_ms: int) -> "ShardIterator":
        """Reads a token.

        Raises:
            InvalidArgumentException: it is no iterator of this server.
            ExpiredIteratorException: it was issued longer ago than an iterator lives.
        """
        values = tokens.unseal(token)
        if values is None or len(values) != len(cls.__slots__):
            raise InvalidArgumentException("Invalid ShardIterator.")
        iterator = cls(str(values[0]), *cast(list[int], values[1:]))
        if now_ms - iterator.issued_ms > life_ms:
            raise ExpiredIteratorException(
                f"Iterator expired. The iterator was created at time {iterator.issued_ms} while right now it is "
                f"{now_ms} which is further in the future than the tolerated delay of {life_ms} milliseconds."
            )
        return iterator

    def owes_trimmed_page(self, shard: Shard, behaviour: Behaviour) -> bool:
        """Whether the position is trimmed and not all the empty pages for that have been served."""
        return self.after < shard.trimmed_through and self.trimmed_pages_served < behaviour.trimmed_pages

    def owes_empty_page(self, behaviour: Behaviour) -> bool:
        """Whether this chain has yet to get some of the empty pages that were ordered."""
        served = self.empty_pages_served if self.empty_pages_round == behaviour.empty_pages_round else 0
        return served < behaviour.empty_pages

    def after_empty_page(self, behaviour: Behaviour, now_ms: int) -> "ShardIterator":
        """The next iterator behind an empty page that was ordered."""
        same_round = self.empty_pages_round == behaviour.empty_pages_round
        return replace(
            self,
            issued_ms=now_ms,
            empty_pages_round=behaviour.empty_pages_round,
            empty_pages_served=self.empty_pages_served + 1 if same_round else 1,
        )


def starting_position(shard: Shard, arguments: Arguments, now_ms: int) -> int:
    """The ordinal behind which a new iterator begins.

    A number between two records means the later one. A time before the horizon means the horizon.

    Raises:
        InvalidArgumentException: a number outside the shard or beside another type, a time in the service's future, or
            either left out.
    """
    kind, number = arguments.choice("ShardIteratorType", *TYPES), arguments.optional_text("StartingSequenceNumber")
    if number is not None and kind in ("TRIM_HORIZON", "LATEST"):
        raise InvalidArgumentException(
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or (2) "
            f"TRIM_HORIZON or LATEST and no StartingSequenceNumber. The request has {kind} and {number}."
        )
    match kind:
        case "TRIM_HORIZON":
            return shard.trimmed_through
        case "LATEST":
            return shard.last_ordinal
        case "AT_TIMESTAMP":
            timestamp_ms = arguments.optional_time_ms("Timestamp")
            if timestamp_ms is None:
                raise InvalidArgumentException(
                    "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP."
                )
            if timestamp_ms > now_ms:
                raise InvalidArgumentException(
                    f"The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. "
                    f"timestampInMillis: {timestamp_ms:.0f}, currentTimestampInMillis: {now_ms}"
                )
            return shard.position_at_time(timestamp_ms)
        case _:
            if number is None:
                raise InvalidArgumentException(
                    f"Must either specify StartingSequenceNumber for iterator of type {kind}."
                )
            return _position_at_number(shard, number, kind)


def _position_at_number(shard: Shard, text: str, kind: str) -> int:
    ordinal = shard.numbers.ordinal(text, shard.shard_id)
    if shard.ending_ordinal is not None and ordinal > shard.ending_ordinal:
        raise InvalidArgumentException(
            f"StartingSequenceNumber {text} used in GetShardIterator on shard {shard.shard_id} is invalid "
            "because it is greater than the closed shard's EndingSequenceNumber."
        )
    after = ordinal - 1 if kind == "AT_SEQUENCE_NUMBER" else ordinal
    if 0 < ordinal <= shard.trimmed_through:
        # Behind the newest trimmed record nothing is lost, but the number named is gone all the same.
        after = min(after, shard.trimmed_through - 1)
    return max(after, 0)
