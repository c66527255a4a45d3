"""Counts of calls, per operation and per shard, and of what GetRecords returned."""

from collections import Counter, defaultdict


class Stats:
    """Counts since the start or the last reset. Streams of the same name in two regions share their counts."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begins again at zero."""
        self._operations: Counter[str] = Counter()
        self._shards: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        self._returned: Counter[str] = Counter()

    def count_call(self, operation: str) -> None:
        """Counts a call, whatever it will be answered."""
        self._operations[operation] += 1

    def count_shard_call(self, operation: str, stream: str, shard_id: str) -> None:
        """Counts a call that was found to concern a shard."""
        self._shards[stream][shard_id][operation] += 1

    def count_page(self, stream: str, shard_id: str, records: int, size_bytes: int) -> None:
        """Counts what a GetRecords call returned."""
        for counts in (self._shards[stream][shard_id], self._returned):
            counts["records"] += records
            counts["bytes"] += size_bytes

    def snapshot(self) -> dict[str, object]:
        """What ``GET /_local/stats`` shows.

        ``operations``: calls by name. ``shards``: by stream and shard id: GetRecords, GetShardIterator, records, bytes,
        and what limits refused: GetRecordsThrottled, GetShardIteratorThrottled (calls), PutRecordThrottled,
        PutRecordsThrottled (records).
        ``records`` and ``bytes``: of all shards together.
        """
        return {
            "operations": dict(self._operations),
            "shards": {
                stream: {shard_id: dict(counts) for shard_id, counts in shards.items()}
                for stream, shards in self._shards.items()
            },
            "records": self._returned["records"],
            "bytes": self._returned["bytes"],
        }
