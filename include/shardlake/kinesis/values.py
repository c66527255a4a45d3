"""What replies say, as values of ours."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import numpy as np

from shardlake.errors import IngestError
from shardlake.kinesis.page import Page
from shardlake.kinesis.replies import Event, Record
from shardlake.shards import Shard


def page_of_reply(reply: dict[str, Any]) -> Page:
    """A reply to GetRecords, decoded by `replies`."""
    records: list[Record] = reply["Records"]
    arrivals_s = np.array([record.approximate_arrival_timestamp for record in records], np.float64)
    return Page(
        [record.sequence_number for record in records],
        [record.partition_key for record in records],
        np.rint(arrivals_s * 1000).astype(np.int64).tolist(),
        [record.data for record in records],
        reply["NextShardIterator"],
        reply["MillisBehindLatest"],
        service_time_ms(reply),
    )


def page_of_event(event: Event, at_ms: int) -> Page:
    """An event of a subscription, which has no time of its own.

    Args:
        at_ms: the service's time when it came, milliseconds since the epoch.
    """
    return Page(
        [record.sequence_number for record in event.records],
        [record.partition_key for record in event.records],
        [epoch_ms(record.approximate_arrival_timestamp) for record in event.records],
        [record.data for record in event.records],
        event.continuation_sequence_number,
        event.millis_behind_latest,
        at_ms,
    )


def epoch_ms(at: datetime) -> int:
    """A time as milliseconds since the epoch."""
    return round(at.timestamp() * 1000)


def service_time_ms(reply: dict[str, Any]) -> int:
    """When the service replied, by its own clock, milliseconds since the epoch, whole seconds.

    Raises:
        IngestError: the reply does not say.
    """
    date = reply["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        return epoch_ms(parsedate_to_datetime(date))
    except (ValueError, OverflowError) as exc:
        raise IngestError(
            "the service's reply does not say its time", expected="a Date header", found=repr(date[:80])
        ) from exc


def shard_of(description: dict[str, Any]) -> Shard:
    """A shard as ListShards describes it."""
    parents = (description.get("ParentShardId"), description.get("AdjacentParentShardId"))
    return Shard(
        shard_id=description["ShardId"],
        parents=tuple(parent for parent in parents if parent),
        starting_hash_key=description["HashKeyRange"]["StartingHashKey"],
        ending_hash_key=description["HashKeyRange"]["EndingHashKey"],
        starting_sequence_number=description["SequenceNumberRange"]["StartingSequenceNumber"],
        ending_sequence_number=description["SequenceNumberRange"].get("EndingSequenceNumber"),
    )
