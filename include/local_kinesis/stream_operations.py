"""The operations on streams: make, describe, list, reshard, change the retention, delete."""

import json
from typing import Any

from local_kinesis import reshard
from local_kinesis.account import Account
from local_kinesis.arguments import HASH_KEY, STREAM_NAME, Arguments
from local_kinesis.errors import InvalidArgumentException, LimitExceededException
from local_kinesis.listing import described, list_shards
from local_kinesis.stream import Stream

SHARD_LIMIT = 100_000
ON_DEMAND_SHARDS = 4
MAX_PAGE = 100
MIN_RETENTION_HOURS = 24
MAX_RETENTION_HOURS = 8760
# A reshard's reply, like all that say no more than that it was done, is an empty body.
DONE = b""


class StreamOperations:
    """Every operation returns the reply's body. Streams are ACTIVE as soon as the reply is there."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def create_stream(self, region: str, arguments: Arguments) -> bytes:
        """Makes a stream; an on-demand one begins with four shards, as in the service."""
        name = arguments.text("StreamName", STREAM_NAME)
        details = arguments.optional_structure("StreamModeDetails")
        mode = "PROVISIONED" if details is None else details.choice("StreamMode", "PROVISIONED", "ON_DEMAND")
        shard_count = arguments.optional_integer("ShardCount", 1, 2**31 - 1)
        if mode == "ON_DEMAND":
            if shard_count is not None:
                raise InvalidArgumentException("ShardCount must not be given for a stream in ON_DEMAND mode.")
            shard_count = ON_DEMAND_SHARDS
        if shard_count is None:
            raise InvalidArgumentException("ShardCount must be given for a stream in PROVISIONED mode.")
        if shard_count > SHARD_LIMIT:
            raise LimitExceededException(f"This server allows {SHARD_LIMIT} shards a stream, not {shard_count}.")
        max_record_kib = arguments.optional_integer("MaxRecordSizeInKiB", 1024, 10240) or 1024
        self._account.create(region, name, mode, shard_count, max_record_kib * 1024)
        return DONE

    def delete_stream(self, region: str, arguments: Arguments) -> bytes:
        """Removes a stream and its records at once."""
        self._account.delete(self._stream(region, arguments))
        return DONE

    def describe_stream(self, region: str, arguments: Arguments) -> bytes:
        """A stream and a page of its shards."""
        stream = self._stream(region, arguments)
        limit = _page_size(arguments)
        after = arguments.optional_text("ExclusiveStartShardId", STREAM_NAME) or ""
        shards = [shard for shard in stream.listed(self._account.clock.now_ms()) if shard.shard_id > after]
        description = _summary(stream) | {
            "Shards": [described(shard) for shard in shards[:limit]],
            "HasMoreShards": len(shards) > limit,
        }
        return json.dumps({"StreamDescription": description}).encode()

    def describe_stream_summary(self, region: str, arguments: Arguments) -> bytes:
        """A stream without its shards."""
        stream = self._stream(region, arguments)
        description = _summary(stream) | {
            "OpenShardCount": len(stream.open_shards),
            "ConsumerCount": 0,
            "MaxRecordSizeInKiB": stream.max_record_bytes // 1024,
        }
        return json.dumps({"StreamDescriptionSummary": description}).encode()

    def list_streams(self, region: str, arguments: Arguments) -> bytes:
        """A page of the region's streams; a NextToken is the page's last name."""
        limit = _page_size(arguments)
        after = arguments.optional_text("NextToken") or arguments.optional_text("ExclusiveStartStreamName") or ""
        streams = [stream for stream in self._account.streams(region) if stream.name > after]
        page = streams[:limit]
        reply: dict[str, Any] = {
            "StreamNames": [stream.name for stream in page],
            "StreamSummaries": [_identity(stream) for stream in page],
            "HasMoreStreams": len(streams) > limit,
        }
        if reply["HasMoreStreams"]:
            reply["NextToken"] = page[-1].name
        return json.dumps(reply).encode()

    def list_shards(self, region: str, arguments: Arguments) -> bytes:
        """See ``listing``."""
        return list_shards(self._account, region, arguments)

    def split_shard(self, region: str, arguments: Arguments) -> bytes:
        """Splits a shard at a hash key."""
        stream, now_ms = self._stream(region, arguments), self._account.clock.now_ms()
        shard = stream.shard(arguments.text("ShardToSplit", STREAM_NAME), now_ms)
        reshard.split(stream, shard, int(arguments.text("NewStartingHashKey", HASH_KEY)), now_ms)
        return DONE

    def merge_shards(self, region: str, arguments: Arguments) -> bytes:
        """Merges two neighbours."""
        stream, now_ms = self._stream(region, arguments), self._account.clock.now_ms()
        shard = stream.shard(arguments.text("ShardToMerge", STREAM_NAME), now_ms)
        adjacent = stream.shard(arguments.text("AdjacentShardToMerge", STREAM_NAME), now_ms)
        reshard.merge(stream, shard, adjacent, now_ms)
        return DONE

    def update_shard_count(self, region: str, arguments: Arguments) -> bytes:
        """Reshards to equal shards."""
        stream = self._stream(region, arguments)
        arguments.choice("ScalingType", "UNIFORM_SCALING")
        target = arguments.integer("TargetShardCount", 1, SHARD_LIMIT)
        current = len(stream.open_shards)
        reshard.resize(stream, target, self._account.clock.now_ms())
        reply = {
            "StreamName": stream.name,
            "StreamARN": stream.arn,
            "CurrentShardCount": current,
            "TargetShardCount": target,
        }
        return json.dumps(reply).encode()

    def increase_retention(self, region: str, arguments: Arguments) -> bytes:
        """Keeps records longer; what is gone stays gone."""
        stream, hours = self._stream(region, arguments), _retention_hours(arguments)
        if hours < stream.retention_hours:
            raise InvalidArgumentException(
                f"Requested retention period ({hours} hours) for stream {stream.name} can not be shorter than existing "
                f"retention period ({stream.retention_hours} hours). Use DecreaseRetentionPeriod API."
            )
        self._set_retention(stream, hours)
        return DONE

    def decrease_retention(self, region: str, arguments: Arguments) -> bytes:
        """Keeps records for a shorter time; what is older is gone at once."""
        stream, hours = self._stream(region, arguments), _retention_hours(arguments)
        if hours > stream.retention_hours:
            raise InvalidArgumentException(
                f"Requested retention period ({hours} hours) for stream {stream.name} can not be longer than existing "
                f"retention period ({stream.retention_hours} hours). Use IncreaseRetentionPeriod API."
            )
        self._set_retention(stream, hours)
        return DONE

    def update_max_record_size(self, region: str, arguments: Arguments) -> bytes:
        """Sets how large one record of the stream may be, up to 10 MiB."""
        stream = self._stream(region, arguments)
        stream.max_record_bytes = arguments.integer("MaxRecordSizeInKiB", 1024, 10240) * 1024
        return DONE

    def describe_limits(self, region: str, arguments: Arguments) -> bytes:
        """The region's shards, beside what this server allows."""
        streams = self._account.streams(region)
        reply = {
            "ShardLimit": SHARD_LIMIT,
            "OpenShardCount": sum(len(stream.open_shards) for stream in streams),
            "OnDemandStreamCount": sum(stream.mode == "ON_DEMAND" for stream in streams),
            "OnDemandStreamCountLimit": 50,
        }
        return json.dumps(reply).encode()

    def _set_retention(self, stream: Stream, hours: int) -> None:
        # What the old retention has let go must not come back under the new one.
        now_ms = self._account.clock.now_ms()
        for shard in stream.shards:
            stream.trim(shard, now_ms)
        stream.retention_hours = hours

    def _stream(self, region: str, arguments: Arguments) -> Stream:
        name = arguments.optional_text("StreamName", STREAM_NAME)
        return self._account.stream(region, name, arguments.optional_text("StreamARN"))


def _page_size(arguments: Arguments) -> int:
    # A larger Limit counts as 100 (API reference, DescribeStream and ListStreams).
    return min(arguments.optional_integer("Limit", 1, 10_000) or MAX_PAGE, MAX_PAGE)


def _retention_hours(arguments: Arguments) -> int:
    hours = arguments.integer("RetentionPeriodHours", -(2**31), 2**31 - 1)
    if not MIN_RETENTION_HOURS <= hours <= MAX_RETENTION_HOURS:
        raise InvalidArgumentException(
            f"Retention period must be between {MIN_RETENTION_HOURS} and {MAX_RETENTION_HOURS} hours, not {hours}."
        )
    return hours


def _identity(stream: Stream) -> dict[str, Any]:
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "StreamStatus": "ACTIVE",
        "StreamModeDetails": {"StreamMode": stream.mode},
        "StreamCreationTimestamp": stream.created_ms / 1000,
    }


def _summary(stream: Stream) -> dict[str, Any]:
    return _identity(stream) | {
        "RetentionPeriodHours": stream.retention_hours,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "NONE",
    }
