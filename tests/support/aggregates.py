"""Aggregates for tests, written by hand: so that they can also be wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

MAGIC = bytes.fromhex("f3899ac2")


@dataclass(frozen=True)
class User:
    """A user record to be put into an aggregate; None leaves a field out."""

    key: int | None
    data: bytes | None
    hash_key: int | None = None
    tags: bytes = b""


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


def number(field: int, value: int) -> bytes:
    """A field with a number."""
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    """A field with bytes, a text or a message."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def protobuf(keys: Iterable[bytes], users: Iterable[User], hash_keys: Iterable[bytes] = ()) -> bytes:
    """The protobuf of an aggregate with these tables and user records."""
    body = b"".join(text(1, key) for key in keys) + b"".join(text(2, key) for key in hash_keys)
    for user in users:
        fields = [] if user.key is None else [number(1, user.key)]
        fields += [] if user.hash_key is None else [number(2, user.hash_key)]
        fields += [] if user.data is None else [text(3, user.data)]
        body += text(3, b"".join([*fields, user.tags]))
    return body


def sealed(body: bytes) -> bytes:
    """A Kinesis record's data: the magic number, these bytes and their MD5."""
    return MAGIC + body + hashlib.md5(body, usedforsecurity=False).digest()


def aggregate_of(*data: bytes, key: bytes = b"k") -> bytes:
    """A good aggregate whose user records have one partition key."""
    return sealed(protobuf([key], [User(0, each) for each in data]))
