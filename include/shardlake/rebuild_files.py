"""What a dataset tells of its ranges: by names and footers, by markers, and by its copies of plans."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from shardlake.errors import ConflictError
from shardlake.lake.footer import Footer, read_footer
from shardlake.lake.home import Home, files_of_shards
from shardlake.lake.owner import refuse_other
from shardlake.lake.quarantine import check_quarantine
from shardlake.ledger import Contents, LedgerRange
from shardlake.look import side_by_side
from shardlake.lost_markers import lost_range
from shardlake.names import BATCHES, DATA, LOST, SHARD_ID, FileKey, batch_directory, parse_file_name
from shardlake.plan import LAYOUT, BatchPlan
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start, Through, parse_through

UNKNOWN_BATCH = "rebuilt"
"""The batch of a range whose plan is not there any more."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A range of a plan, and the first batch that had it."""

    range: SequenceRange
    batch_id: str


class Plans:
    """The plans of a namespace, by the time of planning."""

    def __init__(self, plans: Iterable[BatchPlan]) -> None:
        self.plans = sorted(plans, key=lambda plan: (plan.planned_at_ms, plan.batch_id))
        self._of_shards: dict[str, dict[FileKey, Planned]] = defaultdict(dict)
        for plan in self.plans:
            for range_ in plan.ranges:
                planned = self._of_shards[range_.shard_id]
                planned.setdefault(FileKey.of(range_), Planned(range_, plan.batch_id))

    @property
    def shard_ids(self) -> set[str]:
        """The shards that they have ranges of."""
        return {*self._of_shards}

    def of_shard(self, shard_id: str) -> list[Planned]:
        """The ranges of a shard, by the time of planning."""
        return [*self._of_shards[shard_id].values()]

    def of_file(self, key: FileKey) -> Planned | None:
        """The range that a file is named after."""
        return self._of_shards[key.shard_id].get(key)


def copies_of_plans(home: Home, draft: BatchPlan) -> tuple[Plans, list[str]]:
    """The copies of plans beside a dataset; and the batches whose copy is missing or cannot be used."""

    def read(batch_id: str) -> BatchPlan | None:
        with contextlib.suppress(ConflictError):
            plan = BatchPlan.from_text(home.read(f"{batch_directory(batch_id)}/plan.json") or "")
            same_stream = (plan.stream.arn, plan.stream.created_at_ms) == (draft.stream.arn, draft.stream.created_at_ms)
            of_this = (plan.batch_id, plan.pipeline, plan.namespace) == (batch_id, draft.pipeline, draft.namespace)
            return plan if same_stream and of_this else None
        return None

    names = home.names(BATCHES)
    found = dict(zip(names, side_by_side(read, names), strict=True))
    return Plans(plan for plan in found.values() if plan), [name for name, plan in found.items() if plan is None]


def closed_ranges(home: Home, draft: BatchPlan, plans: Plans, now_ms: int) -> list[LedgerRange | ConflictError]:
    """Every published file as a committed range, every marker as a lost one; or why it cannot be.

    A file is complete once it is published, so it counts whether its batch was committed or not.

    Args:
        now_ms: the time at which they are closed, as far as anybody will know.
    """
    files = side_by_side(partial(_committed, home, draft, plans, now_ms), files_of_shards(home, DATA))
    for folder in {row.range.shard_id for row in files if isinstance(row, LedgerRange)}:
        home.sync(f"{DATA}/shard_id={folder}")
    return [*files, *side_by_side(partial(_lost, home, draft, now_ms), files_of_shards(home, LOST))]


def _committed(home: Home, draft: BatchPlan, plans: Plans, now_ms: int, file: str) -> LedgerRange | ConflictError:
    _, _, rest = file.partition("/shard_id=")
    shard_id, _, name = rest.partition("/")
    key = parse_file_name(shard_id, name) if SHARD_ID.fullmatch(shard_id) else None
    if key is None:
        return ConflictError(f"{file} is not of this dataset", todo="Move it away")
    try:
        with home.errors():
            footer = _footer(home, draft, key)
            planned = plans.of_file(key)
            range_ = planned.range if planned and _said(planned.range) == _said(footer) else _range(home, key, footer)
            size = home.size(key.path)
    except ConflictError as exc:
        return exc
    contents = Contents(footer.rows, size, footer.checksum)
    return LedgerRange(range_, "committed", planned.batch_id if planned else UNKNOWN_BATCH, contents, now_ms)


def _lost(home: Home, draft: BatchPlan, now_ms: int, key: str) -> LedgerRange | ConflictError:
    try:
        range_, batch_id = lost_range(home, draft, key)
    except ConflictError as exc:
        return exc
    return LedgerRange(range_, "lost", batch_id, None, now_ms)


def _footer(home: Home, draft: BatchPlan, key: FileKey) -> Footer:
    """The footer of a data file, which has to be what its name says, of this pipeline, with its quarantine beside it.

    Raises:
        ConflictError: it is not.
    """
    footer = read_footer(home, key.path)
    expected = {
        "pipeline": draft.pipeline,
        "stream_arn": draft.stream.arn,
        "stream_created_at_ms": draft.stream.created_at_ms,
        "layout": LAYOUT,
    }
    found = {name: getattr(footer, name) for name in expected}
    refuse_other(found, expected, f"the file {key.path} is another's")
    try:
        start, through = _bounds(footer)
    except ValueError as exc:
        raise ConflictError(f"the footer of {key.path} names no range ({exc})") from exc
    said = FileKey(footer.shard_id, start.key, through.key)
    if said != key:
        raise ConflictError("a file is of another range", expected=key.path, found=said.path)
    check_quarantine(home, key, footer)
    return footer


def _bounds(footer: Footer) -> tuple[Start, Through]:
    kind, _, number = footer.start.partition(" ")
    return Start(kind, SequenceNumber(number)), parse_through(footer.through)  # type: ignore[arg-type]  # it checks


def _said(of: SequenceRange | Footer) -> tuple[str, str]:
    return str(of.start), str(of.through)


def _range(home: Home, key: FileKey, footer: Footer) -> SequenceRange:
    """The range of a file that no plan has: its first record is the first one that is in its files.

    One that was dropped may have come before it; then whoever reads the range again begins behind that.

    Raises:
        ConflictError: the files are damaged.
    """
    start, through = _bounds(footer)
    try:
        numbers = [number for file in (key.path, key.quarantine) for number in _first_number(home, file)]
        nothing_left = None if through is SHARD_END else through
        return SequenceRange(key.shard_id, start, through, min(numbers, default=nothing_left))
    except (ValueError, pa.ArrowException) as exc:
        raise ConflictError(f"{key.path} does not begin as its footer says ({exc})") from exc


def _first_number(home: Home, file: str) -> Iterator[SequenceNumber]:
    if home.exists(file):
        with home.open(file) as opened, pq.ParquetFile(opened) as parquet:
            for rows in parquet.iter_batches(batch_size=1, columns=["sequence_number"]):
                yield SequenceNumber(rows.column(0)[0].as_py())
                return
