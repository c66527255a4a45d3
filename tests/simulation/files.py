"""What files have to be: there once committed, unchanged, and exactly the rows of what was put."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardlake.ledger import LedgerRange
from shardlake.names import DATA, QUARANTINE, FileKey, parse_file_name
from shardlake.ranges import SHARD_END
from simulation.losses import END, span
from simulation.producer import Put
from simulation.tasks import Scope
from simulation.world import World

COLUMNS = ["sequence_number", "sub_sequence_number", "partition_key", "data"]


class Files:
    """The files of one scope, remembered, since they must never change.

    Args:
        never_there: whether a record was gone before anybody could read it.
    """

    def __init__(self, world: World, scope: Scope, never_there: Callable[[Put], bool]) -> None:
        self._world, self._folder, self._never_there = world, world.folder(scope), never_there
        self._known: dict[str, tuple[int, str]] = {}
        self._modes: dict[str, str] = {}
        self._committed: set[str] = set()
        self._repaired: set[str] = set()

    def check(self, rows: Iterable[LedgerRange]) -> None:
        """What holds at any time."""
        there = self._world.place.files(f"{self._folder}/{DATA}")
        assert self._known.keys() <= there.keys(), f"gone: {sorted(self._known.keys() - there.keys())}"
        for key, version in sorted(there.items()):
            if key in self._known:
                assert self._known[key][0] == version, f"{key} is another file now"
            else:
                self._check_rows(key, self._world.place.read(key))
                self._known[key] = version, self._sha(key)
        for row in rows:
            key = self.of(row, "path")
            if row.state == "committed" and key not in self._committed:
                assert key in self._known, f"{row.range} is committed, and its file is not there"
                self._check_contents(row, key)
                self._check_quarantine(row)
                self._committed.add(key)

    def of(self, row: LedgerRange, kind: str) -> str:
        """The key of a range's file: its `path`, its `quarantine` or its `lost_marker`."""
        return f"{self._folder}/{getattr(FileKey.of(row.range), kind)}"

    def forget(self, row: LedgerRange) -> None:
        """Let the file of an open range go."""
        self._known.pop(self.of(row, "path"), None)

    def repaired(self, row: LedgerRange) -> None:
        """Let a range's file be another from now on; what it holds is checked anew."""
        key = self.of(row, "path")
        self._known.pop(key)
        self._committed.remove(key)
        self._repaired.add(key)

    def after_a_power_loss(self) -> None:
        """Files that are not committed may be gone, and all are other files of the disk."""
        there = self._world.place.files(f"{self._folder}/{DATA}")
        for key, (_, content) in list(self._known.items()):
            del self._known[key]
            if key in there:
                assert self._sha(key) == content, f"{key} is not what it was before the power was lost"
                self._known[key] = there[key], content
        for key in self._committed:
            assert key in there, f"{key} is committed, and its file is not there"

    def at_the_end(self, rows: Iterable[LedgerRange]) -> None:
        """What holds once all processes are over: nothing is there that the ledger does not account for."""
        committed = [row for row in rows if row.state == "committed"]
        assert self._there(DATA) == {self.of(row, "path") for row in committed}, "stray files, or files without"
        aside = {self.of(row, "quarantine") for row in committed if self._set_aside(row)}
        assert aside <= self._there(QUARANTINE), "data without its quarantine"
        for key in self._there(QUARANTINE) - aside:  # published before its data, which was lost before it was
            begun = {self.of(row, "quarantine").rpartition("-")[0] for row in rows if row.state == "lost"}
            assert key.rpartition("-")[0] in begun, f"{key} is of no range"
        for row in committed:
            self._check_quarantine(row)
        markers = {self.of(row, "lost_marker") for row in rows if row.state == "lost"}
        assert markers == self._there("_shardlake/lost"), "losses and their markers"
        assert not self._there("_shardlake/tmp"), "temporary files are left"
        left = [key for key in self._there("_shardlake") if ".writing-" in key]
        assert not left, f"half written files are left: {left}"

    def are_none(self) -> None:
        """What holds of a backfill that was killed before its bounds were pinned."""
        assert not self._there(DATA), "files of a backfill that was never opened"

    def _there(self, folder: str) -> set[str]:
        return {*self._world.place.files(f"{self._folder}/{folder}")}

    def _puts(self, shard_id: str, numbers: range) -> list[Put]:
        puts = self._world.producer.of_shard[shard_id]
        return [put for put in puts if put.number in numbers and not self._never_there(put)]

    def _check_rows(self, key: str, content: bytes) -> None:
        shard_id, _, name = key.partition("/shard_id=")[2].partition("/")
        parsed = parse_file_name(shard_id, name)
        assert parsed, f"{key} is no name of a data file"
        end = END if parsed.through_key == SHARD_END.key else int(parsed.through_key)
        metadata, found = _rows(content, COLUMNS)
        self._modes[key] = json.loads(metadata[b"shardlake.aggregates"])
        puts = self._puts(shard_id, range(int(parsed.start_key) + 1, end + 1))
        expected = [row for put in puts for row in put.rows(self._modes[key])]
        found = [(int(number), *others) for number, *others in found]
        assert found == expected, f"{key} holds {found}, and {expected} was put"

    def _check_contents(self, row: LedgerRange, key: str) -> None:
        content = self._world.place.read(key)
        metadata, _ = _rows(content, COLUMNS[:1])
        held = json.loads(metadata[b"shardlake.rows"]), len(content), json.loads(metadata[b"shardlake.checksum"])
        assert row.contents, f"{row} is committed without contents"
        size = len(content) if key in self._repaired else row.contents.bytes
        told = row.contents.rows, size, row.contents.checksum
        assert told == held, f"{row.range} is committed as {told}, and its file is {held}"

    def _set_aside(self, row: LedgerRange) -> list[Put]:
        mode = self._modes[self.of(row, "path")]
        return [put for put in self._puts(row.range.shard_id, span(row)) if put.is_quarantined(mode)]

    def _check_quarantine(self, row: LedgerRange) -> None:
        expected = [(put.number, put.data) for put in self._set_aside(row)]
        if expected:
            key = self.of(row, "quarantine")
            assert key in self._world.place.files(f"{self._folder}/{QUARANTINE}"), f"{key} is not there"
            _, found = _rows(self._world.place.read(key), ["sequence_number", "data"])
            found = [(int(number), data) for number, data in found]
            assert found == expected, f"{key} holds {found}, and {expected} belongs there"
            self._world.scheduler.counts["records in quarantine"] += len(expected)

    def _sha(self, key: str) -> str:
        return hashlib.sha256(self._world.place.read(key)).hexdigest()


def _rows(content: bytes, columns: list[str]) -> tuple[dict[bytes, bytes], list[tuple[Any, ...]]]:
    """A file's metadata, and some of its columns, row by row."""
    with pq.ParquetFile(pa.BufferReader(content)) as file:
        table = file.read(columns=columns)
        return file.metadata.metadata, list(zip(*(column.to_pylist() for column in table.columns), strict=True))
