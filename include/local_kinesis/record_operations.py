"""PutRecord, PutRecords, GetShardIterator, GetRecords: records into shards and out of them again."""

import hashlib
import json
from binascii import a2b_base64
from dataclasses import replace
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any

from local_kinesis.account import Account
from local_kinesis.arguments import HASH_KEY, STREAM_NAME, Arguments
from local_kinesis.behaviour import EMPTY_PAGES, Behaviour
from local_kinesis.errors import (
    InvalidArgumentException,
    ResourceNotFoundException,
    SerializationException,
    ValidationException,
)
from local_kinesis.iterators import ShardIterator, starting_position
from local_kinesis.shard import Page, Shard
from local_kinesis.stats import Stats
from local_kinesis.stream import HASH_KEYS, Stream

MAX_PAGE_RECORDS = 10_000
MAX_PAGE_BYTES = 10 * 2**20
MAX_PUT_RECORDS = 500
MAX_PUT_BYTES = 5 * 2**20

# What one record of a Put needs: its shard's hash key, its key as JSON, its data as base64, its size.
_Checked = tuple[int, str, str, int]


class RecordOperations:
    """The operations that move records; every one returns the reply's body."""

    def __init__(self, account: Account, behaviour: Behaviour, stats: Stats) -> None:
        self._account = account
        self._behaviour = behaviour
        self._stats = stats

    def put_record(self, region: str, arguments: Arguments) -> bytes:
        """Adds one record."""
        stream = self._stream(region, arguments)
        record = {name: arguments.optional_text(name) for name in ("PartitionKey", "Data", "ExplicitHashKey")}
        hash_key, key_json, data, size_bytes = _checked(record, stream.max_record_bytes)
        shard = stream.shard_for(hash_key)
        number = shard.append(key_json, data, size_bytes, self._account.clock.now_ms())
        return json.dumps({"ShardId": shard.shard_id, "SequenceNumber": number}).encode()

    def put_records(self, region: str, arguments: Arguments) -> bytes:
        """Adds up to 500 records, all of them or, where it is told to refuse some, all the others."""
        stream = self._stream(region, arguments)
        records = arguments.structures("Records", 1, MAX_PUT_RECORDS)
        checked = [_checked(record, stream.max_record_bytes) for record in records]
        # A stream that takes larger records takes larger calls, or such a record could not be put.
        if sum(size_bytes for *_, size_bytes in checked) > max(MAX_PUT_BYTES, stream.max_record_bytes):
            raise InvalidArgumentException("Records size exceeds 5 MB limit")
        now_ms = self._account.clock.now_ms()
        results = []
        refused = 0
        for index, (hash_key, key_json, data, size_bytes) in enumerate(checked):
            shard = stream.shard_for(hash_key)
            if self._behaviour.refuses_put(index):
                refused += 1
                message = f"Rate exceeded for shard {shard.shard_id} in stream {stream.name} under account."
                results.append(f'{{"ErrorCode":"ProvisionedThroughputExceededException","ErrorMessage":"{message}"}}')
            else:
                number = shard.append(key_json, data, size_bytes, now_ms)
                results.append(f'{{"SequenceNumber":"{number}","ShardId":"{shard.shard_id}"}}')
        return f'{{"FailedRecordCount":{refused},"Records":[{",".join(results)}]}}'.encode("ascii")

    def get_shard_iterator(self, region: str, arguments: Arguments) -> bytes:
        """Begins a chain of iterators."""
        stream = self._stream(region, arguments)
        now_ms = self._account.clock.now_ms()
        shard = stream.shard(arguments.text("ShardId", STREAM_NAME), now_ms)
        self._stats.count_shard_call("GetShardIterator", stream.name, shard.shard_id)
        after = starting_position(shard, arguments, now_ms)
        iterator = ShardIterator(stream.name, stream.created_ms, shard.index, after, now_ms)
        return json.dumps({"ShardIterator": iterator.token()}).encode()

    def get_records(self, region: str, arguments: Arguments) -> bytes:
        """A page and the next iterator; at a closed shard's end its children instead of an iterator."""
        token = arguments.text("ShardIterator")
        limit = arguments.optional_integer("Limit", 1, MAX_PAGE_RECORDS) or MAX_PAGE_RECORDS
        now_ms = self._account.clock.now_ms()
        iterator = ShardIterator.opened(token, now_ms, self._behaviour.iterator_life_ms)
        stream = self._account.stream(region, iterator.stream, arguments.optional_text("StreamARN"))
        if stream.created_ms != iterator.stream_created_ms:
            raise ResourceNotFoundException(f"The stream {stream.name} of this ShardIterator has been deleted.")
        shard = stream.shards[iterator.shard_index]
        stream.trim(shard, now_ms)
        page, behind_ms, following = self._page(stream, shard, iterator, limit, now_ms)
        self._stats.count_shard_call("GetRecords", stream.name, shard.shard_id)
        self._stats.count_page(stream.name, shard.shard_id, len(page.fragments), page.bytes)
        parts = (
            f'{{"MillisBehindLatest":{behind_ms},"NextShardIterator":'.encode(),
            b"null" if following is None else f'"{following.token()}"'.encode(),
            b"" if following else b',"ChildShards":' + json.dumps([_child(child) for child in shard.children]).encode(),
            b',"Records":[',
            b",".join(page.fragments),
            b"]}",
        )
        return b"".join(parts)

    def _page(
        self, stream: Stream, shard: Shard, iterator: ShardIterator, limit: int, now_ms: int
    ) -> tuple[Page, int, ShardIterator | None]:
        behaviour = self._behaviour
        if behaviour.retention_behaviour == EMPTY_PAGES and iterator.owes_trimmed_page(shard, behaviour):
            near_retention_ms = stream.retention_hours * 3_600_000 - 1
            served = iterator.trimmed_pages_served + 1
            following = replace(iterator, issued_ms=now_ms, trimmed_pages_served=served)
            return Page([], iterator.after, 0, None), near_retention_ms, following
        limit = min(limit, behaviour.page_limit or limit)
        page = shard.read(iterator.after, limit, MAX_PAGE_BYTES)
        if page.fragments and iterator.owes_empty_page(behaviour):
            page = shard.read(iterator.after, 0, MAX_PAGE_BYTES)
            following = iterator.after_empty_page(behaviour, now_ms)
        elif page.next_arrival_ms is None and not shard.is_open:
            return page, 0, None
        else:
            following = replace(iterator, issued_ms=now_ms, after=page.after)
        behind_ms = 0 if page.next_arrival_ms is None else max(1, now_ms - page.next_arrival_ms)
        return page, behind_ms, following

    def _stream(self, region: str, arguments: Arguments) -> Stream:
        name = arguments.optional_text("StreamName", STREAM_NAME)
        return self._account.stream(region, name, arguments.optional_text("StreamARN"))


