"""A record as a producer sends it: checked, and made ready for its shard."""

import hashlib
from binascii import a2b_base64
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any

from local_kinesis.arguments import HASH_KEY
from local_kinesis.errors import InvalidArgumentException, SerializationException, ValidationException
from local_kinesis.stream import HASH_KEYS

# What one record of a Put needs: its shard's hash key, its key as JSON, its data as base64, its size.
Checked = tuple[int, str, str, int]


def checked_record(record: dict[str, Any], max_bytes: int) -> Checked:
    """A record's parts, if it keeps to the API's model and the stream's largest size.

    Raises:
        ValidationException: a member is missing or too long, or the explicit hash key is no number.
        SerializationException: a member has the wrong type, or the data is not base64.
        InvalidArgumentException: the record is too large, or its explicit hash key is above all that there are.
    """
    key, data = record.get("PartitionKey"), record.get("Data")
    if key is None or data is None:
        raise ValidationException(
            "1 validation error detected: Value null at 'partitionKey' or 'data' of a record failed to satisfy "
            "constraint: Member must not be null"
        )
    if not isinstance(key, str) or not isinstance(data, str):
        raise SerializationException("a record's PartitionKey and Data must be strings")
    if not 1 <= len(key) <= 256:
        raise ValidationException(
            f"1 validation error detected: Value at 'partitionKey' of {len(key)} characters failed to satisfy "
            "constraint: Member must have length between 1 and 256"
        )
    try:
        # Decoded once, to know that the text can be spliced into replies as it is, and how long the data is.
        size_bytes = len(a2b_base64(data, strict_mode=True)) + len(key.encode())
    except ValueError as exc:
        raise SerializationException(f"a record's Data is not base64, or its PartitionKey not Unicode: {exc}") from exc
    if size_bytes > max_bytes:
        raise InvalidArgumentException(
            f"A record of {size_bytes} bytes, its partition key included, is larger than the stream's {max_bytes} bytes"
        )
    explicit = record.get("ExplicitHashKey")
    hash_key = _hash_key(key) if explicit is None else _explicit_hash_key(explicit)
    return hash_key, encode_basestring_ascii(key), data, size_bytes


@lru_cache(maxsize=65_536)
def _hash_key(partition_key: str) -> int:
    return int.from_bytes(hashlib.md5(partition_key.encode(), usedforsecurity=False).digest(), "big")


def _explicit_hash_key(text: object) -> int:
    if not isinstance(text, str):
        raise SerializationException("a record's ExplicitHashKey must be a string")
    if not HASH_KEY.fullmatch(text):
        raise ValidationException(
            f"1 validation error detected: Value '{text}' at 'explicitHashKey' failed to satisfy constraint: "
            f"Member must satisfy regular expression pattern: {HASH_KEY.pattern}"
        )
    if int(text) >= HASH_KEYS:
        raise InvalidArgumentException(
            f"Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value was {text}"
        )
    return int(text)
