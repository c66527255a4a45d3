"""Where each shard of the first listing begins by the configuration: `start`, `shard_starts`, and what follows from it.

Whether a reshard happens just before the first listing or just after it makes no difference to what is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from shardlake.config import Pipeline
from shardlake.errors import ConfigError
from shardlake.kinesis.start import StartPolicy
from shardlake.shards import Shard
from shardlake.start_keys import AtTimestamp, ShardStart


def first_policies(pipeline: Pipeline, listed: Sequence[Shard], now_ms: int) -> dict[str, StartPolicy]:
    """The start of every shard of the first listing, by shard id.

    It is what `shard_starts` says. For a shard that is not named there, it is what follows from the nearest ones before
    it that are: whoever reads the end of a parent reads its children from their beginning, and from a time on both. A
    parent at `latest` is left out, and nothing follows from it. For all others it is `start`.

    Args:
        now_ms: the service's time, milliseconds since the epoch.

    Raises:
        ConfigError: `shard_starts` names a shard that is not listed, or a time lies in the future.
    """
    _check_times(pipeline, now_ms)
    _check_listed(pipeline.shard_starts, listed)
    policies: dict[str, StartPolicy] = {}
    following: dict[str, StartPolicy] = {}
    for shard in sorted(listed, key=lambda shard: shard.shard_id):  # parents before children
        named = pipeline.shard_starts.get(shard.shard_id)
        inherited = [following[parent] for parent in shard.parents if parent in following]
        policy = _policy(named) if named else _earliest(inherited) if inherited else _policy(pipeline.start)
        policies[shard.shard_id] = policy
        if policy != "latest" and (named or inherited):
            following[shard.shard_id] = policy if isinstance(policy, int) else "beginning"
    return policies


def _policy(start: ShardStart) -> StartPolicy:
    if isinstance(start, str):
        return start
    return start.at_ms if isinstance(start, AtTimestamp) else start.position


def _earliest(policies: list[StartPolicy]) -> StartPolicy:
    times = [policy for policy in policies if isinstance(policy, int)]
    return min(times) if len(times) == len(policies) else "beginning"


def _check_times(pipeline: Pipeline, now_ms: int) -> None:
    named = {f"shard_starts.{shard_id}": start for shard_id, start in pipeline.shard_starts.items()}
    for key, start in {"start": pipeline.start, **named}.items():
        # The service's clock shows whole seconds.
        if isinstance(start, AtTimestamp) and start.at_ms // 1000 > now_ms // 1000:
            raise ConfigError(
                f"pipeline {pipeline.name}: {key}.at_timestamp lies in the future",
                expected=f"not after {_utc(now_ms)}, the service's time",
                found=_utc(start.at_ms),
                todo="Set a time that has come, or latest",
            )


def _check_listed(named: Mapping[str, object], listed: Sequence[Shard]) -> None:
    ids = sorted(shard.shard_id for shard in listed)
    if unknown := sorted(named.keys() - ids):
        raise ConfigError(
            f"shard_starts names what the stream does not list, {', '.join(unknown)[:500]}",
            found=", ".join(ids)[:500],
            todo="Leave out shards that have expired",
        )


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="seconds")
