"""How fast a reader takes a stream in: with its start-up, and without."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from bench.runs import BenchError, Taken
from bench.source import Source

STEADY = "start-up not counted: what one record a shard takes is subtracted"
STEADY_BY_ITSELF = "start-up not counted: from its first record on, as it says itself"
GB = 10**9


@dataclass(frozen=True, slots=True)
class Throughput:
    """Runs of one reader over one stream.

    Attributes:
        source: the stream.
        whole: runs over all of it.
        start: runs over as many shards with one record each.

    Raises:
        BenchError: the stream is too small for the difference to say anything.
    """

    source: Source
    whole: tuple[Taken, ...]
    start: tuple[Taken, ...]

    def __post_init__(self) -> None:
        if min(self._steady_s) <= 0:
            raise BenchError(f"start-up takes {self.start_s:.1f} s, the whole run no longer: the stream is too small")

    @property
    def start_s(self) -> float:
        """The median time of a run with next to nothing to read, seconds."""
        return median(each.wall_s for each in self.start)

    @property
    def start_cpu_s(self) -> float:
        """The median CPU of such a run, seconds."""
        return median(each.cpu_s for each in self.start)

    @property
    def _steady_s(self) -> tuple[float, ...]:
        return tuple(each.said.get("reading_s", each.wall_s - self.start_s) for each in self.whole)

    @property
    def steady(self) -> str:
        """How start-up was left out: a reader whose start takes now less and now more tells the time itself."""
        return STEADY_BY_ITSELF if "reading_s" in self.whole[0].said else STEADY

    @property
    def rates(self) -> tuple[float, ...]:
        """Records a second, start-up counted."""
        return tuple(self.source.records / each.wall_s for each in self.whole)

    @property
    def steady_rates(self) -> tuple[float, ...]:
        """Records a second, start-up not counted."""
        return tuple(self.source.records / seconds for seconds in self._steady_s)

    @property
    def record_us(self) -> tuple[float, ...]:
        """CPU per record, microseconds, start-up not counted."""
        return tuple(1e6 * (each.cpu_s - self.start_cpu_s) / self.source.records for each in self.whole)

    @property
    def gb_s(self) -> tuple[float, ...]:
        """CPU per GB of data, seconds, start-up counted."""
        return tuple(each.cpu_s * GB / self.source.data_bytes for each in self.whole)

    @property
    def server_cores(self) -> tuple[float, ...]:
        """How much of a core the local Kinesis takes meanwhile, start-up not counted."""
        start_s = median(each.server_cpu_s for each in self.start)
        return tuple(
            (each.server_cpu_s - start_s) / seconds for each, seconds in zip(self.whole, self._steady_s, strict=True)
        )


def throughput(read: Callable[[Source], Taken], large: Source, small: Source, repeats: int) -> Throughput:
    """Run a reader over both streams, as often as told."""
    runs: Iterable[tuple[Taken, Taken]] = [(read(small), read(large)) for _ in range(repeats)]
    start, whole = zip(*runs, strict=True)
    return Throughput(large, whole, start)
