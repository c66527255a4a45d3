"""One pipeline on a stream of its own, with the producer's log, and what has to hold of its dataset and ledger."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from demo.object_store import BUCKET
from local_kinesis.process import LocalKinesis
from local_kinesis.produce import Acknowledged, put_all
from shardlake.auditing import audit
from shardlake.batch import Steps
from shardlake.config import Pipeline
from shardlake.lake import s3
from shardlake.ledger import Ledger, open_ledger
from shardlake.ledger.existing import ledger_to_look_at
from shardlake.names import LIVE, FileKey, batch_directory
from shardlake.plan import Run
from shardlake.ranges import SHARD_END, Position, SequenceRange, Start
from support.inline_engine import InlineEngine
from support.lakes import Bucket, BucketLake, Folder

REGION = "us-east-1"
_CONTROL = re.compile(r"_shardlake/(owner\.json|batches/(?P<batch>[^/]+)/(plan|verified|report-\d{4})\.json)")
_ABANDONED_S = 2 * 24 * 3600


@dataclass
class Site:
    """A pipeline, named like its stream.

    Attributes:
        root: where its dataset is, unless that is in a bucket, its ledger if that is a file, and temporary files.
    """

    kinesis: LocalKinesis
    client: Any
    name: str
    root: Path
    ledger_url: str
    settings: dict[str, Any] = field(default_factory=dict)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    bucket: Bucket | None = None

    def __post_init__(self) -> None:
        self.dataset.parent.mkdir(parents=True, exist_ok=True)
        self.temporary.mkdir(exist_ok=True)
        self.client.create_stream(StreamName=self.name, ShardCount=2)

    @property
    def dataset(self) -> Path:
        """The folder of the dataset, unless that is in a bucket."""
        return self.root / "lake" / self.name

    @property
    def temporary(self) -> Path:
        """Where the processes of steps have their temporary files."""
        return self.root / "tmp"

    @property
    def lake(self) -> Folder | BucketLake:
        """What lies in the dataset."""
        return self.bucket.lake(self.name) if self.bucket else Folder(self.dataset)

    @property
    def entry(self) -> dict[str, Any]:
        """The pipeline's entry in the configuration file."""
        return {
            "stream": self.name,
            "region": REGION,
            "endpoint_url": self.kinesis.endpoint_url,
            "dataset": self.lake.dataset,
            **({"storage": self.lake.storage} if self.bucket else {}),
            "ledger": self.ledger_url,
            "max_group_ranges": 1,
            **self.settings,
        }

    @property
    def ledger(self) -> Ledger:
        """The ledger."""
        return open_ledger(self.ledger_url)

    @property
    def steps(self) -> Steps:
        """The steps of the pipeline's batches, in this process."""
        return Steps(Pipeline(name=self.name, **self.entry), self.ledger)

    def run_later(self) -> None:
        """One more run, in this process: one for which what lies half written is days old."""
        self.let_time_pass()
        none = timedelta(seconds=-1)  # the service's clock, by which uploads have their age, stands where it is
        with (
            patch.multiple(s3, ABANDONED=none, PUBLISHED_ABANDONED=none),
            patch.object(tempfile, "tempdir", str(self.temporary)),
        ):
            self.steps.run(Run("dag", f"more-{uuid.uuid4().hex[:8]}"), InlineEngine(), lambda _: None)

    def put(self, count: int) -> None:
        """Put records over all open shards, and log what was acknowledged."""
        begin = len(self.acknowledged)
        items = ((f"key-{n % 31}", b"record %d" % n) for n in range(begin, begin + count))
        self.acknowledged += put_all(self.client, self.name, items)

    def split(self) -> None:
        """Split the first shard in two halves."""
        shard = self.client.list_shards(StreamName=self.name)["Shards"][0]
        begin, end = (int(shard["HashKeyRange"][f"{which}HashKey"]) for which in ("Starting", "Ending"))
        middle = str((begin + end + 1) // 2)
        self.client.split_shard(StreamName=self.name, ShardToSplit=shard["ShardId"], NewStartingHashKey=middle)

    def published(self) -> dict[str, tuple[str, float, float]]:
        """SHA-256, inode and time of modification of every published file, by key."""
        return {key: (_sha256(self.lake.read(key)), *self._identity(key)) for key in self._data_files()}

    def settled(self) -> dict[str, Any]:
        """What never changes once it is there: every published file, by key, and every committed range.

        A ledger that is just being made is only looked at: whoever makes it may stand still in the middle.
        """
        rows = ledger_to_look_at(self.ledger_url).ranges(self.name, LIVE)
        return {**self.published(), **{f"committed {row.range}": row for row in rows if row.state == "committed"}}

    def check_unchanged(self, settled: dict[str, Any]) -> None:
        """What was settled is as it was.

        Raises:
            AssertionError: a file or a committed range is another one, or is not there any more.
        """
        now = self.settled()
        changed = sorted(key for key, value in settled.items() if now.get(key) != value)
        assert changed == [], f"what was settled changed: {changed}"

    def _identity(self, key: str) -> tuple[float, float]:
        """What changes when a file is replaced by one with the same bytes; of an object, its second alone."""
        if self.bucket:
            head = self.bucket.client.head_object(Bucket=BUCKET, Key=f"{self.name}/{key}")
            return 0, head["LastModified"].timestamp()
        at = (self.dataset / key).stat()
        return at.st_ino, at.st_mtime_ns

    def let_time_pass(self) -> None:
        """Make what lies half written on disk two days old."""
        for file in self._half_written():
            then = time.time() - _ABANDONED_S
            os.utime(file, (then, then))

    def check(self) -> None:
        """Every acknowledged record is there once; the chains are whole and closed; no file is there without reason.

        What a killed process left half written may be there for an hour, or for a day.

        Raises:
            AssertionError: that is not so.
        """
        ledger = self.ledger
        self._check_rows()
        expected = self._check_chains(ledger)
        self._check_files(ledger, expected)
        findings = [finding for audited in audit(self.steps) for finding in audited.findings]
        assert findings == [], findings

    def check_nothing_is_half_written(self) -> None:
        """After a day and another commit."""
        assert self._half_written() == []
        assert not isinstance(self.lake, BucketLake) or self.lake.uploads() == []

    def _half_written(self) -> list[Path]:
        return [*(self.dataset / "_shardlake").glob(".writing-*"), *self.temporary.iterdir()]

    def _data_files(self) -> list[str]:
        return [key for key in self.lake.keys("data/") if key.endswith(".parquet")]

    def _check_rows(self) -> None:
        found: Counter[tuple[str, str, str, str]] = Counter()
        for key in self._data_files():
            shard_id = key.split("/")[1].removeprefix("shard_id=")
            file = pq.ParquetFile(pa.BufferReader(self.lake.read(key)))
            for row in file.read(["sequence_number", "partition_key", "data"]).to_pylist():
                found[shard_id, row["sequence_number"], row["partition_key"], _sha256(row["data"])] += 1
        expected = Counter(
            (each.shard_id, each.sequence_number, each.partition_key, each.data_sha256) for each in self.acknowledged
        )
        missing, more = (expected - found).total(), (found - expected).total()
        assert found == expected, f"{missing} records are missing, {more} are there too often"

    def _check_chains(self, ledger: Ledger) -> set[str]:
        """The files that the ledger's ranges should have."""
        rows = list(ledger.ranges(self.name, LIVE))
        assert {row.state for row in rows} == {"committed"}
        shards = {shard["ShardId"]: shard for shard in self.client.list_shards(StreamName=self.name)["Shards"]}
        chains = ledger.chains(self.name, LIVE)
        assert set(chains) == set(shards)
        for shard_id, chain in chains.items():
            own = sorted(
                (row.range for row in rows if row.range.shard_id == shard_id), key=lambda range_: range_.start.key
            )
            for before, after in itertools.pairwise(own):
                assert (after.start.kind, after.start.number) == ("AFTER", before.through), f"{before} then {after}"
            assert chain.open_range is None
            assert not own or chain.position == _end_of(own[-1]), f"{shard_id} stands at {chain.position}"
            closed = "EndingSequenceNumber" in shards[shard_id]["SequenceNumberRange"]
            assert (chain.position is SHARD_END) == closed, f"{shard_id} stands at {chain.position}"
        assert sum(row.contents.rows for row in rows if row.contents) == len(self.acknowledged)
        return {FileKey.of(row.range).path for row in rows}

    def _check_files(self, ledger: Ledger, expected: set[str]) -> None:
        files = set(self.lake.keys(""))
        control = {path: _CONTROL.fullmatch(path) for path in files - expected if ".writing-" not in path}
        assert files >= expected
        assert [path for path, known in control.items() if known is None] == []
        batches = {known["batch"] for known in control.values() if known and known["batch"]}
        plans = {batch: ledger.batch(batch) for batch in batches}
        assert None not in plans.values()
        for batch, text in plans.items():
            file = f"{batch_directory(batch)}/plan.json"
            assert file not in files or json.loads(self.lake.read(file)) == json.loads(text or "")
        assert list((self.dataset / "_shardlake" / "tmp").glob("*")) == []


def _end_of(range_: SequenceRange) -> Position:
    return range_.through if range_.through is SHARD_END else Start("AFTER", range_.through)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
