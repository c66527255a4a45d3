"""Opaque tokens: values with a keyed digest, so that one that is made up, changed or another server's is refused."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets

_DIGEST_BYTES = 9
_KEY = secrets.token_bytes(32)

Value = int | str | None


def seal(*values: Value) -> str:
    """A token that holds the values; the service allows 512 characters for an iterator."""
    payload = json.dumps(values, separators=(",", ":")).encode()
    return base64.b64encode(_digest(payload) + payload).decode("ascii")


def unseal(token: str) -> list[Value] | None:
    """The values of a token, or None if it is not one of this server's."""
    try:
        raw = base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError):
        return None
    digest, payload = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
    if not hmac.compare_digest(digest, _digest(payload)):
        return None
    values: list[Value] = json.loads(payload)
    return values


def _digest(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, key=_KEY, digest_size=_DIGEST_BYTES).digest()
