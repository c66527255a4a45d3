"""The stream of a soak: steady input that is written down once acknowledged, faults, and resharding."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from local_kinesis.process import LocalKinesis
from local_kinesis.produce import put_all
from shardlake.ranges import SequenceNumber

STREAM = "soak"
RECORDS_PER_S = 150
MOST_SHARDS = 5
READING = ("GetRecords", "GetShardIterator", "ListShards", "DescribeStreamSummary")
_FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "throttle"},
    {"kind": "throttle", "error": "KMSThrottlingException"},
    {"kind": "server_error"},
    {"kind": "reset"},
    {"kind": "reset", "at": "middle"},
    {"kind": "lost_reply"},
    {"kind": "truncated_body"},
    {"kind": "cut_json"},
)
_FAULTS_OF_GET_RECORDS: tuple[dict[str, Any], ...] = (
    {"kind": "slow", "piece_bytes": 4096, "pause_ms": 1},
    {"kind": "empty_page"},
    {"kind": "expired_iterator"},
)


def record(number: int) -> bytes:
    """The data of the record of a number."""
    return b"%d " % number * 5


def fault_plan(seed: int) -> list[dict[str, Any]]:
    """Each kind of fault, on each call of a reader where it can be, once in a hundred calls."""
    rules = [{**fault, "operation": operation} for fault in _FAULTS for operation in READING]
    rules += [{**fault, "operation": "GetRecords"} for fault in _FAULTS_OF_GET_RECORDS]
    return [{**rule, "stream": STREAM, "probability": 0.01, "seed": seed + n} for n, rule in enumerate(rules)]


class Producer:
    """Puts records at a steady rate, in a thread, and appends `shard,sequence number,number` to a file for each.

    Attributes:
        acknowledged: how many.
        newest: the last one of each shard.
    """

    def __init__(self, client: Any, log: Path) -> None:
        self.acknowledged = 0
        self.newest: dict[str, SequenceNumber] = {}
        self.failure: BaseException | None = None
        self._client, self._log, self._over = client, log, threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def _produce(self) -> None:
        try:
            with self._log.open("w") as log:
                items: Iterator[tuple[str, bytes]] = ((f"key-{n % 997}", record(n)) for n in count())
                while not self._over.wait(0.5):
                    # One call: what it acknowledges comes in the order of its items.
                    for each in put_all(self._client, STREAM, islice(items, RECORDS_PER_S // 2)):
                        log.write(f"{each.shard_id},{each.sequence_number},{self.acknowledged}\n")
                        self.acknowledged += 1
                        self.newest[each.shard_id] = SequenceNumber(each.sequence_number)
        except BaseException as exc:
            self.failure = exc

    def check_alive(self) -> None:
        """Check that it goes on."""
        assert self.failure is None, repr(self.failure)

    def end(self) -> None:
        """Put no more."""
        self._over.set()
        self._thread.join()
        self.check_alive()


def reshard(client: Any, chance: random.Random) -> None:
    """Split an open shard, or merge two neighbours."""
    pages = client.get_paginator("describe_stream").paginate(StreamName=STREAM)  # which no fault befalls
    listed = (shard for page in pages for shard in page["StreamDescription"]["Shards"])
    still_open = (shard for shard in listed if "EndingSequenceNumber" not in shard["SequenceNumberRange"])
    shards = sorted(still_open, key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
    if len(shards) < 2 or (len(shards) < MOST_SHARDS and chance.random() < 0.5):
        shard = chance.choice(shards)
        first, last = (int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
        middle = str((first + last + 1) // 2)
        client.split_shard(StreamName=STREAM, ShardToSplit=shard["ShardId"], NewStartingHashKey=middle)
    else:
        at = chance.randrange(len(shards) - 1)
        pair = {"ShardToMerge": shards[at]["ShardId"], "AdjacentShardToMerge": shards[at + 1]["ShardId"]}
        client.merge_shards(StreamName=STREAM, **pair)


def faults_met(server: LocalKinesis) -> int:
    """How many calls were befallen by the plan in force."""
    return sum(rule["fired"] for rule in server.stats()["faults"])
