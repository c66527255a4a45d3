"""Sequence numbers: 56 decimal digits, increasing within a shard, sparse, greater in a child than in its parents.

A number is ``49``, 13 digits of the shard's creation time in ms, 6 digits of the shard's index, and 35 digits of the
record's ordinal within the shard. The service's own layouts differ, but begin with ``49``, too.

Ordinals grow by steps between 1 and 2**32, of all magnitudes, so that neighbouring numbers as well as wide gaps occur.
Ordinal 0 is the shard's StartingSequenceNumber and belongs to no record.
"""

import random
import re

from local_kinesis.errors import InvalidArgumentException, ValidationException

_ORDINAL_DIGITS = 35
# The pattern of the API's model: no sign, no leading zeros, at most 129 digits.
_PATTERN = re.compile(r"0|[1-9][0-9]{0,128}")


class SequenceNumbers:
    """The numbers of one shard: translates between ordinals and their texts, and draws the next ordinal."""

    __slots__ = ("_base", "_last", "_prefix", "_random")

    def __init__(self, created_ms: int, shard_index: int) -> None:
        self._prefix = f"49{created_ms:013d}{shard_index:06d}"
        self._base = int(self._prefix) * 10**_ORDINAL_DIGITS
        self._last = 0
        self._random = random.Random(self._base)  # noqa: S311 -- gaps need not be secret

    def draw(self) -> int:
        """The ordinal of the shard's next record."""
        bits = self._random.getrandbits(37)
        self._last += 1 + ((bits >> 5) >> (bits & 31))
        return self._last

    def text(self, ordinal: int) -> str:
        """An ordinal's sequence number."""
        return f"{self._prefix}{ordinal:0{_ORDINAL_DIGITS}d}"

    def ordinal(self, text: str, shard_id: str) -> int:
        """The ordinal of a sequence number given by a client; the number need not be a record's.

        Raises:
            ValidationException: the text is no sequence number.
            InvalidArgumentException: the number lies outside the numbers of this shard.
        """
        if not _PATTERN.fullmatch(text):
            raise ValidationException(
                f"1 validation error detected: Value '{text}' at 'startingSequenceNumber' failed to satisfy "
                "constraint: Member must satisfy regular expression pattern: 0|([1-9]\\d{0,128})"
            )
        ordinal: int = int(text) - self._base
        if not 0 <= ordinal < 10**_ORDINAL_DIGITS:
            raise InvalidArgumentException(
                f"StartingSequenceNumber {text} used in GetShardIterator on shard {shard_id} is invalid "
                "because it did not come from this shard."
            )
        return ordinal
