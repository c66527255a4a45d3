"""Event streams that come over HTTP/2, cut where botocore reads them best."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardlake.kinesis.http2 import whole_events
from support.event_stream import event

EVENTS = [event("SubscribeToShardEvent", {"Data": "x" * size}) for size in (0, 3, 70_000, 1)]


@pytest.mark.parametrize("size", [1, 3, 16_384, 1_000_000])
def test_each_event_comes_whole_and_as_soon_as_it_is_there(size: int) -> None:
    stream = b"".join(EVENTS)
    taken: list[bytes] = []

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(stream), size):
            taken.append(stream[start : start + size])
            yield taken[-1]

    cut = whole_events(pieces())
    for count, expected in enumerate(EVENTS, start=1):
        assert next(cut) == expected
        assert sum(map(len, taken)) < sum(map(len, EVENTS[:count])) + size
    assert list(cut) == [b""]


@pytest.mark.parametrize("stream", [b"", b"\0" * 40, b'{"__type": "AccessDeniedException"}', EVENTS[2][:-1]])
def test_what_is_no_event_comes_all_the_same(stream: bytes) -> None:
    assert b"".join(whole_events([stream[:7], stream[7:]])) == stream
