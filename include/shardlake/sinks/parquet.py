"""The sink that publishes one Parquet file a range, by create-if-absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from shardlake.errors import ConflictError, IngestError, ShardlakeError
from shardlake.kinesis.client import Page
from shardlake.lake.home import LocalHome
from shardlake.lake.owner import check_owner, refuse_other
from shardlake.lake.parquet import read_footer, write_range
from shardlake.ledger import Contents, Ledger
from shardlake.names import FileKey, parse_file_name, temporary_directory
from shardlake.plan import BatchPlan
from shardlake.ranges import SequenceRange


class ParquetSink:
    """Files below a dataset's `data/`. A published file never changes; a start has one file."""

    def __init__(self, home: LocalHome) -> None:
        self._home = home

    def write(self, plan: BatchPlan, range_: SequenceRange, read: Callable[[], Iterable[Page]]) -> Contents:
        """Read a range into a temporary file and publish it; or adopt the file that another attempt published.

        Raises:
            ConflictError: the dataset is another's, or the file there is not this range's.
            DataLossError, UnavailableError: from reading; nothing is published.
        """
        check_owner(self._home, plan)
        if not self._is_published(range_):
            with self._home.temporary(temporary_directory(plan.batch_id)) as temporary:
                write_range(temporary, plan, range_, read())
                self._home.publish(temporary, FileKey.of(range_).path)
        return self._published(plan, range_)

    def verify(
        self, plan: BatchPlan, ranges: Iterable[SequenceRange]
    ) -> dict[SequenceRange, Contents | ShardlakeError]:
        """What the store holds of ranges of a plan, whatever was reported."""
        check_owner(self._home, plan)
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
        """Commit verified ranges in the ledger and clear away what attempts left behind."""
        conflicts = ledger.commit(plan, verified)
        self._home.remove_directory(temporary_directory(plan.batch_id))
        return conflicts

    def _is_published(self, range_: SequenceRange) -> bool:
        """Whether the range's file is there.

        Raises:
            ConflictError: a file with the same start and another end is there.
        """
        key = FileKey.of(range_)
        files = [parse_file_name(key.shard_id, name) for name in self._home.names(key.directory)]
        ends = {file.through_key for file in files if file and file.start_key == key.start_key}
        if ends - {key.through_key}:
            raise ConflictError(
                f"a second range of {range_.shard_id} begins {range_.start}",
                expected=f"only the file through {range_.through}",
                found=f"files through {', '.join(sorted(ends))}",
                todo="Likely cause: another deployment wrote to this dataset. Find out which file is right first",
            )
        return bool(ends)

    def _published(self, plan: BatchPlan, range_: SequenceRange) -> Contents:
        """The contents of the range's file, from its footer.

        Raises:
            ConflictError: it is damaged, or holds something else.
        """
        key = FileKey.of(range_).path
        footer = read_footer(self._home.path(key))
        expected = {
            "pipeline": plan.pipeline,
            "stream_arn": plan.stream.arn,
            "stream_created_at_ms": plan.stream.created_at_ms,
            "shard_id": range_.shard_id,
            "start": str(range_.start),
            "through": str(range_.through),
            "layout": plan.layout,
        }
        refuse_other({name: getattr(footer, name) for name in expected}, expected, f"the file {key} is another's")
        return Contents(rows=footer.rows, bytes=self._home.size(key), checksum=footer.checksum)