def _checked(record: dict[str, Any], max_bytes: int) -> _Checked:
    key, data = record.get("PartitionKey"), record.get("Data")
    if key is None or data is None:
        raise ValidationException(
            "1 validation error detected: Value null at 'partitionKey' or 'data' of a record failed to satisfy "
            "constraint: Member must not be null"
        )
    if not isinstance(key, str) or not isinstance(data, str):
        raise SerializationException("a record's PartitionKey and Data must be strings")
    if not 1 <= len(key) <= 256:
        raise ValidationException(
            f"1 validation error detected: Value at 'partitionKey' of {len(key)} characters failed to satisfy "
            "constraint: Member must have length between 1 and 256"
        )
    try:
        # Decoded once, to know that the text can be spliced into replies as it is, and how long the data is.
        size_bytes = len(a2b_base64(data, strict_mode=True)) + len(key.encode())
    except ValueError as exc:
        raise SerializationException(f"a record's Data is not base64, or its PartitionKey not Unicode: {exc}") from exc
    if size_bytes > max_bytes:
        raise InvalidArgumentException(
            f"A record of {size_bytes} bytes, its partition key included, is larger than the stream's {max_bytes} bytes"
        )
    explicit = record.get("ExplicitHashKey")
    hash_key = _hash_key(key) if explicit is None else _explicit_hash_key(explicit)
    return hash_key, encode_basestring_ascii(key), data, size_bytes


@lru_cache(maxsize=65_536)
def _hash_key(partition_key: str) -> int:
    return int.from_bytes(hashlib.md5(partition_key.encode(), usedforsecurity=False).digest(), "big")


def _explicit_hash_key(text: object) -> int:
    if not isinstance(text, str) or not HASH_KEY.fullmatch(text) or int(text) >= HASH_KEYS:
        raise InvalidArgumentException(
            f"Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value was {text}"
        )
    return int(text)


def _child(shard: Shard) -> dict[str, object]:
    return {
        "ShardId": shard.shard_id,
        "ParentShards": [parent.shard_id for parent in shard.parents],
        "HashKeyRange": {"StartingHashKey": str(shard.hash_start), "EndingHashKey": str(shard.hash_end)},
    }
