"""How a reply goes out when it does not simply go out: late, in pieces, cut short, or not at all."""

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import Literal

_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What happens to a reply on its way.

    Attributes:
        delay_ms: before the first byte.
        body_share: how much of the body is sent; None if not even the head is.
        piece_bytes, pause_ms: the body in pieces of this size, with pauses between; None for at once.
        ending: what becomes of the connection; ``reset`` is a TCP RST.
    """

    delay_ms: int = 0
    body_share: float | None = 1.0
    piece_bytes: int | None = None
    pause_ms: int = 0
    ending: Literal["keep", "close", "reset"] = "keep"


async def deliver(transport: asyncio.Transport, head: bytes, body: bytes, delivery: Delivery) -> None:
    """Sends a reply so; other connections are served meanwhile."""
    await asyncio.sleep(delivery.delay_ms / 1000)
    if delivery.body_share is not None:
        transport.write(head)
        body = body[: int(len(body) * delivery.body_share)]
        size = delivery.piece_bytes or len(body) or 1
        for start in range(0, len(body), size):
            if start:
                await asyncio.sleep(delivery.pause_ms / 1000)
            transport.write(body[start : start + size])
    if delivery.ending == "close":
        transport.close()
    elif delivery.ending == "reset":
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()
