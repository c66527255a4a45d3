"""What a client does to its connection must be no other client's concern; tried over plain HTTP only."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any
from urllib.parse import urlsplit

from tests.conformance.behaviour import behaviour, verdict
from tests.conformance.stream import Stream

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@behaviour("The service goes on when a client resets its connection in the middle of a call.", answer="accepted")
def a_client_that_resets_harms_nobody(stream: Stream) -> Any:
    url = urlsplit(stream.client.meta.endpoint_url)
    if url.scheme == "http":
        with socket.create_connection((url.hostname, url.port), timeout=5) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: kinesis\r\nContent-Length: 1000\r\n\r\n{")
            time.sleep(0.2)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        time.sleep(0.2)
    return verdict(stream.summary)
