"""Counting what is done to disk, object store and ledger, and ending the process between any two effects."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from shardlake.ledger.memory import MemoryLedger

LEDGER_EFFECTS = (
    *("claim", "open_backfill", "record_listing", "pin", "commit"),
    *("declare_lost", "abandon", "record", "restore"),
)
S3_EFFECTS = {
    *("PutObject", "DeleteObject"),
    *("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload"),
}


class Killed(BaseException):
    """The process is gone: nothing in it can hold this up."""


class Effects:
    """Counts what is done to disk and ledger, and ends the process before the n-th of it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._last: int | None = None
        self._lock = threading.Lock()

    def before(self, name: str) -> None:
        with self._lock:
            if self._last is not None and len(self.done) >= self._last:
                raise Killed(name)
            self.done.append(name)

    @contextmanager
    def until(self, last: int | None) -> Iterator[None]:
        """Ends the process, without any clearing up, before the effect that comes after `last` of them."""
        self.done, self._last = [], last
        try:
            yield
        except Killed:
            pass
        finally:
            self._last = None


def counted_effects(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Effects:
    """The effects of everything that runs in this process from now on, temporary files going to a folder."""
    counted = Effects()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def wrap(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def effect(*arguments: Any, **named: Any) -> Any:
            counted.before(name)
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, effect)

    for name in LEDGER_EFFECTS:
        wrap(MemoryLedger, name)
    for name in ("replace", "unlink", "mkdir"):
        wrap(Path, name)
    wrap(os, "link")
    wrap(shutil, "rmtree")
    wrap(tempfile, "mkstemp")
    call = BaseClient._make_api_call

    def called(client: BaseClient, operation: str, arguments: Any) -> Any:
        if operation in S3_EFFECTS:
            counted.before(operation)
        return call(client, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", called)
    return counted
