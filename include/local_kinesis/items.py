"""Where a producer's records come from: the lines of a file, or made-up JSON at a rate."""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from local_kinesis.produce import Item

BURST_S = 0.05


def file_items(path: Path, partition_key_field: str | None) -> Iterator[Item]:
    """A file's lines without their ends, empty ones left out.

    The partition key is a JSON line's field, or, where there is none or it is null, a hash of the line.
    """
    with path.open("rb") as lines:
        for line in lines:
            data = line.rstrip(b"\r\n")
            if data:
                yield _partition_key(data, partition_key_field), data


def made_up_items(record_bytes: int) -> Iterator[Item]:
    """JSON records without end, numbered from 0, each of a length (or the least that holds a number)."""
    number = 0
    while True:
        key = f"key-{number % 9973}"
        start = f'{{"number":{number},"key":"{key}","filler":"'
        yield key, (start + "x" * (record_bytes - len(start) - 2) + '"}').encode("ascii")
        number += 1


def bursts(items: Iterable[Item], rate: float | None) -> Iterator[Iterable[Item]]:
    """The items in the portions in which they are due at a rate per second; all at once without one."""
    if rate is None:
        yield items
        return
    remaining = iter(items)
    started = time.monotonic()
    sent = 0
    while True:
        due = int((time.monotonic() - started) * rate) - sent
        burst = list(islice(remaining, due))
        if due and not burst:
            return
        sent += len(burst)
        if burst:
            yield burst
        time.sleep(max(BURST_S, 1 / rate))


def _partition_key(line: bytes, field: str | None) -> str:
    if field is not None:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        value = record.get(field) if isinstance(record, dict) else None
        if value is not None:
            return str(value)
    return hashlib.sha256(line).hexdigest()[:32]
