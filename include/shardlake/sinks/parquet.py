"""The sink that publishes one Parquet file a range, by create-if-absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from shardlake.errors import ConflictError, IngestError, ShardlakeError
from shardlake.kinesis.page import Page
from shardlake.lake.footer import Footer, read_footer
from shardlake.lake.home import Home
from shardlake.lake.owner import refuse_other, require_owner
from shardlake.lake.parquet import write_range
from shardlake.lake.quarantine import check_quarantine, quarantine_footer
from shardlake.ledger import Contents, Ledger
from shardlake.leftovers import clear_away
from shardlake.names import FileKey, parse_file_name, temporary_directory
from shardlake.plan import BatchPlan
from shardlake.ranges import SequenceRange
from shardlake.sinks import Published


class ParquetSink:
    """Files below a dataset's `data/`, and `quarantine/`. A published file never changes; a start has one of each."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def write(self, plan: BatchPlan, range_: SequenceRange, read: Callable[[], Iterable[Page]]) -> Published:
        """Read a range into a temporary file and publish it; or adopt the file that another attempt published.

        Raises:
            ConflictError: the dataset is another's, or the file there is not this range's.
            DataLossError, UnavailableError: from reading; nothing is published.
        """
        require_owner(self._home, plan)
        if not self._is_published(range_):
            self._publish(plan, range_, read)
        contents, footer = self._published(plan, range_)
        return Published(contents, footer.records, footer.quarantined, footer.dropped)

    def _publish(self, plan: BatchPlan, range_: SequenceRange, read: Callable[[], Iterable[Page]]) -> None:
        """Read a range and publish it: its quarantine before its data, whose footer asks for it.

        Reading takes a while, in which the range may have been closed and another be in its place: so names and
        markers are looked at again right before the first file is seen.

        Where an attempt left a quarantine behind, its mode goes on, also if the configuration says another by now: the
        two files have to be of one mode. An attempt of another mode may still be at work then, and come second.
        """
        key, directory = FileKey.of(range_), temporary_directory(plan.batch_id)
        with self._home.errors():
            left = quarantine_footer(self._home, key)
        plan = replace(plan, aggregates=left.aggregates) if left else plan
        with self._home.temporary(directory) as data, self._home.temporary(directory) as aside:
            footer = write_range(data, aside, plan, range_, read())
            self._refuse_lost(range_)
            if self._is_published(range_):
                return
            mine = footer.quarantined > 0 and self._home.publish(aside, key.quarantine)
            if footer.quarantined and not mine:
                self._check_left(plan, key, footer)
            if not self._home.publish(data, key.path) and mine:
                with self._home.errors():
                    published = read_footer(self._home, key.path)
                if not published.quarantined:
                    self._home.remove(key.quarantine)

    def _check_left(self, plan: BatchPlan, key: FileKey, footer: Footer) -> None:
        """Check that the quarantine that is there would have been ours.

        Raises:
            IngestError: it is of another mode, and came just now.
            ConflictError: it is another one.
        """
        with self._home.errors():
            left = quarantine_footer(self._home, key)
            if left and left.aggregates != plan.aggregates:
                raise IngestError(f"another attempt has begun to publish {key.path}", todo="Run the ingest step again")
            check_quarantine(self._home, key, footer)

    def verify(
        self, plan: BatchPlan, ranges: Iterable[SequenceRange]
    ) -> dict[SequenceRange, Contents | ShardlakeError]:
        """What the store holds of ranges of a plan, whatever was reported."""
        require_owner(self._home, plan)
        found: dict[SequenceRange, Contents | ShardlakeError] = {}
        for range_ in ranges:
            try:
                if not self._is_published(range_):
                    raise IngestError(f"the file of range {range_} is not there", todo="Run the ingest step again")
                found[range_] = self._published(plan, range_)[0]
            except ShardlakeError as exc:
                found[range_] = exc
        return found

    def still_holds(self, range_: SequenceRange, contents: Contents) -> bool:
        """Whether the range's file is there, in the size that verify found."""
        path = FileKey.of(range_).path
        return self._home.exists(path) and self._home.size(path) == contents.bytes

    def commit(
        self,
        ledger: Ledger,
        plan: BatchPlan,
        verified: Mapping[SequenceRange, Contents],
        seen: Mapping[SequenceRange, str],
    ) -> list[str]:
        """Commit verified ranges in the ledger, and clear away what attempts left behind."""
        conflicts = ledger.commit(plan, verified, seen)
        self._home.remove_directory(temporary_directory(plan.batch_id))
        clear_away(self._home, ledger)
        return conflicts

    def _is_published(self, range_: SequenceRange) -> bool:
        """Whether the range's file is there.

        Only names that begin within the range are asked for: a shard's folder grows by a file a batch. A file that
        begins before the range and reaches into it overlaps with the range before as well; the audit finds it.

        Raises:
            ConflictError: a file that holds some of its records under another name is there.
        """
        key = FileKey.of(range_)
        names = self._home.names(key.directory, after=key.start_key, before=key.through_key)
        files = [parse_file_name(key.shard_id, name) for name in names]
        others = [file for file in files if file and file != key and _overlap(file, key)]
        if others:
            raise ConflictError(
                f"a second file holds records of range {range_}",
                expected=f"only {key.path}",
                found=", ".join(sorted(file.path for file in others)),
                todo="Likely cause: the ledger was restored from a backup (then see `shardlake ledger rebuild`),"
                " or another deployment wrote to this dataset. Find out which file is right first",
            )
        return key in files

    def _refuse_lost(self, range_: SequenceRange) -> None:
        """Check that no stretch that begins within the range was declared lost: what is left is another range by now.

        Its marker is there before anybody is told to read what is left.

        Raises:
            ConflictError: one was.
        """
        key = FileKey.of(range_)
        if self._home.names(key.lost_directory, after=key.start_key, before=key.through_key):
            raise ConflictError(
                f"a stretch of range {range_} was declared lost while it was read",
                todo="The next run reads what is left of it",
            )

    def _published(self, plan: BatchPlan, range_: SequenceRange) -> tuple[Contents, Footer]:
        """The contents of the range's file, from its footer; and that.

        Raises:
            ConflictError: it is damaged, or holds something else, or its quarantine is not there as it says.
        """
        key = FileKey.of(range_)
        self._home.sync(key.directory)
        with self._home.errors():
            footer = read_footer(self._home, key.path)
        expected = {
            "pipeline": plan.pipeline,
            "stream_arn": plan.stream.arn,
            "stream_created_at_ms": plan.stream.created_at_ms,
            "shard_id": range_.shard_id,
            "start": str(range_.start),
            "through": str(range_.through),
            "layout": plan.layout,
        }
        refuse_other({name: getattr(footer, name) for name in expected}, expected, f"the file {key.path} is another's")
        if footer.quarantined:
            with self._home.errors():
                check_quarantine(self._home, key, footer)
            self._home.sync(key.quarantine_directory)
        return Contents(rows=footer.rows, bytes=self._home.size(key.path), checksum=footer.checksum), footer


def _overlap(one: FileKey, other: FileKey) -> bool:
    """Whether two files of a shard have records in common; starts are exclusive, and a shard's end sorts last."""
    return one.start_key < other.through_key and other.start_key < one.through_key
