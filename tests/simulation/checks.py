"""What has to hold after every step, and once all is quiet: the ledger and the files against the producers' log."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from shardlake.kinesis.start import HORIZON_MARGIN_MS as MARGIN_MS
from shardlake.ledger import Chain, LedgerRange
from shardlake.names import LIVE, FileKey, parse_file_name
from shardlake.ranges import SHARD_END, Position, SequenceRange, ShardEnd
from simulation.producer import Put
from simulation.world import PIPELINE, World

CHANGES_OF_CHAINS = ("ledger record_listing", "ledger pin", "ledger commit", "ledger declare_lost", "ledger abandon")
CHANGES_OF_FILES = ("link lake/data", "replace lake/data", "unlink lake/data", "fsync lake/data")
"""How effects begin that can change what others see."""

END = 10**60
RETENTION_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Seen:
    """Where a chain began, and when it was there."""

    start: Position
    at_ms: int


class Checks:
    """Remembers what was there, since most of it must never change."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rows: dict[tuple[str, str], LedgerRange] = {}
        self._seen: dict[str, Seen] = {}
        self._given_up: SequenceRange | None = None
        self._files: dict[Path, tuple[int, str]] = {}

    def allow_to_go(self, range_: SequenceRange) -> None:
        """Let an open range go with its file: a person gives it up."""
        self._given_up = range_

    def after(self, effect: str) -> None:
        """What holds at any time, as far as an effect can have changed it."""
        if effect.startswith(CHANGES_OF_CHAINS):
            self._check_chains()
        if effect.startswith((*CHANGES_OF_FILES, *CHANGES_OF_CHAINS)):
            self._check_files()

    def after_a_step(self) -> None:
        """What holds at any time."""
        self._check_chains()
        self._check_files()

    def after_a_power_loss(self) -> None:
        """As `after_a_step`; but files that are not committed may be gone, and all are other files of the disk."""
        for path, (_, content) in list(self._files.items()):
            del self._files[path]
            if path.exists():
                assert _sha(path) == content, f"{path.name} is not what it was before the power was lost"
                self._files[path] = (path.stat().st_ino, content)
        self.after_a_step()

    def at_the_end(self) -> None:
        """What holds once all processes are over, all faults too, and the pipeline has caught up."""
        self.after_a_step()
        rows = self.rows()
        assert {row.state for row in rows} <= {"committed", "lost"}, "a range is still open"
        files = {FileKey.of(row.range).path for row in rows if row.state == "committed"}
        assert files == self._files_in("data"), "stray files, or files without"
        assert not self._files_in("_shardlake/tmp"), "temporary files are left"
        assert not [path for path in self._files_in("_shardlake") if ".writing-" in path], "half written files are left"
        markers = {FileKey.of(row.range).lost_marker for row in rows if row.state == "lost"}
        assert markers == self._files_in("_shardlake/lost"), "losses and their markers"
        self._check_every_record()

    def rows(self) -> list[LedgerRange]:
        """The ledger's rows."""
        return list(self._world.store.ranges(PIPELINE, LIVE))

    def _check_every_record(self) -> None:
        chains, rows = self._world.chains(), self.rows()
        for put in self._world.producer.log:
            held = [row for row in rows if row.range.shard_id == put.shard_id and put.number in _span(row)]
            assert len(held) <= 1, f"{put} is in {len(held)} ranges"
            assert held or self._comes_before(put), f"{put} is in no range"
        for shard_id, chain in chains.items():
            closed = shard_id not in {shard["ShardId"] for shard in self._world.producer.open_shards()}
            assert (chain.position is SHARD_END) == closed, f"{shard_id} ends at {chain.position}"

    def _comes_before(self, put: Put) -> bool:
        """Whether the pipeline rightly began behind a record: it came before the first listing, or nobody could tell.

        A shard that was there at the first listing begins as the configuration says. One that came later begins with
        its oldest record; where others were gone by then, so was a parent, whose loss tells of it.
        """
        began_ms = min(seen.at_ms for seen in self._seen.values())
        seen = self._seen.get(put.shard_id, Seen(SHARD_END, self._world.clock.now_ms()))
        if seen.at_ms > began_ms and put.arrival_ms > began_ms - RETENTION_MS:
            return put.arrival_ms < seen.at_ms - RETENTION_MS and self._has_lost_ancestor(put.shard_id)
        if put.arrival_ms < began_ms - RETENTION_MS:
            return True
        if self._world.settings["start"] == "trim_horizon" and put.arrival_ms >= began_ms - RETENTION_MS + MARGIN_MS:
            return False
        return put.arrival_ms <= began_ms and (seen.start is SHARD_END or put.number <= int(seen.start.key))

    def _has_lost_ancestor(self, shard_id: str) -> bool:
        ends = {row.range.shard_id for row in self.rows() if row.state == "lost" and row.range.through is SHARD_END}
        return not ends.isdisjoint(self._world.producer.ancestors(shard_id))

    def _check_starts(self, chains: dict[str, Chain], by_shard: dict[str, list[LedgerRange]]) -> None:
        for shard_id, chain in chains.items():
            position = by_shard[shard_id][0].range.start if shard_id in by_shard else chain.position
            start = self._seen.setdefault(shard_id, Seen(position, self._world.clock.now_ms())).start
            assert position.key == start.key, f"{shard_id} began at {start}, and now at {position}"

    def _check_chains(self) -> None:
        world, found = self._world, {}
        chains, shards = world.chains(), world.store.shards(PIPELINE)
        by_shard: dict[str, list[LedgerRange]] = {}
        for row in self.rows():
            by_shard.setdefault(row.range.shard_id, []).append(row)
            found[row.range.shard_id, row.range.start.key] = row
        self._check_starts(chains, by_shard)
        for shard_id, rows in by_shard.items():
            for one, next_ in pairwise(rows):
                assert one.range.through.key == next_.range.start.key, f"{one.range} is followed by {next_.range}"
                assert one.state != "planned", f"{one.range} is open, and {next_.range} follows"
            for parent in shards[shard_id].parents:
                finished = parent not in chains or isinstance(chains[parent].position, ShardEnd)
                assert finished, f"{shard_id} is planned before its parent {parent} is finished"
        for key, before in self._rows.items():
            self._check_row(before, found.get(key), found)
        self._rows = found

    def _check_row(
        self, before: LedgerRange, now: LedgerRange | None, found: dict[tuple[str, str], LedgerRange]
    ) -> None:
        if before.state == "planned":
            if now is None and before.range == self._given_up:
                self._given_up = None
                self._files.pop(self._world.lake / FileKey.of(before.range).path, None)
                return
            assert now, f"{before.range} is gone"
            if now.state == "lost":
                rest = found.get((now.range.shard_id, now.range.through.key))
                whole = now.range.through.key >= before.range.through.key
                assert whole or (rest and rest.range.through == before.range.through), (
                    f"the rest of {before.range} is gone"
                )
                return
            assert now.range == before.range, f"{before.range} has become {now.range}"
        else:
            assert now, f"{before} is gone"
            assert replace(now, closed_at_ms=None) == replace(before, closed_at_ms=None), f"{before} is {now}"

    def _check_files(self) -> None:
        there = {self._world.lake / key for key in self._files_in("data")}
        assert self._files.keys() <= there, f"gone: {[path.name for path in self._files.keys() - there]}"
        for path in sorted(there):
            number = path.stat().st_ino
            if path in self._files:
                assert self._files[path][0] == number, f"{path.name} is another file now"
            else:
                self._check_rows_of(path)
                self._files[path] = (number, _sha(path))
        for row in self._rows.values():
            if row.state == "committed":
                path = self._world.lake / FileKey.of(row.range).path
                assert path in self._files, f"{row.range} is committed, and its file is not there"

    def _check_rows_of(self, path: Path) -> None:
        shard_id = path.parent.name.removeprefix("shard_id=")
        key = parse_file_name(shard_id, path.name)
        assert key, f"{path.name} is no name of a data file"
        end = END if key.through_key == SHARD_END.key else int(key.through_key)
        puts = [put for put in self._world.producer.of_shard(shard_id) if int(key.start_key) < put.number <= end]
        columns = ["sequence_number", "sub_sequence_number", "partition_key", "data"]
        table = pq.read_table(path, columns=columns, partitioning=None)
        found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        found = [(int(number), *others) for number, *others in found]
        expected = [row for put in puts if not self._comes_before(put) for row in put.rows()]
        assert found == expected, f"{path.name} holds {found}, and {expected} was put"

    def _files_in(self, folder: str) -> set[str]:
        lake = self._world.lake
        return {str(path.relative_to(lake)) for path in (lake / folder).rglob("*") if path.is_file()}


def _span(row: LedgerRange) -> range:
    """The sequence numbers of a row."""
    start, through = int(row.range.start.key), row.range.through
    return range(start + 1, END if isinstance(through, ShardEnd) else int(through) + 1)


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
