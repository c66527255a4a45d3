"""AWS's event stream encoding, the writing half: what a server sends and botocore reads."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

_TEXT = 7


def event(kind: str, payload: dict[str, Any]) -> bytes:
    """An event of a kind, as `SubscribeToShardEvent`."""
    return _message({":message-type": "event", ":event-type": kind}, payload)


def exception(kind: str, message: str) -> bytes:
    """An exception in the place of an event."""
    return _message({":message-type": "exception", ":exception-type": kind}, {"message": message})


def _message(headers: dict[str, str], payload: dict[str, Any]) -> bytes:
    body = json.dumps(payload).encode()
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", _TEXT, len(value)) + value.encode()
        for name, value in {**headers, ":content-type": "application/json"}.items()
    )
    prelude = struct.pack("!II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + body
    return message + struct.pack("!I", zlib.crc32(message))
