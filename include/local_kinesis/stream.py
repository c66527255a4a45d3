"""A stream: its shards in the order of their ids, which of them takes a hash key, and its retention."""

from bisect import bisect_right
from collections.abc import Iterator

from local_kinesis.errors import ResourceNotFoundException
from local_kinesis.shard import Shard

ACCOUNT_ID = "000000000000"
HASH_KEYS = 2**128
MAX_RECORD_BYTES = 2**20
"""Data and partition key together, where a stream's maximum has not been raised."""


class Stream:
    """A stream of one region. Its creation time tells it from an earlier stream of the same name."""

    def __init__(self, region: str, name: str, mode: str, shard_count: int, created_ms: int, max_record_bytes: int):
        self.region = region
        self.name = name
        self.mode = mode
        self.created_ms = created_ms
        self.max_record_bytes = max_record_bytes
        self.retention_hours = 24
        self.arn = f"arn:aws:kinesis:{region}:{ACCOUNT_ID}:stream/{name}"
        bounds = uniform_bounds(shard_count)
        self.shards = [Shard(i, bounds[i], bounds[i + 1] - 1, created_ms) for i in range(shard_count)]
        self.open_shards = list(self.shards)
        """In the order of their hash keys."""
        self._hash_starts = bounds[:-1]

    def replace(self, closed: tuple[Shard, ...], opened: list[Shard]) -> None:
        """Lets new shards take the hash keys of neighbours that have been closed."""
        index = self.open_shards.index(min(closed, key=lambda shard: shard.hash_start))
        self.shards += opened
        self.open_shards[index : index + len(closed)] = opened
        self._hash_starts[index : index + len(closed)] = [shard.hash_start for shard in opened]

    def shard_for(self, hash_key: int) -> Shard:
        """The open shard that takes a hash key."""
        return self.open_shards[bisect_right(self._hash_starts, hash_key) - 1]

    def shard(self, shard_id: str, now_ms: int) -> Shard:
        """A listed shard.

        Raises:
            ResourceNotFoundException: there is none of this id, or it has expired.
        """
        number = shard_id.removeprefix("shardId-")
        if len(number) == 12 and number.isdecimal() and int(number) < len(self.shards):
            shard = self.shards[int(number)]
            self.trim(shard, now_ms)
            if shard.shard_id == shard_id and not shard.expired:
                return shard
        raise ResourceNotFoundException(
            f"Shard {shard_id} in stream {self.name} under account {ACCOUNT_ID} does not exist"
        )

    def listed(self, now_ms: int) -> Iterator[Shard]:
        """Every shard that is open or still holds records by its retention, in the order of the ids."""
        for shard in self.shards:
            self.trim(shard, now_ms)
            if not shard.expired:
                yield shard

    def horizon_ms(self, now_ms: int) -> int:
        """What arrived before this is gone."""
        return now_ms - self.retention_hours * 3_600_000

    def trim(self, shard: Shard, now_ms: int) -> None:
        """Lets the retention take effect on a shard; done whenever one looks at it."""
        shard.trim_arrived_before(self.horizon_ms(now_ms))


def uniform_bounds(shard_count: int) -> list[int]:
    """The starting hash keys of equal shards, and one more for the end."""
    return [HASH_KEYS * i // shard_count for i in range(shard_count + 1)]
