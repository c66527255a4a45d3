"""Range to file name and back, and where everything lies below a dataset.

    <dataset>/data/shard_id=<shard>/<start>-<through>.parquet     what readers read; only published files, ever
    <dataset>/quarantine/shard_id=<shard>/<start>-<through>.parquet   what of the range could not be read as it should
    <dataset>/_shardlake/owner.json                               whose dataset this is
    <dataset>/_shardlake/batches/<batch>/plan.json, report-*.json, verified.json
    <dataset>/_shardlake/lost/shard_id=<shard>/<start>-<through>.json
    <dataset>/_shardlake/backfill.json                            in a backfill's folder: its bounds
    <dataset>/_shardlake/tmp/<batch>/                             files being written
    <dataset>/backfill/<namespace>/                               a backfill: all of the above once more

Paths here are relative to the dataset, with `/`. A file's name says its range by the exclusive start and the end, so
the same range always has the same name, and names sort in sequence order.
"""

import hashlib
import re
from dataclasses import dataclass

from shardlake.ranges import DIGITS, SHARD_END, SequenceRange

DATA = "data"
QUARANTINE = "quarantine"
CONTROL = "_shardlake"
OWNER = f"{CONTROL}/owner.json"
BOUNDS = f"{CONTROL}/backfill.json"
BATCHES = f"{CONTROL}/batches"
LOST = f"{CONTROL}/lost"
BACKFILLS = "backfill"
LIVE = "live"
"""The namespace of scheduled ingestion; a backfill's namespace follows from the id of its first run."""

NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
"""What a namespace may look like: it is a folder's name, on object stores and in Hadoop's paths too."""

SHARD_ID = re.compile(r"[a-zA-Z0-9_.-]{1,128}", re.ASCII)
"""The API's pattern for a shard id."""

_FILE = re.compile(rf"(?P<start>[0-9]{{{DIGITS}}})-(?P<through>[0-9]{{{DIGITS}}}|{SHARD_END.value})\.parquet", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileKey:
    """What a data file's name says: the shard, and the keys of the exclusive start and of the end."""

    shard_id: str
    start_key: str
    through_key: str

    @classmethod
    def of(cls, range_: SequenceRange) -> "FileKey":
        """The key of the one file that holds `range_`."""
        return cls(range_.shard_id, range_.start.key, range_.through.key)

    @property
    def directory(self) -> str:
        """`data/shard_id=<shard>`.

        Raises:
            ValueError: the shard id could leave the dataset's folder.
        """
        return f"{DATA}/{_partition(self.shard_id)}"

    @property
    def path(self) -> str:
        """`data/shard_id=<shard>/<start>-<through>.parquet`."""
        return f"{self.directory}/{self.start_key}-{self.through_key}.parquet"

    @property
    def quarantine_directory(self) -> str:
        """`quarantine/shard_id=<shard>`.

        Raises:
            ValueError: the shard id could leave the dataset's folder.
        """
        return f"{QUARANTINE}/{_partition(self.shard_id)}"

    @property
    def directories(self) -> tuple[str, str]:
        """Where the files of the range are: data, then quarantine."""
        return self.directory, self.quarantine_directory

    @property
    def quarantine(self) -> str:
        """`quarantine/shard_id=<shard>/<start>-<through>.parquet`: where there is anything to quarantine."""
        return f"{self.quarantine_directory}/{self.start_key}-{self.through_key}.parquet"

    @property
    def lost_directory(self) -> str:
        """`_shardlake/lost/shard_id=<shard>`.

        Raises:
            ValueError: the shard id could leave the dataset's folder.
        """
        return f"{LOST}/{_partition(self.shard_id)}"

    @property
    def lost_marker(self) -> str:
        """Where a lost range leaves its marker."""
        return f"{self.lost_directory}/{self.start_key}-{self.through_key}.json"


def parse_file_name(shard_id: str, name: str) -> FileKey | None:
    """The key that a file name in a shard's folder says, or None for a name that is not ours."""
    match = _FILE.fullmatch(name)
    return FileKey(shard_id, match["start"], match["through"]) if match else None


def batch_id(pipeline: str, namespace: str, dag_id: str, run_id: str) -> str:
    """The id of the batch that belongs to a run: the run's id made fit for a path, and a hash that keeps it unique."""
    return _fit_for_a_path(run_id, "\0".join((pipeline, namespace, dag_id, run_id)))


def backfill_namespace(run_id: str) -> str:
    """The namespace of the backfill that a run begins: the run's id, made fit for a path where it is not."""
    fits = NAMESPACE.fullmatch(run_id) and run_id != LIVE
    return run_id if fits else _fit_for_a_path(run_id, run_id)


def dataset_of(dataset: str, namespace: str) -> str:
    """Where a namespace of a dataset lies.

    Raises:
        ValueError: the namespace could leave the dataset's folder.
    """
    if namespace == LIVE:
        return dataset
    if not NAMESPACE.fullmatch(namespace):
        raise ValueError(f"not a backfill's id: {namespace[:140]!r}")
    return f"{dataset}/{BACKFILLS}/{namespace}"


def batch_directory(batch: str) -> str:
    """Where a batch's plan, reports and verification lie."""
    return f"{BATCHES}/{batch}"


def temporary_directory(batch: str) -> str:
    """Where a batch's files are written before they are published; removed by its commit."""
    return f"{CONTROL}/tmp/{batch}"  # noqa: S108 (below the dataset)


def _fit_for_a_path(text: str, identity: str) -> str:
    """The text with what is odd in a path replaced, and a hash of what it stands for, which keeps it unique."""
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '-', text)[:80]}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def _partition(shard_id: str) -> str:
    if not SHARD_ID.fullmatch(shard_id):
        raise ValueError(f"not a shard id: {shard_id[:140]!r}")
    return f"shard_id={shard_id}"
