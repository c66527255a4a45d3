"""URLs without their secrets, for messages and logs."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

# The password ends at the last @ of a run without spaces; only where there is none, at the next @ of the line. Where
# a URL and a mail address share a line that may hide too much, never too little.
_USERINFO = re.compile(r"(?P<head>[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s:@]*):(?:\S*@|[^\n@]*@)")
_SECRET = r"(?:password|passwd|pwd|token|secret|sslpassword)"  # noqa: S105 (parameter names)
_QUERY = re.compile(rf"(?i)(?P<head>[?&]{_SECRET}=)[^&\s]*")

_WHOLE_USERINFO = re.compile(r"[^/?#:@]*:(?P<password>[^\n]*)@")


def redact(text: str) -> str:
    """`text` with the passwords of all URLs in it replaced by `***`."""
    return _QUERY.sub(r"\g<head>***", _USERINFO.sub(r"\g<head>:***@", text))


def has_password(url: str) -> bool:
    """Whether a URL carries a non-empty password, as user info or as a query parameter."""
    userinfo = _WHOLE_USERINFO.match(url.partition("://")[2])
    query = parse_qsl(url.partition("?")[2])
    return bool(userinfo and userinfo["password"]) or any(re.fullmatch(_SECRET, key, re.IGNORECASE) for key, _ in query)
