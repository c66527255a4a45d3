"""The calls to the service, as typed values, with its errors translated into ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import boto3
import botocore.exceptions
from botocore.config import Config

from shardlake.errors import ConfigError, IngestError, ShardlakeError, UnavailableError
from shardlake.plan import Stream
from shardlake.ranges import SequenceNumber
from shardlake.shards import Shard

MAX_PAGE_RECORDS = 10_000
"""Most records of one GetRecords reply (API reference)."""

CONNECTIONS = 32
"""Calls under way at once from one client, at most."""

NumberIterator = Literal["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"]

_REFUSED = (
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidSignatureException",
    "KMSAccessDeniedException",
    "MissingAuthenticationTokenException",
    "OptInRequired",
    "UnrecognizedClientException",
)
_PASSING = (
    "InternalFailure",
    "InternalFailureException",
    "KMSThrottlingException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestTimeout",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
)


class IteratorExpiredError(IngestError):
    """A shard iterator is older than five minutes: get another one behind the last record."""


class InvalidPositionError(ConfigError):
    """The service refuses a position, such as a timestamp in its future."""


@dataclass(frozen=True, slots=True)
class Page:
    """One GetRecords reply, column by column, in sequence order.

    Attributes:
        sequence_numbers: texts as the service gave them.
        arrivals_ms: ApproximateArrivalTimestamp, milliseconds since the epoch; neither exact nor ordered.
        next_iterator: None at the end of a closed shard (boto3 leaves the key out, other clients give null).
        millis_behind_latest: 0 means that nothing follows these records yet.
        service_time_ms: the reply's Date header, milliseconds since the epoch, whole seconds.
    """

    sequence_numbers: list[str]
    partition_keys: list[str]
    arrivals_ms: list[int]
    data: list[bytes]
    next_iterator: str | None
    millis_behind_latest: int
    service_time_ms: int

    def __len__(self) -> int:
        return len(self.sequence_numbers)

    @property
    def at_end(self) -> bool:
        """Whether the shard is closed and this is its last page."""
        return self.next_iterator is None

    @property
    def at_tip(self) -> bool:
        """Whether nothing was left behind these records when the service answered."""
        return self.at_end or self.millis_behind_latest == 0

    def number(self, row: int) -> SequenceNumber:
        """The sequence number of a row."""
        return SequenceNumber(self.sequence_numbers[row])

    def rows(self, start: int, stop: int | None = None) -> Page:
        """The page with the rows from `start` to `stop` only."""
        cut = slice(start, stop)
        return Page(
            self.sequence_numbers[cut],
            self.partition_keys[cut],
            self.arrivals_ms[cut],
            self.data[cut],
            self.next_iterator,
            self.millis_behind_latest,
            self.service_time_ms,
        )


class Kinesis:
    """One stream of the service.

    Args:
        stream: name or ARN.
        region: the region it is in.
        endpoint_url: another endpoint than the region's own.
        attempts: tries per call, by botocore's standard retry mode (throttles, 5xx, lost connections; with jitter).
        session: a boto3 session with other credentials than the default chain's.
    """

    def __init__(
        self,
        stream: str,
        region: str,
        endpoint_url: str | None,
        attempts: int = 5,
        session: boto3.Session | None = None,
    ) -> None:
        self.region, self.endpoint_url = region, endpoint_url
        self.stream_name = stream.rpartition("/")[2]
        self._stream = {"StreamARN": stream} if stream.startswith("arn:") else {"StreamName": stream}
        config = Config(
            retries={"mode": "standard", "total_max_attempts": attempts},
            max_pool_connections=CONNECTIONS,
            connect_timeout=5,
            read_timeout=30,
        )
        with self._errors():
            self._client = (session or boto3.Session()).client(
                "kinesis", region_name=region, endpoint_url=endpoint_url, config=config
            )

    def describe(self) -> tuple[Stream, int]:
        """The stream's ARN, creation time and retention; and the service's time, milliseconds since the epoch.

        Raises:
            ConfigError: there is no such stream, or no access to it.
            UnavailableError: the endpoint does not answer.
        """
        with self._errors():
            reply = self._client.describe_stream_summary(**self._stream)
        summary = reply["StreamDescriptionSummary"]
        stream = Stream(
            name=summary["StreamName"],
            arn=summary["StreamARN"],
            created_at_ms=_epoch_ms(summary["StreamCreationTimestamp"]),
            retention_ms=summary["RetentionPeriodHours"] * 3_600_000,
            region=self.region,
            endpoint_url=self.endpoint_url,
        )
        return stream, _service_time_ms(reply)

    def list_shards(self) -> list[Shard]:
        """All shards that the stream still knows, open and closed, over all pages.

        A page token lives 300 s; when it has expired, the listing starts again.
        """
        for _ in range(3):
            with contextlib.suppress(self._client.exceptions.ExpiredNextTokenException), self._errors():
                return list(self._listing())
        raise UnavailableError(f"ListShards of {self.stream_name} took longer than its page token lives, three times")

    def _listing(self) -> Iterator[Shard]:
        request: dict[str, Any] = {**self._stream, "MaxResults": 1000}
        while True:
            reply = self._client.list_shards(**request)
            yield from map(_shard, reply["Shards"])
            if not reply.get("NextToken"):
                return
            request = {"NextToken": reply["NextToken"], "MaxResults": 1000}

    def iterator_at(self, shard_id: str, kind: NumberIterator, number: SequenceNumber) -> str:
        """An iterator at, or after, a sequence number."""
        return self._iterator(shard_id, ShardIteratorType=kind, StartingSequenceNumber=number.text)

    def iterator_from_time(self, shard_id: str, at_ms: int) -> str:
        """An iterator at the first record that arrived at that time or later; before the horizon means the horizon.

        Raises:
            InvalidPositionError: the time lies in the service's future.
        """
        at = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
        return self._iterator(shard_id, ShardIteratorType="AT_TIMESTAMP", Timestamp=at)

    def iterator_at_horizon(self, shard_id: str) -> str:
        """An iterator at the oldest record that is still retained."""
        return self._iterator(shard_id, ShardIteratorType="TRIM_HORIZON")

    def _iterator(self, shard_id: str, **position: Any) -> str:
        with self._errors():
            reply = self._client.get_shard_iterator(**self._stream, ShardId=shard_id, **position)
        return str(reply["ShardIterator"])

    def get_records(self, iterator: str, limit: int = MAX_PAGE_RECORDS) -> Page:
        """One page of records.

        Raises:
            IteratorExpiredError: the iterator is older than five minutes.
        """
        with self._errors():
            reply = self._client.get_records(ShardIterator=iterator, Limit=limit)
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

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except botocore.exceptions.ClientError as exc:
            if exc.response["Error"]["Code"] == "ExpiredNextTokenException":
                raise
            raise self._translated(exc) from exc
        except (botocore.exceptions.NoCredentialsError, botocore.exceptions.PartialCredentialsError) as exc:
            raise ConfigError(
                f"no AWS credentials for stream {self.stream_name}",
                todo="Set them for the default chain (environment, profile, role), or name aws_conn_id",
            ) from exc
        except botocore.exceptions.HTTPClientError as exc:
            raise UnavailableError(
                f"the Kinesis endpoint {self._endpoint} does not answer ({type(exc).__name__})",
                todo="Check region, endpoint_url and the network",
            ) from exc
        except (botocore.exceptions.BotoCoreError, ValueError) as exc:
            raise ConfigError(f"the Kinesis client for {self._endpoint} cannot be used: {exc}") from exc

    @property
    def _endpoint(self) -> str:
        return self.endpoint_url or f"of region {self.region}"

    def _translated(self, exc: botocore.exceptions.ClientError) -> ShardlakeError:
        code, message = exc.response["Error"]["Code"], exc.response["Error"].get("Message", "")
        said = f"{exc.operation_name} on stream {self.stream_name}: {code}: {message}"
        if code == "ExpiredIteratorException":
            return IteratorExpiredError(said)
        if code == "InvalidArgumentException":
            return InvalidPositionError(said)
        if code == "ResourceNotFoundException":
            return ConfigError(
                f"stream {self.stream_name} is not there in region {self.region}, at {self._endpoint}",
                found=message,
                todo="Check stream, region and account",
            )
        if code in _REFUSED:
            return ConfigError(
                f"no access: {said}",
                todo="Grant kinesis:DescribeStreamSummary, ListShards, GetShardIterator and GetRecords on the stream",
            )
        if code in _PASSING or exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
            return UnavailableError(said)
        return IngestError(said)


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
