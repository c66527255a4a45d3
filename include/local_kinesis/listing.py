"""ListShards: which shards a filter keeps, and pages whose tokens expire."""

import json
from dataclasses import astuple, dataclass, replace
from typing import Any, cast

from local_kinesis import tokens
from local_kinesis.account import Account
from local_kinesis.arguments import STREAM_NAME, Arguments
from local_kinesis.errors import ExpiredNextTokenException, InvalidArgumentException, ResourceNotFoundException
from local_kinesis.shard import Shard
from local_kinesis.stream import Stream

MAX_SHARDS = 1000
TOKEN_LIFE_MS = 300_000
FILTERS = ("AFTER_SHARD_ID", "AT_TRIM_HORIZON", "FROM_TRIM_HORIZON", "AT_LATEST", "AT_TIMESTAMP", "FROM_TIMESTAMP")


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing's token remembers.

    Attributes:
        filter_type: one of FILTERS, or None for all shards.
        filter_ms: the filter's time; the horizon for AT_TRIM_HORIZON as it was at the listing's first page.
        after: the last shard id of the page before; "" at the start.
    """

    stream: str
    stream_created_ms: int
    issued_ms: int
    page_size: int
    filter_type: str | None
    filter_ms: int
    after: str

    def keeps(self, shard: Shard) -> bool:
        """Whether the filter keeps a shard (API reference, ShardFilter)."""
        match self.filter_type:
            case "AT_LATEST":
                return shard.is_open
            case "AT_TRIM_HORIZON" | "AT_TIMESTAMP":
                return shard.created_ms <= self.filter_ms and self._open_later(shard)
            case "FROM_TIMESTAMP":
                return self._open_later(shard)
            case _:
                return True

    def _open_later(self, shard: Shard) -> bool:
        return shard.closed_ms is None or shard.closed_ms >= self.filter_ms


def list_shards(account: Account, region: str, arguments: Arguments) -> bytes:
    """One page of a listing, begun by a stream or carried on by a NextToken alone."""
    now_ms = account.clock.now_ms()
    token = arguments.optional_text("NextToken")
    if token is None:
        stream = account.stream(
            region, arguments.optional_text("StreamName", STREAM_NAME), arguments.optional_text("StreamARN")
        )
        listing = _begun(stream, arguments, now_ms)
    else:
        listing = _carried_on(token, arguments, now_ms)
        stream = account.stream(region, listing.stream)
        if stream.created_ms != listing.stream_created_ms:
            raise ResourceNotFoundException(f"The stream {stream.name} of this NextToken has been deleted.")
    # Ids of 12 digits and one prefix are in the order of their numbers as strings, too.
    kept = [s for s in stream.listed(now_ms) if s.shard_id > listing.after and listing.keeps(s)]
    page = kept[: listing.page_size]
    reply: dict[str, Any] = {"Shards": [described(shard) for shard in page]}
    if len(kept) > len(page):
        reply["NextToken"] = tokens.seal(*astuple(replace(listing, issued_ms=now_ms, after=page[-1].shard_id)))
    return json.dumps(reply).encode()


def described(shard: Shard) -> dict[str, Any]:
    """A shard as ListShards and DescribeStream show it."""
    numbers = {"StartingSequenceNumber": shard.numbers.text(0)}
    if shard.ending_ordinal is not None:
        numbers["EndingSequenceNumber"] = shard.numbers.text(shard.ending_ordinal)
    description: dict[str, Any] = {
        "ShardId": shard.shard_id,
        "HashKeyRange": {"StartingHashKey": str(shard.hash_start), "EndingHashKey": str(shard.hash_end)},
        "SequenceNumberRange": numbers,
    }
    for member, parent in zip(("ParentShardId", "AdjacentParentShardId"), shard.parents, strict=False):
        description[member] = parent.shard_id
    return description


def _begun(stream: Stream, arguments: Arguments, now_ms: int) -> Listing:
    created_ms = arguments.optional_time_ms("StreamCreationTimestamp")
    # boto3 sends whole seconds.
    if created_ms is not None and created_ms // 1000 != stream.created_ms // 1000:
        raise ResourceNotFoundException(f"Stream {stream.name} with this StreamCreationTimestamp not found.")
    # A larger MaxResults counts as 1,000 (API reference, ListShards).
    page_size = min(arguments.optional_integer("MaxResults", 1, 10_000) or MAX_SHARDS, MAX_SHARDS)
    listing = Listing(
        stream=stream.name,
        stream_created_ms=stream.created_ms,
        issued_ms=now_ms,
        page_size=page_size,
        filter_type=None,
        filter_ms=max(stream.horizon_ms(now_ms), stream.created_ms),
        after=arguments.optional_text("ExclusiveStartShardId", STREAM_NAME) or "",
    )
    shard_filter = arguments.optional_structure("ShardFilter")
    return listing if shard_filter is None else _filtered(listing, shard_filter)


def _filtered(listing: Listing, shard_filter: Arguments) -> Listing:
    listing = replace(listing, filter_type=shard_filter.choice("Type", *FILTERS))
    if listing.filter_type in ("AT_TIMESTAMP", "FROM_TIMESTAMP"):
        timestamp_ms = shard_filter.optional_time_ms("Timestamp")
        if timestamp_ms is None:
            raise InvalidArgumentException(
                f"Timestamp must be specified for a ShardFilter of type {listing.filter_type}."
            )
        return replace(listing, filter_ms=int(timestamp_ms))
    if listing.filter_type == "AFTER_SHARD_ID":
        return replace(listing, after=shard_filter.text("ShardId", STREAM_NAME))
    return listing


def _carried_on(token: str, arguments: Arguments, now_ms: int) -> Listing:
    beside = arguments.names() - {"NextToken", "MaxResults"}
    if beside:
        raise InvalidArgumentException(f"NextToken and {', '.join(sorted(beside))} cannot be provided together.")
    values = tokens.unseal(token)
    if values is None or len(values) != len(Listing.__slots__):
        raise InvalidArgumentException("Invalid NextToken.")
    listing = Listing(*cast(tuple[str, int, int, int, str | None, int, str], tuple(values)))
    if now_ms - listing.issued_ms > TOKEN_LIFE_MS:
        raise ExpiredNextTokenException(
            f"The NextToken was created at {listing.issued_ms}, more than {TOKEN_LIFE_MS} ms before {now_ms}."
        )
    page_size = arguments.optional_integer("MaxResults", 1, 10_000) or listing.page_size
    return replace(listing, page_size=min(page_size, MAX_SHARDS))
