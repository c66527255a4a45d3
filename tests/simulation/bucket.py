"""A bucket of S3 at boto3's edge: conditional puts, listings in order, and replies that are lost.

Grain: one object a key. What a put has acknowledged lasts; there is nothing to sync, and no power to lose.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ReadTimeoutError

from simulation.clock import SimulatedClock
from simulation.edge import reply

NAME = "bucket"
BUCKET_FAULTS = ("SlowDown", "InternalError", "ConditionalRequestConflict", "lost reply", "tried again")
"""What can befall a call. `tried again`: botocore has, since the first reply was lost, and gives the second."""

_STATUS = {"SlowDown": 503, "InternalError": 500, "ConditionalRequestConflict": 409}
Reply = tuple[int, bytes, Mapping[str, str]]


class Bucket:
    """The objects of one bucket, and what is about to befall the product's calls.

    Args:
        effect: called before each call of the product.
    """

    def __init__(self, clock: SimulatedClock, effect: Callable[[str], None]) -> None:
        self._clock, self._effect = clock, effect
        self.faults = deque[str]()
        self._objects: dict[str, tuple[int, bytes]] = {}
        self._versions = 0

    def files(self, folder: str) -> dict[str, int]:
        """The keys below a folder, each with a number that another object of the same key would not have."""
        return {key: version for key, (version, _) in self._objects.items() if key.startswith(f"{folder}/")}

    def read(self, key: str) -> bytes:
        """The content of a file."""
        return self._objects[key][1]

    def write(self, key: str, content: bytes | None) -> None:
        """Put a file in place, or take it away, from outside of the simulation."""
        self._objects.pop(key, None)
        if content is not None:
            self._versions += 1
            self._objects[key] = self._versions, content

    def answer(self, request: AWSPreparedRequest) -> AWSResponse:
        """The reply to a call of the product's client.

        Raises:
            ReadTimeoutError: the reply is lost.
        """
        url = urlsplit(request.url)
        key = unquote(url.path).removeprefix(f"/{NAME}").removeprefix("/")
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        self._effect(f"s3 {request.method} {key or query.get('prefix', '')}")
        fault = self.faults.popleft() if self.faults else "none"
        if fault in _STATUS:
            return reply(self._clock, request, *_refusal(_STATUS[fault], fault))
        answer = self._answer(request, key, query)
        if fault == "lost reply":
            raise ReadTimeoutError(endpoint_url=request.url)
        if fault == "tried again":
            answer = self._answer(request, key, query)
        return reply(self._clock, request, *answer)

    def _answer(self, request: AWSPreparedRequest, key: str, query: Mapping[str, str]) -> Reply:
        match request.method:
            case "GET" if "list-type" in query:
                return 200, self._listing(query).encode(), {}
            case "GET" if "uploads" in query:
                return 200, b"<ListMultipartUploadsResult/>", {}
            case "GET":
                return self._get(key, request)
            case "PUT":
                return self._put(key, request)
            case "POST":
                return 200, b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>", {}
        if "uploadId" not in query:
            self._objects.pop(key, None)
        return 204, b"", {}

    def _put(self, key: str, request: AWSPreparedRequest) -> Reply:
        if "If-None-Match" in request.headers and key in self._objects:
            return _refusal(412, "PreconditionFailed")
        body = request.body
        if not isinstance(body, bytes | bytearray):
            body.seek(0)
            body = body.read()
        self.write(key, bytes(body))
        return 200, b"", {"ETag": f'"{self._versions}"'}

    def _get(self, key: str, request: AWSPreparedRequest) -> Reply:
        if key not in self._objects:
            return _refusal(404, "NoSuchKey")
        version, content = self._objects[key]
        if _text(request.headers.get("If-Match", f'"{version}"')) != f'"{version}"':
            return _refusal(412, "PreconditionFailed")
        headers = {"ETag": f'"{version}"'}
        asked = _text(request.headers.get("Range", ""))
        if not asked:
            return 200, content, headers | {"Content-Length": str(len(content))}
        first, _, last = asked.removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(0, len(content) - int(last))
        part = content[begin : int(last) + 1 if first and last else None]
        headers["Content-Range"] = f"bytes {begin}-{begin + len(part) - 1}/{len(content)}"
        return 206, part, headers | {"Content-Length": str(len(part))}

    def _listing(self, query: Mapping[str, str]) -> str:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        keys = sorted(key for key in self._objects if key.startswith(prefix) and key > query.get("start-after", ""))
        folders, own = dict[str, None](), list[str]()
        for key in keys:
            head, found, _ = key.removeprefix(prefix).partition(delimiter or "\0")
            folders.update({f"{prefix}{head}/": None} if found else {})
            own += [] if found else [key]
        return (
            f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(self._items(own, folders))}</ListBucketResult>"
        )

    def _items(self, keys: list[str], folders: Mapping[str, None]) -> Iterator[str]:
        for key in keys:
            yield f"<Contents><Key>{escape(key)}</Key><Size>{len(self._objects[key][1])}</Size></Contents>"
        for folder in folders:
            yield f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"


def _refusal(status: int, code: str) -> Reply:
    body = f"<Error><Code>{escape(code)}</Code><Message>as the simulation wants it</Message></Error>"
    return status, body.encode(), {}


def _text(header: str | bytes) -> str:
    return header.decode() if isinstance(header, bytes) else header
