"""The sink that publishes one Parquet file a range, by create-if-absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from shardlake.errors import ConflictError, IngestError, ShardlakeError
from shardlake.kinesis.page import Page
from shardlake.lake.home import Home
from shardlake.lake.owner import refuse_other, require_owner
from shardlake.lake.parquet import read_footer, write_range
from shardlake.ledger import Contents, Ledger
from shardlake.leftovers import clear_away
from shardlake.names import FileKey, parse_file_name, temporary_directory
from shardlake.plan import BatchPlan
from shardlake.ranges import SequenceRange


class ParquetSink:
    """Files below a dataset's `data/`. A published file never changes; a start has one file."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def write(self, plan: BatchPlan, range_: SequenceRange, read: Callable[[], Iterable[Page]]) -> Contents:
        """Read a range into a temporary file and publish it; or adopt the file that another attempt published.

        Raises:
            ConflictError: the dataset is another's, or the file there is not this range's.
            DataLossError, UnavailableError: from reading; nothing is published.
        """
        require_owner(self._home, plan)
        if not self._is_published(range_):
            with self._home.temporary(temporary_directory(plan.batch_id)) as temporary:
                write_range(temporary, plan, range_, read())
                self._home.publish(temporary, FileKey.of(range_).path)
        return self._published(plan, range_)

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
                found[range_] = self._published(plan, range_)
            except ShardlakeError as exc:
                found[range_] = exc
        return found

    def commit(self, ledger: Ledger, plan: BatchPlan, verified: Mapping[SequenceRange, Contents]) -> list[str]:
        """Commit verified ranges in the ledger, and clear away what attempts left behind."""
        conflicts = ledger.commit(plan, verified)
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
                todo="Likely cause: another deployment wrote to this dataset. Find out which file is right first",
            )
        return key in files

    def _published(self, plan: BatchPlan, range_: SequenceRange) -> Contents:
        """The contents of the range's file, from its footer.

        Raises:
            ConflictError: it is damaged, or holds something else.
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
        return Contents(rows=footer.rows, bytes=self._home.size(key.path), checksum=footer.checksum)


def _overlap(one: FileKey, other: FileKey) -> bool:
    """Whether two files of a shard have records in common; starts are exclusive, and a shard's end sorts last."""
    return one.start_key < other.through_key and other.start_key < one.through_key
