"""One pipeline on a stream of its own, with the producer's log, and what has to hold of its dataset and ledger."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from local_kinesis.process import LocalKinesis
from local_kinesis.produce import Acknowledged, put_all
from shardlake.auditing import audit
from shardlake.batch import Steps
from shardlake.config import Pipeline
from shardlake.ledger import Ledger, open_ledger
from shardlake.names import LIVE, FileKey, batch_directory
from shardlake.ranges import SHARD_END, Position, SequenceRange, Start

REGION = "us-east-1"
_CONTROL = re.compile(r"_shardlake/(owner\.json|batches/(?P<batch>[^/]+)/(plan|verified|report-\d{4})\.json)")
_ABANDONED_S = 2 * 3600


@dataclass
class Site:
    """A pipeline, named like its stream.

    Attributes:
        root: where its dataset is, and its ledger if that is a file.
    """

    kinesis: LocalKinesis
    client: Any
    name: str
    root: Path
    ledger_url: str
    settings: dict[str, Any] = field(default_factory=dict)
    acknowledged: list[Acknowledged] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dataset.parent.mkdir(parents=True, exist_ok=True)
        self.client.create_stream(StreamName=self.name, ShardCount=2)

    @property
    def dataset(self) -> Path:
        """The folder of the dataset."""
        return self.root / "lake" / self.name

    @property
    def entry(self) -> dict[str, Any]:
        """The pipeline's entry in the configuration file."""
        return {
            "stream": self.name,
            "region": REGION,
            "endpoint_url": self.kinesis.endpoint_url,
            "dataset": str(self.dataset),
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

    def published(self) -> dict[str, tuple[str, int, int]]:
        """SHA-256, inode and time of modification of every published file, by path."""
        found = ((file, file.stat()) for file in sorted((self.dataset / "data").rglob("*.parquet")))
        return {
            str(file.relative_to(self.dataset)): (_sha256(file.read_bytes()), at.st_ino, at.st_mtime_ns)
            for file, at in found
        }

    def let_time_pass(self) -> None:
        """Make what lies half written in `_shardlake/` two hours old."""
        for file in self._half_written():
            then = time.time() - _ABANDONED_S
            os.utime(file, (then, then))

    def check(self) -> None:
        """Every acknowledged record is there once; the chains are whole and closed; no file is there without reason.

        Control files that a killed process left half written may be there for an hour.

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
        """After an hour and another commit."""
        assert self._half_written() == []

    def _half_written(self) -> list[Path]:
        return sorted((self.dataset / "_shardlake").glob(".writing-*"))

    def _check_rows(self) -> None:
        found: Counter[tuple[str, str, str, str]] = Counter()
        for file in self.published():
            shard_id = file.split("/")[1].removeprefix("shard_id=")
            for row in (
                pq.ParquetFile(self.dataset / file).read(["sequence_number", "partition_key", "data"]).to_pylist()
            ):
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
        files = {str(path.relative_to(self.dataset)) for path in self.dataset.rglob("*") if path.is_file()}
        control = {path: _CONTROL.fullmatch(path) for path in files - expected if ".writing-" not in path}
        assert files >= expected
        assert [path for path, known in control.items() if known is None] == []
        batches = {known["batch"] for known in control.values() if known and known["batch"]}
        plans = {batch: ledger.batch(batch) for batch in batches}
        assert None not in plans.values()
        for batch, text in plans.items():
            file = self.dataset / batch_directory(batch) / "plan.json"
            assert not file.exists() or json.loads(file.read_text()) == json.loads(text or "")
        assert list((self.dataset / "_shardlake" / "tmp").glob("*")) == []


def _end_of(range_: SequenceRange) -> Position:
    return range_.through if range_.through is SHARD_END else Start("AFTER", range_.through)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
