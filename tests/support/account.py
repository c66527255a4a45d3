"""Another account, on the loopback interface: its STS, and its Kinesis, which lets nobody read but in its role.

Signatures are not checked; whose key signed, and with which token, is.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support.serving import serving

ROLE = "arn:aws:iam::000000000000:role/stream-reader"
EXTERNAL_ID = "lake:42"

RENEWED_S = 600
"""Credentials that expire sooner are renewed before they sign anything (botocore, mandatory refresh)."""

_SCOPE = re.compile(r"Credential=(?P<key_id>[^/]*)/[0-9]*/(?P<region>[^/]*)/")


def given(key_id: str, life_s: int) -> str:
    """The body of STS's reply, with credentials."""
    expiration = (datetime.now(UTC) + timedelta(seconds=life_s)).isoformat(timespec="seconds")
    return f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<AssumedRoleUser><AssumedRoleId>AROA:x</AssumedRoleId><Arn>{ROLE}/x</Arn></AssumedRoleUser>
<Credentials><AccessKeyId>{key_id}</AccessKeyId><SecretAccessKey>secret-of-{key_id}</SecretAccessKey>
<SessionToken>token-of-{key_id}</SessionToken><Expiration>{expiration}</Expiration></Credentials>
</AssumeRoleResult></AssumeRoleResponse>"""


def refused(code: str) -> str:
    """The body of STS's reply, with an error."""
    return f"<ErrorResponse><Error><Code>{code}</Code><Message>so told</Message></Error></ErrorResponse>"


@dataclass(frozen=True)
class Asked:
    """An AssumeRole: who asked, in which region, and for what."""

    key_id: str
    region: str
    request: dict[str, str]


@dataclass(frozen=True)
class Call:
    """A call to Kinesis that was let through, and who signed it."""

    key_id: str
    operation: str
    request: dict[str, Any]


@dataclass
class Account:
    """The account as it runs.

    Attributes:
        endpoint_url: of both services.
        caller: the key that the role's trust policy names.
        life_s: how long credentials in the role last. Those that last less than `RENEWED_S` botocore renews before
            each call; those before the last are refused then.
        answers: what STS answers next instead of credentials, status and body each.
        asked: what STS was asked.
        calls: what Kinesis was asked and did not refuse.
        issued: the keys that were given out.
    """

    endpoint_url: str
    caller: str = "test"
    life_s: int = 3600
    answers: list[tuple[int, str]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)

    def operations(self) -> set[str]:
        """What Kinesis was asked since this was last called."""
        found = {call.operation for call in self.calls}
        self.calls.clear()
        return found

    def assume_role(self, key_id: str, region: str, request: dict[str, str]) -> tuple[int, str]:
        """What STS answers."""
        self.asked.append(Asked(key_id, region, request))
        if self.answers:
            return self.answers.pop(0)
        if (key_id, request["RoleArn"], request.get("ExternalId")) != (self.caller, ROLE, EXTERNAL_ID):
            return 403, refused("AccessDenied")
        self.issued.append(f"ASIA{len(self.issued):016}")
        return 200, given(self.issued[-1], self.life_s)

    def may_read(self, key_id: str, token: str | None) -> bool:
        """Whether these are credentials in the role that have not expired."""
        valid = self.issued if self.life_s >= RENEWED_S else self.issued[-1:]
        return key_id in valid and token == f"token-of-{key_id}"


@contextmanager
def account_of(kinesis_url: str) -> Iterator[Account]:
    """Runs an account in front of a Kinesis."""
    upstream = urlsplit(kinesis_url).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            scope = _SCOPE.search(self.headers["Authorization"])
            assert scope
            target = self.headers.get("X-Amz-Target")
            if target is None:
                query = {name: value for name, value in parse_qsl(body.decode()) if name not in ("Action", "Version")}
                status, text = account.assume_role(scope["key_id"], scope["region"], query)
                self.answer(status, {"Content-Type": "text/xml"}, text.encode())
            elif account.may_read(scope["key_id"], self.headers.get("X-Amz-Security-Token")):
                account.calls.append(Call(scope["key_id"], target.partition(".")[2], json.loads(body)))
                self.forward(body)
            else:
                refusal = {"__type": "AccessDeniedException", "message": f"{scope['key_id']} is not the role's"}
                self.answer(400, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(refusal).encode())

        def forward(self, body: bytes) -> None:
            connection = http.client.HTTPConnection(upstream, timeout=30)
            connection.request("POST", "/", body, dict(self.headers.items()))
            reply = connection.getresponse()
            content = reply.read()
            connection.close()
            hop = ("connection", "content-length", "transfer-encoding")
            self.answer(reply.status, {n: v for n, v in reply.getheaders() if n.lower() not in hop}, content)

        def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response_only(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with serving(Handler) as place:
        account = Account(f"http://{place}")
        yield account
