"""Races on a database: threads, each with connections of its own, that chance delays between any two statements."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event

from shardlake.errors import ShardlakeError

T = TypeVar("T")

BOUNDARIES = ("engine_connect", "before_cursor_execute", "commit")
LONGEST_DELAY_S = 0.003


@contextmanager
def delayed(seed: int) -> Iterator[None]:
    """Every other time, whoever connects, asks or commits waits for a while first."""
    chance = random.Random(seed)

    def delay(*_: Any) -> None:
        if chance.random() < 0.5:
            time.sleep(chance.uniform(0, LONGEST_DELAY_S))

    for boundary in BOUNDARIES:
        event.listen(sa.Engine, boundary, delay)
    try:
        yield
    finally:
        for boundary in BOUNDARIES:
            event.remove(sa.Engine, boundary, delay)


def at_once(calls: Sequence[Callable[[], T]]) -> list[T | ShardlakeError]:
    """What the calls return, or which error of ours ends them, in their order; they start together."""
    gate = threading.Barrier(len(calls))

    def call(it: Callable[[], T]) -> T | ShardlakeError:
        gate.wait()
        try:
            return it()
        except ShardlakeError as exc:
            return exc

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


class Held:
    """Something done in a thread that stops before its n-th transaction, holding none, until it is let go."""

    def __init__(self, call: Callable[[], object], before: int) -> None:
        self._before, self._call = before, call
        self._arrived, self._let_go = threading.Event(), threading.Event()
        self.stopped = False
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Held:
        event.listen(sa.Engine, "engine_connect", self._connected)
        self._thread.start()
        assert self._arrived.wait(60), "neither stopped nor over"
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go.set()
        self._thread.join(60)
        event.remove(sa.Engine, "engine_connect", self._connected)
        assert not self._thread.is_alive(), "it hangs"

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as exc:
            self.failure = exc
        self._arrived.set()

    def _connected(self, _: sa.Connection) -> None:
        if threading.current_thread() is not self._thread:
            return
        self._before -= 1
        if self._before == 0:
            self.stopped = True
            self._arrived.set()
            assert self._let_go.wait(60), "never let go"
