"""URLs without their secrets, for messages and logs."""

import re

_USERINFO = re.compile(r"(?P<head>[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s:@]*):(?P<password>[^\s]*)@")
_QUERY = re.compile(r"(?i)([?&](?:password|passwd|token|secret|sslpassword)=)([^&\s]*)")


def redact(text: str) -> str:
    """`text` with the passwords of all URLs in it replaced by `***`."""
    return _QUERY.sub(r"\1***", _USERINFO.sub(r"\g<head>:***@", text))


def has_password(url: str) -> bool:
    """Whether a URL carries a non-empty password, as user info or as a query parameter."""
    return any(match[2] for pattern in (_USERINFO, _QUERY) for match in pattern.finditer(url))
