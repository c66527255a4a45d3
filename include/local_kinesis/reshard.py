"""Split, merge, and resizing to equal shards by splits and merges.

As in the service, parents are closed at once, their data stays readable, and writes go to the children. Resizing may
make short-lived shards, which count towards the listing (API reference, UpdateShardCount).
"""

from itertools import pairwise

from local_kinesis.errors import InvalidArgumentException
from local_kinesis.shard import Shard
from local_kinesis.stream import ACCOUNT_ID, Stream, uniform_bounds


def split(stream: Stream, shard: Shard, new_hash_start: int, now_ms: int) -> None:
    """Opens two children in place of a shard, the second beginning at a hash key."""
    if not shard.is_open:
        raise InvalidArgumentException(f"Shard {shard.shard_id} in stream {stream.name} is closed and cannot be split")
    if not shard.hash_start < new_hash_start <= shard.hash_end:
        raise InvalidArgumentException(
            f"NewStartingHashKey {new_hash_start} used in SplitShard() on shard {shard.shard_id} in stream "
            f"{stream.name} under account {ACCOUNT_ID} must be greater than the shard's "
            f"StartingHashKey {shard.hash_start} and not greater than its EndingHashKey {shard.hash_end}."
        )
    bounds = (shard.hash_start, new_hash_start, shard.hash_end + 1)
    _replace(stream, (shard,), bounds, now_ms)


def merge(stream: Stream, shard: Shard, adjacent: Shard, now_ms: int) -> None:
    """Opens one child in place of two neighbours."""
    low, high = sorted((shard, adjacent), key=lambda each: each.hash_start)
    if not (shard.is_open and adjacent.is_open and low.hash_end + 1 == high.hash_start):
        raise InvalidArgumentException(
            f"Shards {shard.shard_id} and {adjacent.shard_id} in stream {stream.name} under account {ACCOUNT_ID} "
            "are not an adjacent pair of shards eligible for merging"
        )
    _replace(stream, (shard, adjacent), (low.hash_start, high.hash_end + 1), now_ms)


def resize(stream: Stream, target: int, now_ms: int) -> None:
    """Splits at each border that equal shards would have, then merges what lies between two such borders."""
    current = len(stream.open_shards)
    if not current <= 2 * target <= 4 * current:
        raise InvalidArgumentException(
            "UpdateShardCount cannot scale up over double, or down below half, your current open shard count. "
            f"Current open shard count: {current} Target shard count: {target}"
        )
    bounds = uniform_bounds(target)
    for bound in bounds[1:-1]:
        shard = stream.shard_for(bound)
        if shard.hash_start != bound:
            split(stream, shard, bound, now_ms)
    for low, high in pairwise(bounds):
        shard = stream.shard_for(low)
        while shard.hash_end + 1 != high:
            merge(stream, shard, stream.shard_for(shard.hash_end + 1), now_ms)
            shard = stream.shard_for(low)


def _replace(stream: Stream, parents: tuple[Shard, ...], bounds: tuple[int, ...], now_ms: int) -> None:
    # A child's numbers begin with its creation time, which must not be before a parent's: a stream's may lie ahead of
    # the clock by a moment (see ``Account.create``).
    created_ms = max(now_ms, *(parent.created_ms for parent in parents))
    for parent in parents:
        parent.close(created_ms)
    first_index = len(stream.shards)
    children = [
        Shard(first_index + i, start, stop - 1, created_ms, parents) for i, (start, stop) in enumerate(pairwise(bounds))
    ]
    for parent in parents:
        parent.children += children
    stream.replace(parents, children)
