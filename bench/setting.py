"""What all goals are measured with: sizes, a folder, the peers' environment, and one stream for throughput."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bench.pipeline import ingest
from bench.sizes import Sizes
from bench.source import Source, filled, kinesis
from bench.throughput import Throughput, throughput

PEERS = Path(__file__).parents[1] / ".bench"
"""Where the peers' environment is."""

PAGE_RECORDS = 4_000
"""The most on a page of that stream, whoever reads it: of 500 bytes each about what the product asks for."""


@dataclass
class Bench:
    """A run of the bench; a context manager, which ends the servers that it has started.

    Attributes:
        folder: for datasets, ledgers and logs; wiped by whoever made it.
        say: tells a person what is going on.
    """

    sizes: Sizes
    folder: Path
    say: Callable[[str], None]
    _open: ExitStack = field(default_factory=ExitStack, init=False)
    _numbers: itertools.count[int] = field(default_factory=itertools.count, init=False)

    def __enter__(self) -> Bench:
        with kinesis() as server:  # what only the first job of a machine does: it leaves an archive of Spark's classes
            ingest(filled(server, "first", 1, 1, self.sizes.record_bytes), self.place("first"))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def place(self, name: str) -> Path:
        """A path that is not there yet."""
        return self.folder / f"{next(self._numbers):03}-{name}"

    @property
    def peers_python(self) -> Path | None:
        """The peers' Python; None where their environment is not installed."""
        python = PEERS / "bin" / "python"
        return python if python.exists() else None

    @cached_property
    def large(self) -> Source:
        """The stream that throughput is measured on."""
        sizes = self.sizes
        self.say(f"filling {sizes.shards} shards with {sizes.shard_bytes // 2**20} MiB each")
        server = self._open.enter_context(kinesis())
        server.control({"page_limit": PAGE_RECORDS})
        return filled(server, "large", sizes.shards, sizes.shard_bytes // sizes.record_bytes, sizes.record_bytes)

    @cached_property
    def small(self) -> Source:
        """A stream of as many shards with next to nothing on them: what reading it takes is start-up."""
        return filled(self.large.server, "small", self.sizes.shards, 1, self.sizes.record_bytes)

    @cached_property
    def ours(self) -> Throughput:
        """The pipeline's runs over both streams."""
        return throughput(
            lambda source: ingest(source, self.place("pipeline")), self.large, self.small, self.sizes.repeats
        )
