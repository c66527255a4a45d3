"""The calls to the service, as typed values."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import boto3
from botocore.config import Config

from shardlake.errors import UnavailableError
from shardlake.kinesis.failures import KeyThrottledError, ListingExpiredError, translated
from shardlake.kinesis.page import Page
from shardlake.plan import Role, Stream
from shardlake.ranges import SequenceNumber
from shardlake.roles import assumed
from shardlake.shards import Shard

MAX_PAGE_RECORDS = 10_000
"""Most records of one GetRecords reply (API reference)."""

CONNECTIONS = 32
"""Calls under way at once from one client, at most."""

MAX_BACKOFF_S = 20
"""Longest wait between two tries of one call, as in botocore's standard retry mode."""

LISTINGS = 3
"""Tries at a complete listing, each of which may outlive its page token."""

NumberIterator = Literal["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"]


class Kinesis:
    """One stream of the service. Every method raises what `failures.translated` makes of the service's errors.

    Args:
        stream: name or ARN.
        region: the region it is in.
        endpoint_url: another endpoint than the region's own.
        attempts: tries per call, by botocore's standard retry mode (throttles, 5xx, lost connections; with jitter).
        session: a boto3 session with other credentials than the default chain's.
        role: the role in which the stream is read, assumed by whoever the session is.
    """

    def __init__(
        self,
        stream: str,
        region: str,
        endpoint_url: str | None,
        attempts: int = 5,
        session: boto3.Session | None = None,
        role: Role | None = None,
    ) -> None:
        self.region, self.endpoint_url, self._attempts, self._role = region, endpoint_url, attempts, role
        self.stream_name = stream.rpartition("/")[2]
        self._stream = {"StreamARN": stream} if stream.startswith("arn:") else {"StreamName": stream}
        config = Config(
            retries={"mode": "standard", "total_max_attempts": attempts},
            max_pool_connections=CONNECTIONS,
            connect_timeout=5,
            read_timeout=30,
        )
        self._endpoint = endpoint_url or region
        with self._errors():
            session = assumed(session, role, region) if role else session or boto3.Session()
            self._client = session.client(
                "kinesis", region_name=region, endpoint_url=endpoint_url, config=config
            )
        self._endpoint = endpoint_url or self._client.meta.endpoint_url

    def describe(self) -> tuple[Stream, int]:
        """The stream's ARN, creation time and retention; and the service's time, milliseconds since the epoch."""
        reply = self._call("describe_stream_summary", "StreamDescriptionSummary", **self._stream)
        summary = reply["StreamDescriptionSummary"]
        stream = Stream(
            name=summary["StreamName"],
            arn=summary["StreamARN"],
            created_at_ms=_epoch_ms(summary["StreamCreationTimestamp"]),
            retention_ms=summary["RetentionPeriodHours"] * 3_600_000,
            region=self.region,
            endpoint_url=self.endpoint_url,
            role=self._role,
        )
        return stream, _service_time_ms(reply)

    def list_shards(self) -> list[Shard]:
        """All shards that the stream still knows, open and closed, over all pages.

        A page token lives 300 s; when it has expired, the listing starts again.
        """
        for _ in range(LISTINGS):
            with contextlib.suppress(ListingExpiredError):
                return list(self._listing())
        raise UnavailableError(
            f"ListShards of {self.stream_name} took longer than its page token lives, {LISTINGS} times"
        )

    def _listing(self) -> Iterator[Shard]:
        request: dict[str, Any] = {**self._stream, "MaxResults": 1000}
        while True:
            reply = self._call("list_shards", "Shards", **request)
            yield from map(_shard, reply["Shards"])
            if not reply.get("NextToken"):
                return
            request = {"NextToken": reply["NextToken"], "MaxResults": 1000}

    def iterator_at(self, shard_id: str, kind: NumberIterator, number: SequenceNumber) -> str:
        """An iterator at, or after, a sequence number."""
        return self._iterator(shard_id, ShardIteratorType=kind, StartingSequenceNumber=number.text)

    def iterator_from_time(self, shard_id: str, at_ms: int) -> str:
        """An iterator at the first record that arrived in the second of that time, or later.

        botocore sends whole seconds, rounded down. A time before the horizon means the horizon; one in the service's
        future is refused.
        """
        at = datetime.fromtimestamp(at_ms // 1000, tz=UTC)
        return self._iterator(shard_id, ShardIteratorType="AT_TIMESTAMP", Timestamp=at)

    def iterator_at_horizon(self, shard_id: str) -> str:
        """An iterator at the oldest record that is still retained."""
        return self._iterator(shard_id, ShardIteratorType="TRIM_HORIZON")

    def _iterator(self, shard_id: str, **position: Any) -> str:
        reply = self._call("get_shard_iterator", "ShardIterator", **self._stream, ShardId=shard_id, **position)
        return str(reply["ShardIterator"])

    def get_records(self, iterator: str, limit: int = MAX_PAGE_RECORDS) -> Page:
        """One page of records."""
        reply = self._call("get_records", "Records", ShardIterator=iterator, Limit=limit)
        records = reply["Records"]
        return Page(
            [record["SequenceNumber"] for record in records],
            [record["PartitionKey"] for record in records],
            [_epoch_ms(record["ApproximateArrivalTimestamp"]) for record in records],
            [record["Data"] for record in records],
            reply.get("NextShardIterator"),
            reply.get("MillisBehindLatest", 0),
            _service_time_ms(reply),
        )

    def _call(self, operation: str, member: str, **request: Any) -> dict[str, Any]:
        """The reply to a call, with the member that every such reply has.

        Two failures botocore does not try again, so it is done here: KMS throttles; and a reply's body breaks off,
        which botocore gives as a reply without members: in a page of records that would be the end of a closed shard.
        """
        for left in reversed(range(self._attempts)):
            try:
                with self._errors():
                    reply: dict[str, Any] = getattr(self._client, operation)(**request)
                if member in reply:
                    return reply
            except KeyThrottledError:
                if not left:
                    raise
            if left:
                time.sleep(random.uniform(0, min(2 ** (self._attempts - left), MAX_BACKOFF_S)))  # noqa: S311 (jitter)
        raise UnavailableError(
            f"the replies of stream {self.stream_name} to {operation} break off, {self._attempts} times in a row",
            todo="Run the step again; check what lies between this machine and the service",
        )

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return translated(self.stream_name, self._endpoint)


def _epoch_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _service_time_ms(reply: dict[str, Any]) -> int:
    return _epoch_ms(parsedate_to_datetime(reply["ResponseMetadata"]["HTTPHeaders"]["date"]))


def _shard(description: dict[str, Any]) -> Shard:
    parents = (description.get("ParentShardId"), description.get("AdjacentParentShardId"))
    return Shard(
        shard_id=description["ShardId"],
        parents=tuple(parent for parent in parents if parent),
        starting_hash_key=description["HashKeyRange"]["StartingHashKey"],
        ending_hash_key=description["HashKeyRange"]["EndingHashKey"],
        starting_sequence_number=description["SequenceNumberRange"]["StartingSequenceNumber"],
        ending_sequence_number=description["SequenceNumberRange"].get("EndingSequenceNumber"),
    )
