"""The calls to the service, as typed values."""

from __future__ import annotations

import contextlib
import copy
import logging
import random
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import boto3
from botocore.config import Config

from shardlake.errors import UnavailableError
from shardlake.kinesis.budget import Budget
from shardlake.kinesis.failures import ListingExpiredError, translated
from shardlake.kinesis.http2 import subscribe_over_http2
from shardlake.kinesis.page import Page
from shardlake.kinesis.replies import decode_records, documented_events
from shardlake.kinesis.values import epoch_ms, page_of_event, page_of_reply, service_time_ms, shard_of
from shardlake.plan import Role, Stream
from shardlake.ranges import SequenceNumber
from shardlake.roles import assumed
from shardlake.shards import Shard

MAX_PAGE_RECORDS = 10_000
"""Most records of one GetRecords reply (API reference)."""

CONNECTIONS = 32
"""Calls under way at once from one client, at most."""

FIRST_BACKOFF_S = 0.25
"""Longest wait before the second try of a call."""

BACKOFF_GROWTH = 1.5
"""How many times as long before each further one: a shard that gave out too much is back after a second, and waits that
double would often sleep through another."""

MAX_BACKOFF_S = 5.0
"""Longest wait of all: for as long, one reply of 10 MiB keeps a shard's readers out (service limits)."""

TOLD_FAILURES = 4
"""At which failure of a call the log tells of it."""

PLANNING_S = 60.0
"""How long planning, and whatever else is no reading of a range, goes on without a page from any shard.

For all shards together, however many: where the service gives nothing out, one after another is left out at once.
"""

LISTINGS = 3
"""Tries at a complete listing, each of which may outlive its page token."""

log = logging.getLogger(__name__)

