"""Abandon: an open range is given up with its files, and its records are planned anew.

For a range that cannot be finished as it was planned: its file was damaged before it was committed, or the stream does
not hold what was seen. Nothing is lost by it: the position stays where it is.
"""

from __future__ import annotations

from shardlake.batch import Steps
from shardlake.errors import ConfigError
from shardlake.lake.owner import require_owner
from shardlake.ledger import JournalEntry
from shardlake.names import FileKey, parse_file_name
from shardlake.plan import Run
from shardlake.ranges import SequenceRange


def open_range(steps: Steps, shard_id: str) -> SequenceRange:
    """The open range of a shard.

    Raises:
        ConfigError: it has none.
    """
    chains = steps.ledger.chains(steps.pipeline.name, steps.namespace)
    if shard_id not in chains:
        raise ConfigError(f"the ledger knows no shard {shard_id[:140]!r}", found=", ".join(chains)[:500] or "no shard")
    found = chains[shard_id].open_range
    if found is None:
        raise ConfigError(f"{shard_id} has no open range: there is nothing to give up")
    return found


def files_of(steps: Steps, range_: SequenceRange) -> list[str]:
    """The keys of the files that begin within an open range, whoever published them: none is committed.

    Data before quarantine: data without its quarantine would not hold, a quarantine alone is adopted.
    """
    key = FileKey.of(range_)
    data, quarantine = (
        [file for name in names if (file := parse_file_name(key.shard_id, name))]
        for directory in key.directories
        for names in [steps.home.names(directory, after=key.start_key, before=key.through_key)]
    )
    return [file.path for file in data] + [file.quarantine for file in quarantine]


def abandon(steps: Steps, range_: SequenceRange, entry: JournalEntry) -> None:
    """Remove the files of an open range, and give it up, while nobody can commit it.

    The files first, since a range that is still open is read again, while a file without a range is in the way of the
    next one. No run of the pipeline should be at work: what it publishes afterwards is found by the next run's verify
    as a conflict, and not committed.

    Raises:
        ConflictError: the range is not open any more, or the dataset is another's.
    """
    require_owner(steps.home, steps.planner().draft(Run("abandon", "abandon")))

    def remove_files() -> None:
        for file in files_of(steps, range_):
            steps.home.remove(file)
        for directory in FileKey.of(range_).directories:
            steps.home.sync(directory)  # a file that a loss of power brings back would be in the next one's way

    steps.ledger.abandon(entry, remove_files)
