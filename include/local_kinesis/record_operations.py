"""PutRecord, PutRecords, GetShardIterator, GetRecords: records into shards and out of them again."""

import json
from dataclasses import replace

from local_kinesis.account import Account
from local_kinesis.arguments import STREAM_NAME, Arguments
from local_kinesis.behaviour import EMPTY_PAGES, Behaviour
from local_kinesis.errors import (
    InvalidArgumentException,
    ProvisionedThroughputExceededException,
    ResourceNotFoundException,
)
from local_kinesis.incoming import checked_record
from local_kinesis.iterators import ShardIterator, starting_position
from local_kinesis.limits import Limits, rate_exceeded
from local_kinesis.shard import Page, Shard
from local_kinesis.stats import Stats
from local_kinesis.stream import Stream

MAX_PAGE_RECORDS = 10_000
MAX_PAGE_BYTES = 10 * 2**20
MAX_PUT_RECORDS = 500
MAX_PUT_BYTES = 10 * 2**20


class RecordOperations:
    """The operations that move records; every one returns the reply's body."""

    def __init__(self, account: Account, behaviour: Behaviour, stats: Stats, limits: Limits) -> None:
        self._account = account
        self._behaviour = behaviour
        self._stats = stats
        self._limits = limits

    def put_record(self, region: str, arguments: Arguments) -> bytes:
        """Adds one record."""
        stream = self._stream(region, arguments)
        record = {name: arguments.optional_text(name) for name in ("PartitionKey", "Data", "ExplicitHashKey")}
        hash_key, key_json, data, size_bytes = checked_record(record, stream.max_record_bytes)
        shard = stream.shard_for(hash_key)
        if not self._limits.admits_record("PutRecord", stream, shard, size_bytes):
            raise ProvisionedThroughputExceededException(rate_exceeded(stream.name, shard.shard_id))
        number = shard.append(key_json, data, size_bytes, self._account.clock.now_ms())
        return json.dumps({"ShardId": shard.shard_id, "SequenceNumber": number}).encode()

    def put_records(self, region: str, arguments: Arguments) -> bytes:
        """Adds up to 500 records, all but those that are over a limit or that it is told to refuse."""
        stream = self._stream(region, arguments)
        records = arguments.structures("Records", 1, MAX_PUT_RECORDS)
        checked = [checked_record(record, stream.max_record_bytes) for record in records]
        if sum(size_bytes for *_, size_bytes in checked) > MAX_PUT_BYTES:
            raise InvalidArgumentException("Records size exceeds 10 MB limit")
        now_ms = self._account.clock.now_ms()
        results = []
        refused = 0
        for index, (hash_key, key_json, data, size_bytes) in enumerate(checked):
            shard = stream.shard_for(hash_key)
            if self._behaviour.refuses_put(index) or not self._limits.admits_record(
                "PutRecords", stream, shard, size_bytes
            ):
                refused += 1
                message = rate_exceeded(stream.name, shard.shard_id)
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
        self._limits.admit_iterator(stream, shard)
        after = starting_position(shard, arguments, now_ms)
        iterator = ShardIterator(stream.name, stream.created_ms, shard.index, after, now_ms)
        return json.dumps({"ShardIterator": iterator.token()}).encode()

    def get_records(self, region: str, arguments: Arguments) -> bytes:
        """A page and the next iterator; at a closed shard's end its children instead of an iterator."""
        limit = arguments.optional_integer("Limit", 1, MAX_PAGE_RECORDS) or MAX_PAGE_RECORDS
        now_ms = self._account.clock.now_ms()
        iterator, stream, shard = self._opened(region, arguments, now_ms)
        self._limits.admit_read(stream, shard)
        page, behind_ms, following = self._page(stream, shard, iterator, limit, now_ms)
        self._limits.count_read(stream, shard, page.bytes)
        self._stats.count_page(stream.name, shard.shard_id, len(page.fragments), page.bytes)
        return _reply(shard, page.fragments, behind_ms, following)

    def empty_page(self, region: str, arguments: Arguments, behind_ms: int) -> bytes:
        """A reply to GetRecords that has no records and leads to where the iterator stands."""
        now_ms = self._account.clock.now_ms()
        iterator, _, shard = self._opened(region, arguments, now_ms)
        return _reply(shard, [], behind_ms, replace(iterator, issued_ms=now_ms))

    def _opened(self, region: str, arguments: Arguments, now_ms: int) -> tuple[ShardIterator, Stream, Shard]:
        iterator = ShardIterator.opened(arguments.text("ShardIterator"), now_ms, self._behaviour.iterator_life_ms)
        stream = self._account.stream(region, iterator.stream, arguments.optional_text("StreamARN"))
        if stream.created_ms != iterator.stream_created_ms:
            raise ResourceNotFoundException(f"The stream {stream.name} of this ShardIterator has been deleted.")
        shard = stream.shards[iterator.shard_index]
        stream.trim(shard, now_ms)
        self._stats.count_shard_call("GetRecords", stream.name, shard.shard_id)
        return iterator, stream, shard

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


def _reply(shard: Shard, fragments: list[bytes], behind_ms: int, following: ShardIterator | None) -> bytes:
    parts = (
        f'{{"MillisBehindLatest":{behind_ms},"NextShardIterator":'.encode(),
        b"null" if following is None else f'"{following.token()}"'.encode(),
        b"" if following else b',"ChildShards":' + json.dumps([_child(child) for child in shard.children]).encode(),
        b',"Records":[',
        b",".join(fragments),
        b"]}",
    )
    return b"".join(parts)


def _child(shard: Shard) -> dict[str, object]:
    return {
        "ShardId": shard.shard_id,
        "ParentShards": [parent.shard_id for parent in shard.parents],
        "HashKeyRange": {"StartingHashKey": str(shard.hash_start), "EndingHashKey": str(shard.hash_end)},
    }
