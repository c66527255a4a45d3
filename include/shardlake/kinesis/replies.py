"""Replies and the events of subscriptions, checked to be as documented; those of GetRecords are decoded, too.

That takes 1 µs of CPU a record of 500 bytes, where botocore's parser takes 18, and checks no types. botocore keeps the
call (credentials, signing, retries, TLS, proxies) and every reply that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec

from shardlake.errors import IngestError, UnavailableError
from shardlake.names import SHARD_ID
from shardlake.ranges import DIGITS

_YEAR_10000_S = 253_402_300_800

_ShardId = Annotated[str, msgspec.Meta(pattern=rf"^{SHARD_ID.pattern}\Z")]
_Number = Annotated[str, msgspec.Meta(pattern=rf"^(?=0*[1-9])[0-9]{{1,{DIGITS}}}\Z")]
_HashKey = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,39}\Z")]
_Time = Annotated[float, msgspec.Meta(ge=0, lt=_YEAR_10000_S)]


class Record(msgspec.Struct, rename="pascal", gc=False):
    """A record as the service sends it (API reference, Record); `data` is no longer base64."""

    sequence_number: str
    partition_key: str
    approximate_arrival_timestamp: _Time
    data: bytes


class _Records(msgspec.Struct, rename="pascal"):
    records: list[Record] | None = None
    next_shard_iterator: str | None = None
    millis_behind_latest: Annotated[int, msgspec.Meta(ge=0)] = 0


class EventRecord(msgspec.Struct, rename="pascal"):
    """A record of an event, as botocore's parser gives it."""

    sequence_number: _Number
    partition_key: str
    approximate_arrival_timestamp: Annotated[datetime, msgspec.Meta(tz=True)]
    data: bytes


class Event(msgspec.Struct, rename="pascal"):
    """An event of a subscription (API reference, SubscribeToShardEvent); without a number to go on from, its last."""

    records: list[EventRecord] = []
    continuation_sequence_number: str | None = None
    millis_behind_latest: Annotated[int, msgspec.Meta(ge=0)] = 0


# What is checked of the others; a reply without its one member is one that broke off.


class _Iterator(msgspec.Struct, rename="pascal"):
    shard_iterator: Annotated[str, msgspec.Meta(min_length=1)] | None = None


class _Summary(msgspec.Struct, rename="pascal"):
    stream_name: str
    stream_arn: str = msgspec.field(name="StreamARN")
    retention_period_hours: Annotated[int, msgspec.Meta(ge=1, le=8760)]
    stream_creation_timestamp: _Time


class _Description(msgspec.Struct, rename="pascal"):
    stream_description_summary: _Summary | None = None


class _HashKeys(msgspec.Struct, rename="pascal"):
    starting_hash_key: _HashKey
    ending_hash_key: _HashKey


class _Numbers(msgspec.Struct, rename="pascal"):
    starting_sequence_number: _Number
    ending_sequence_number: _Number | None = None


class _Shard(msgspec.Struct, rename="pascal"):
    shard_id: _ShardId
    hash_key_range: _HashKeys
    sequence_number_range: _Numbers
    parent_shard_id: _ShardId | None = None
    adjacent_parent_shard_id: _ShardId | None = None


class _Listing(msgspec.Struct, rename="pascal"):
    shards: list[_Shard] | None = None
    next_token: str | None = None


class _Error(msgspec.Struct):
    kind: str = msgspec.field(name="__type", default="")
    message: str | None = None
    Message: str | None = None


_AN_ERROR = msgspec.json.Decoder(_Error)
_OTHERS = {"DescribeStreamSummary": _Description, "GetShardIterator": _Iterator, "ListShards": _Listing}


def documented_events(events: Iterable[dict[str, Any]]) -> Iterator[Event]:
    """The events of a subscription, as botocore parses them one by one.

    Raises:
        IngestError: one is not as documented; also from botocore's parser, which says so by all kinds of errors.
    """
    parsed = iter(events)
    while True:
        try:
            event = next(parsed, None)
            if event is None:
                return
            checked = msgspec.convert(event["SubscribeToShardEvent"], Event)
        except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as exc:
            raise IngestError(
                f"SubscribeToShard replied otherwise than documented: {exc}", todo="Check endpoint_url"
            ) from exc
        yield checked


def decode_records(client: Any) -> None:
    """Have a boto3 client give the `Records` of GetRecords as `Record`, and refuse replies that are not as documented.

    The client's calls then raise an IngestError where a reply is JSON, and not as documented.
    """
    for operation, documented in {"GetRecords": _Records, **_OTHERS}.items():
        check = partial(_check, operation, msgspec.json.Decoder(documented))
        client.meta.events.register(f"before-parse.kinesis.{operation}", check)


def _check(
    operation: str,
    decoder: msgspec.json.Decoder[Any],
    response_dict: dict[str, Any],
    customized_response_dict: dict[str, Any],
    **_: Any,
) -> None:
    """Take the body out of a good reply of GetRecords, so that botocore's parser finds nothing to do.

    Raises:
        IngestError: the reply is JSON, and not as documented; UnavailableError where its status says to try again.
    """
    refused, passing = response_dict["status_code"] >= 300, response_dict["status_code"] >= 500
    try:
        reply = (_AN_ERROR if refused else decoder).decode(response_dict["body"])
    except msgspec.ValidationError as exc:
        kind = UnavailableError if passing else IngestError  # a gateway's words may be JSON, too
        raise kind(f"{operation} replied otherwise than documented: {exc}", todo="Check endpoint_url") from exc
    except msgspec.DecodeError:
        if not refused:  # broken off, or no JSON that anyone but botocore takes: a reply without members
            response_dict["body"] = b"{}"
        return
    if isinstance(reply, _Records) and reply.records is not None:
        _check_numbers(reply.records)
        response_dict["body"] = b"{}"
        customized_response_dict |= {
            "Records": reply.records,
            "NextShardIterator": reply.next_shard_iterator,
            "MillisBehindLatest": reply.millis_behind_latest,
        }


def _check_numbers(records: list[Record]) -> None:
    """Check that sequence numbers are: all at once, for a pattern takes as long as all else of a record's decoding.

    Of their order, only that the last does not come before the first: planning needs no more, reading looks at all.

    Raises:
        IngestError: they are not.
    """
    numbers = [record.sequence_number for record in records]
    lengths = set(map(len, numbers)) or {1}
    text = "".join(numbers) or "0"
    decimal = text.isascii() and text.encode().isdigit() and min(lengths) >= 1 and max(lengths) <= DIGITS
    if not decimal or (numbers and not min(numbers).strip("0")):  # of texts of digits, those of zero sort first
        raise IngestError(
            "GetRecords replied otherwise than documented: a sequence number is positive, of up to 56 decimal digits",
            todo="Check endpoint_url",
        )
    if numbers and int(numbers[-1]) < int(numbers[0]):
        raise IngestError(
            "GetRecords replied otherwise than documented: records are out of order", todo="Check endpoint_url"
        )