NumberIterator = Literal["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer that is registered with a stream, for enhanced fan-out."""

    arn: str
    status: str


class Kinesis:
    """One stream of the service. Every method raises what `failures.translated` makes of the service's errors.

    Args:
        stream: name or ARN.
        region: the region it is in.
        endpoint_url: another endpoint than the region's own.
        session: a boto3 session with other credentials than the default chain's.
        role: the role in which the stream is read, assumed by whoever the session is.

    Attributes:
        budget: how long calls that fail are tried again.
        called_at_s: when the last call began, or its last try, by the monotonic clock.
        refused_at_s: when a try last began that failed, since `within`; None: none did.
    """

    called_at_s = 0.0
    refused_at_s: float | None = None

    def __init__(
        self,
        stream: str,
        region: str,
        endpoint_url: str | None,
        session: boto3.Session | None = None,
        role: Role | None = None,
    ) -> None:
        self.region, self.endpoint_url, self._role = region, endpoint_url, role
        self.budget = Budget(PLANNING_S)
        self.stream_name = stream.rpartition("/")[2]
        self._arn = {"StreamARN": stream} if stream.startswith("arn:") else {}
        self._stream = self._arn or {"StreamName": stream}
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},  # while botocore waits, a page would stay in hand
            max_pool_connections=CONNECTIONS,
            connect_timeout=5,
            read_timeout=30,
        )
        self._endpoint = endpoint_url or region
        with self._errors():
            session = assumed(session, role, region) if role else session or boto3.Session()
            self._client = session.client("kinesis", region_name=region, endpoint_url=endpoint_url, config=config)
        decode_records(self._client)
        subscribe_over_http2(self._client)
        self._endpoint = endpoint_url or self._client.meta.endpoint_url

    def within(self, budget: Budget) -> Kinesis:
        """The same client with another budget."""
        other = copy.copy(self)
        other.budget, other.refused_at_s = budget, None
        return other

    def describe(self) -> tuple[Stream, int]:
        """The stream's ARN, creation time and retention; and the service's time, milliseconds since the epoch."""
        reply = self._call("describe_stream_summary", "StreamDescriptionSummary", **self._stream)
        summary = reply["StreamDescriptionSummary"]
        stream = Stream(
            name=summary["StreamName"],
            arn=summary["StreamARN"],
            created_at_ms=epoch_ms(summary["StreamCreationTimestamp"]),
            retention_ms=summary["RetentionPeriodHours"] * 3_600_000,
            region=self.region,
            endpoint_url=self.endpoint_url,
            role=self._role,
        )
        return stream, service_time_ms(reply)

    def list_shards(self) -> list[Shard]:
        """All shards that the stream still knows, open and closed, over all pages.

        A page token lives 300 s; when it has expired, the listing starts again.
        """
        return self._listed()

    def shards_at_horizon(self) -> list[Shard]:
        """The shards that were open already when the oldest records that may be retained arrived (ShardFilter)."""
        return self._listed(ShardFilter={"Type": "AT_TRIM_HORIZON"})

    def _listed(self, **of: Any) -> list[Shard]:
        for _ in range(LISTINGS):
            with contextlib.suppress(ListingExpiredError):
                return list(self._listing(of))
        raise UnavailableError(
            f"ListShards of {self.stream_name} took longer than its page token lives, {LISTINGS} times"
        )

    def _listing(self, of: dict[str, Any]) -> Iterator[Shard]:
        request: dict[str, Any] = {**self._stream, **of, "MaxResults": 1000}
        while True:
            reply = self._call("list_shards", "Shards", **request)
            yield from map(shard_of, reply["Shards"])
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
        return page_of_reply(self._call("get_records", "Records", ShardIterator=iterator, Limit=limit, **self._arn))

    def subscribe(self, consumer_arn: str, shard_id: str, number: SequenceNumber) -> Generator[Page, None, None]:
        """The events of one subscription at a sequence number, empty ones included, for as long as it lasts.

        Nothing is tried again here. An event has no time of its own: the service's is that of the reply, and what has
        passed since.
        """
        position = {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": number.text}
        request = {"ConsumerARN": consumer_arn, "ShardId": shard_id, "StartingPosition": position}
        reply = self._reply("subscribe_to_shard", "EventStream", request)
        since_ms = service_time_ms(reply) - time.monotonic() * 1000
        with self._errors(), contextlib.closing(reply["EventStream"]) as events:
            for event in documented_events(events):
                yield page_of_event(event, round(since_ms + time.monotonic() * 1000))

    def consumers(self, stream_arn: str) -> dict[str, Consumer]:
        """The stream's registered consumers, by name."""
        found: dict[str, Consumer] = {}
        request = {"StreamARN": stream_arn}
        while True:
            reply = self._call("list_stream_consumers", "ResponseMetadata", **request)
            for each in reply.get("Consumers", ()):
                found[each["ConsumerName"]] = Consumer(each["ConsumerARN"], each["ConsumerStatus"])
            if not reply.get("NextToken"):
                return found
            request = {"StreamARN": stream_arn, "NextToken": reply["NextToken"]}

    def register_consumer(self, stream_arn: str, name: str, tags: Mapping[str, str]) -> None:
        """Have a consumer of this name made; it is CREATING for a while."""
        self._call("register_stream_consumer", "Consumer", StreamARN=stream_arn, ConsumerName=name, Tags=dict(tags))

    def consumer_tags(self, consumer_arn: str) -> dict[str, str]:
        """The tags of a consumer."""
        tags = self._call("list_tags_for_resource", "Tags", ResourceARN=consumer_arn)["Tags"]
        return {tag["Key"]: tag.get("Value", "") for tag in tags}

    def deregister_consumer(self, consumer_arn: str) -> None:
        """Have a consumer removed; it is DELETING for a while."""
        self._call("deregister_stream_consumer", "ResponseMetadata", ConsumerARN=consumer_arn)

    def _call(self, operation: str, member: str, **request: Any) -> dict[str, Any]:
        """The reply to a call, with the member that every such reply has; tried again within the budget."""
        backoff_s, failures = FIRST_BACKOFF_S, 0
        while True:
            self.called_at_s = time.monotonic()
            try:
                return self._reply(operation, member, request)
            except UnavailableError as failure:
                self.refused_at_s = self.called_at_s
                failures += 1
                if failures == TOLD_FAILURES:
                    log.warning("%s; trying again", failure.what)
                self.budget.wait(random.uniform(0, backoff_s), failure)  # noqa: S311 (jitter)
            backoff_s = min(BACKOFF_GROWTH * backoff_s, MAX_BACKOFF_S)

    def _reply(self, operation: str, member: str, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one try.

        When a reply's body breaks off, botocore gives a reply without members. In a page of records that would be the
        end of a closed shard.
        """
        with self._errors():
            reply: dict[str, Any] = getattr(self._client, operation)(**request)
        if member in reply:
            return reply
        raise UnavailableError(
            f"the reply of stream {self.stream_name} to {operation} breaks off",
            todo="Run the step again; check what lies between this machine and the service",
        )

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return translated(self.stream_name, self._endpoint)
