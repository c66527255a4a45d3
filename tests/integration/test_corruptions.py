"""Every corruption that can be planted, by its name, and what the audit finds; and what it cannot see.

One dataset serves for all: before each corruption it is put back as it was. Where a file is written again, the ledger
is told its new size, so that not the size alone gives it away.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardlake.auditing import audit
from shardlake.backfill import Request
from shardlake.batch import Steps
from shardlake.errors import ConflictError, ShardlakeError
from shardlake.lake.rows import RowsChecksum
from shardlake.ledger import JournalEntry, open_ledger
from shardlake.names import BOUNDS, LIVE, OWNER, FileKey
from shardlake.plan import Run
from shardlake.ranges import SequenceRange
from support.aggregates import User, protobuf, sealed
from support.inline_engine import InlineEngine

if TYPE_CHECKING:
    from tests.integration.conftest import World

pytestmark = pytest.mark.slow

BAD = [sealed(protobuf([b"k"], [User(0, b"%d" % n), User(3, b"x")])) for n in range(3)]
"""Aggregates that go to the quarantine."""


@dataclass
class Lake:
    """A pipeline's dataset and ledger, and the names of what is in it.

    Shard 0 has the files `one` (and its quarantine `aside`), `two` and `three`; shard 1 has `left`, a lost stretch with
    its `marker`, and `right`.
    """

    root: Path
    names: dict[str, str]
    ranges: dict[str, SequenceRange]

    def path(self, name: str) -> Path:
        return self.root / "lake" / self.names.get(name, name)

    def sql(self, *statements: str) -> None:
        """Change rows of the ledger, one a statement, its guards dropped."""
        with closing(sqlite3.connect(self.root / "ledger.db", isolation_level=None)) as connection:
            guards = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for (name,) in guards:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute("DROP INDEX IF EXISTS shardlake_one_open_range")
            connection.execute("PRAGMA ignore_check_constraints = on")
            for statement in statements:
                assert connection.execute(statement).rowcount == 1

    def of(self, name: str) -> str:
        """SQL: which row of the ledger a file's is."""
        range_ = self.ranges[name]
        return f"namespace = 'live' AND shard_id = '{range_.shard_id}' AND start_key = '{range_.start.key}'"

    def update(self, name: str, change: str) -> None:
        self.sql(f"UPDATE shardlake_ranges SET {change} WHERE {self.of(name)}")

    def delete(self, name: str) -> None:
        self.sql(f"DELETE FROM shardlake_ranges WHERE {self.of(name)}")

    def insert(self, name: str, state: str) -> None:
        """Add a range that begins with the first record of another one: behind that record, to the same end."""
        values = (
            f"pipeline, namespace, shard_id, 'AFTER', anchor, anchor, through, through_key || '+', anchor, '{state}'"
        )
        scope = f"FROM shardlake_ranges WHERE {self.of(name)}"
        self.sql(f"INSERT INTO shardlake_ranges SELECT {values}, batch_id, NULL, NULL, NULL, 1 {scope}")

    def write(self, name: str, rows: pa.Table, facts: dict[bytes, bytes]) -> None:
        pq.write_table(rows.replace_schema_metadata(facts), self.path(name))
        if name != "aside":
            self.update(name, f"bytes = {self.path(name).stat().st_size}")

    def rows(self, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change the rows of a file, and leave its footer."""
        parquet = pq.ParquetFile(self.path(name))
        self.write(name, change(parquet.read()), parquet.metadata.metadata)

    def footer(self, name: str, **facts: object) -> None:
        """Change what a footer says, and leave the rows."""
        parquet = pq.ParquetFile(self.path(name))
        said = {f"shardlake.{key}".encode(): json.dumps(value).encode() for key, value in facts.items()}
        self.write(name, parquet.read(), parquet.metadata.metadata | said)

    def copy(self, name: str, to: str) -> None:
        self.path(to).parent.mkdir(exist_ok=True)
        shutil.copy(self.path(name), self.path(to))

    def marker(self, **facts: object) -> None:
        """Change what the marker says."""
        self.path("marker").write_text(json.dumps({**json.loads(self.path("marker").read_text()), **facts}))


def changed(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("data")
    return rows.set_column(at, rows.field(at), [[b"x", *rows["data"].to_pylist()[1:]]])


ROWS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "changed": changed,
    "dropped": lambda rows: rows.slice(1),
    "doubled": lambda rows: pa.concat_tables([rows, rows.slice(rows.num_rows - 1)]),
    "reordered": lambda rows: rows.take(pa.array([1, 0, *range(2, rows.num_rows)])),
}
IDENTITY = {
    "pipeline": "q",
    "stream_arn": "arn:aws:kinesis:us-east-1:1:stream/other",
    "stream_created_at_ms": 7,
    "shard_id": "shardId-9",
    "start": "AT 1",
    "through": "2",
}
NUMBER = f"{'0' * 55}1-{'0' * 55}2.parquet"
STRAY = {
    "data": f"data/shard_id=shardId-000000000000/{NUMBER}",
    "quarantine": f"quarantine/shard_id=shardId-000000000000/{NUMBER}",
    "marker": f"_shardlake/lost/shard_id=shardId-000000000000/{NUMBER[:-8]}.json",
    "marker of no shard": "_shardlake/lost/x",
}

ROWS_KEY, CHECKSUM_KEY = b"shardlake.rows", b"shardlake.checksum"
NO_CONTENTS = "rows = NULL, bytes = NULL, checksum = NULL"

Corruption = Callable[[Lake], object]
Findings = set[tuple[str, str]]

DAMAGED: Findings = {("damaged", "two")}


def rows_of(name: str, change: Callable[[pa.Table], pa.Table]) -> Corruption:
    return lambda it: it.rows(name, change)


def footer_of(name: str, **said: object) -> Corruption:
    return lambda it: it.footer(name, **said)


def forged(name: str, change: Callable[[pa.Table], pa.Table]) -> Corruption:
    """Change the rows of a file, and let its footer say what they are now."""

    def corrupt(it: Lake) -> None:
        it.rows(name, change)
        rows, checksum = pq.ParquetFile(it.path(name)).read(), RowsChecksum()
        for batch in rows.to_batches():
            checksum.update(batch)
        it.footer(name, rows=len(rows), checksum=checksum.hexdigest())

    return corrupt


def agreed(name: str, change: Callable[[pa.Table], pa.Table]) -> Corruption:
    """Change the rows of a file, and let its footer and the ledger say what they are now."""

    def corrupt(it: Lake) -> None:
        forged(name, change)(it)
        said = {key: json.loads(pq.read_metadata(it.path(name)).metadata[key]) for key in (ROWS_KEY, CHECKSUM_KEY)}
        it.update(name, f"rows = {said[ROWS_KEY]}, checksum = '{said[CHECKSUM_KEY]}'")

    return corrupt


def open_twice(it: Lake) -> None:
    it.update("three", f"state = 'planned', {NO_CONTENTS}")
    it.insert("three", "planned")


FOUND: dict[str, tuple[Corruption, Findings]] = {
    **{f"row {how}": (rows_of("two", do), {("damaged", "two")}) for how, do in ROWS.items()},
    **{f"quarantined row {how}": (rows_of("aside", do), {("damaged", "aside")}) for how, do in ROWS.items()},
    **{f"row {how}, with its footer": (forged("two", do), {("differs", "two")}) for how, do in ROWS.items()},
    "file missing": (lambda it: it.path("two").unlink(), {("missing", "two")}),
    "file missing, no longer retained": (lambda it: it.path("left").unlink(), {("lost", "left")}),
    "file truncated": (lambda it: it.path("two").write_bytes(it.path("two").read_bytes()[:-9]), {("damaged", "two")}),
    "file empty": (lambda it: it.path("two").write_bytes(b""), {("damaged", "two")}),
    "file of another range": (lambda it: it.copy("three", "two"), {("damaged", "two")}),
    "file of another shard": (lambda it: it.copy("left", "two"), {("damaged", "two")}),
    "file doubled": (lambda it: it.copy("two", STRAY["data"]), {("stray", STRAY["data"])}),
    "quarantine missing": (lambda it: it.path("aside").unlink(), {("missing", "aside")}),
    "quarantine truncated": (
        lambda it: it.path("aside").write_bytes(it.path("aside").read_bytes()[:-9]),
        {("damaged", "aside")},
    ),
    "quarantine of another kind": (lambda it: it.copy("one", "aside"), {("damaged", "aside")}),
    "quarantine doubled": (lambda it: it.copy("aside", STRAY["quarantine"]), {("stray", STRAY["quarantine"])}),
    **{
        f"footer's {key}": (footer_of("two", **{key: value}), {("damaged", "two")})
        for key, value in {**IDENTITY, "rows": 1, "checksum": "ab", "layout": 2}.items()
    },
    **{f"footer's {key}": (footer_of("two", **{key: 7}), {("differs", "two")}) for key in ("records", "dropped")},
    "footer's quarantined": (lambda it: it.footer("one", quarantined=2), {("damaged", "aside")}),
    "footer's quarantined gone": (
        lambda it: it.footer("one", quarantined=0, quarantine_checksum=None),
        {("differs", "aside"), ("stray", "aside")},
    ),
    "footer's quarantine_checksum": (lambda it: it.footer("one", quarantine_checksum="ab"), {("damaged", "aside")}),
    **{
        f"quarantine footer's {key}": (footer_of("aside", **{key: value}), {("damaged", "aside")})
        for key, value in {**IDENTITY, "rows": 1, "checksum": "ab"}.items()
    },
    **{f"row {how}, with footer and ledger": (agreed("two", do), {("differs", "two")}) for how, do in ROWS.items()},
    "columns renamed": (rows_of("two", lambda rows: rows.rename_columns([*rows.column_names[:-1], "x"])), DAMAGED),
    "columns swapped": (rows_of("two", lambda rows: rows.select(rows.column_names[::-1])), DAMAGED),
    "committed made lost": (
        lambda it: it.update("two", f"state = 'lost', {NO_CONTENTS}"),
        {("missing", "marker of two"), ("stray", "two")},
    ),
    "committed made open, in the middle": (
        lambda it: it.update("two", f"state = 'planned', {NO_CONTENTS}"),
        {("gap", "three")},
    ),
    "lost made committed": (
        lambda it: it.update("lost", "state = 'committed', rows = 0, bytes = 0, checksum = ''"),
        {("lost", "file of lost"), ("stray", "marker")},
    ),
    "open range doubled": (
        open_twice,
        {("gap", "three again")},
    ),
    "first range gone": (lambda it: it.delete("one"), {("stray", "one"), ("stray", "aside")}),
    "range in the middle gone": (lambda it: it.delete("two"), {("stray", "two"), ("gap", "three")}),
    "last range gone": (lambda it: it.delete("three"), {("stray", "three")}),
    "lost range gone": (lambda it: it.delete("lost"), {("stray", "marker"), ("gap", "right")}),
    "a fork": (
        lambda it: it.insert("two", "lost"),
        {("gap", "two again"), ("missing", "marker of two again")},
    ),
    "ledger's end": (
        lambda it: it.update("two", "through = anchor, through_key = anchor"),
        {("missing", "short"), ("stray", "two"), ("gap", "three")},
    ),
    "chain gone": (
        lambda it: it.sql(f"DELETE FROM shardlake_chains WHERE {ROW['chains']}"),
        {("gap", "three")},
    ),
    "marker missing": (lambda it: it.path("marker").unlink(), {("missing", "marker")}),
    "marker of another stretch": (lambda it: it.marker(through="1" * 56), {("damaged", "marker")}),
    "marker with another first record": (
        lambda it: it.marker(anchor=str(it.ranges["lost"].through)),
        {("damaged", "marker")},
    ),
    "marker of another batch": (lambda it: it.marker(batch="x"), {("damaged", "marker")}),
    "marker of another pipeline": (lambda it: it.marker(pipeline="q"), {("damaged", "marker")}),
    "marker that is none": (lambda it: it.path("marker").write_text("{"), {("damaged", "marker")}),
    "marker invented": (lambda it: it.copy("marker", STRAY["marker"]), {("stray", STRAY["marker"])}),
    "marker of no shard": (
        lambda it: it.copy("marker", STRAY["marker of no shard"]),
        {("stray", STRAY["marker of no shard"])},
    ),
    "owner gone": (lambda it: it.path("_shardlake/owner.json").unlink(), {("missing", "_shardlake/owner.json")}),
}

UNSEEN: dict[str, Corruption] = {
    # Nothing else says these: they decide nothing, or nothing of what is there already.
    "footer's version": lambda it: it.footer("two", version="9"),
    "footer's data_bytes": lambda it: it.footer("two", data_bytes=1),
    "a report": lambda it: next(it.path("_shardlake/batches").glob("*/report-0000.json")).write_text("[]"),
    # Whoever may write all three, of records that only they have by now.
    "row dropped, with footer and ledger, no longer retained": agreed("left", ROWS["dropped"]),
    # These decide what is planned next, and the ledger is all that says so.
    "the last range made open again": lambda it: it.update("three", f"state = 'planned', {NO_CONTENTS}"),
    "a copy of a plan": lambda it: shutil.rmtree(it.path("_shardlake/batches")),
    # Each namespace has an audit of its own.
    "a folder of no backfill": lambda it: it.copy("two", "backfill/x"),
    "a file of a backfill": lambda it: next(it.path("backfill/b/data").rglob("*.parquet")).unlink(),
}

ROW: dict[str, str] = {
    "pipelines": "pipeline = 'p'",
    "shards": "shard_id = 'shardId-000000000000'",
    "batches": "run_id = 'run-1'",
    "chains": "shard_id = 'shardId-000000000000' AND namespace = 'live'",
    "backfills": "namespace = 'b'",
    "journal": "entry_number = 1",
    "ledger": "only_row = 1",
    "schema": "version = (SELECT max(version) FROM shardlake_schema)",
}
"""Which row of a table of the ledger is edited; of the ranges that of the file `two`."""

ANOTHER = """CASE
    WHEN typeof({0}) <> 'text' THEN coalesce({0}, 0) + 1
    WHEN {0} GLOB '[0-9]*' THEN substr({0}, 1, length({0}) - 1) || CASE substr({0}, -1) WHEN '0' THEN '1' ELSE '0' END
    WHEN {0} = '[]' THEN '["shardId-9"]'
    WHEN {0} = 'AT' THEN 'AFTER' WHEN {0} = 'AFTER' THEN 'AT'
    WHEN {0} = 'committed' THEN 'planned' WHEN {0} = 'repair' THEN 'abandon'
    ELSE {0} || 'x' END"""
"""SQL: another value of a column, of the same kind; a number mostly a smaller one."""

SHARD = ("differs", "data/shard_id=shardId-000000000000")
FILES_OF_SHARD = ("one", "two", "three")
GONE: Findings = {("stray", "two"), ("gap", "three")}
MOVED: Findings = {("stray", "two"), ("missing", "another"), ("gap", "another")}

COLUMNS: dict[str, Findings] = {
    "ranges.pipeline": GONE,
    "ranges.namespace": GONE,
    "ranges.shard_id": GONE,
    "ranges.start_kind": MOVED,
    "ranges.start_number": MOVED,
    "ranges.anchor": {("differs", "two")},
    "ranges.state": {("gap", "three")},
    "ranges.rows": {("differs", "two")},
    "ranges.bytes": {("damaged", "two")},
    "ranges.checksum": {("differs", "two")},
    **{f"chains.{column}": {("gap", "three")} for column in ("pipeline", "namespace", "shard_id")},
    **{f"shards.{column}": {("differs", name) for name in FILES_OF_SHARD} for column in ("pipeline", "shard_id")},
    **{
        f"shards.{column}": {SHARD}
        for column in ("parents", "starting_hash_key", "ending_hash_key", "starting_sequence_number")
    },
    "shards.ending_sequence_number": {SHARD},
}
"""An edit of one column of the ledger, and what is found."""

REFUSED = {"ledger.ledger_id": "ledger_id: expected", "schema.version": "the ledger's schema is version"}
"""An edit that ends the audit, and what it says."""

UNSEEN_COLUMNS = {
    # Keys that the texts beside them say once more: constraints hold the two together. The others decide nothing.
    "ranges": ("start_key", "through_key", "batch_id", "closed_at_ms"),
    "batches": ("batch_id", "pipeline", "namespace", "dag_id", "run_id", "plan", "digest", "created_at_ms"),
    "journal": (
        *("pipeline", "entry_number", "at_ms", "who", "action", "namespace", "shard_id", "start_kind"),
        *("start_number", "through", "anchor", "reason"),
    ),
    "schema": ("applied_at_ms",),
    "ledger": ("only_row",),
    # These decide what is planned next, and the ledger is all that says so. Planning refuses another pipeline.
    "pipelines": ("pipeline", "stream_arn", "stream_created_at_ms", "dataset"),
    "chains": ("start_kind", "start_number", "start_key", "caught_up_key", "caught_up_at_ms", "caught_up_retention_ms"),
    "shards": ("missing",),
    # For the audit of the backfill.
    "backfills": ("pipeline", "namespace", "bounds", "created_at_ms"),
}


def edited(*columns: str) -> Corruption:
    """Edit a row of the ledger, which keeps what it must not lose to be a row."""

    def corrupt(it: Lake) -> None:
        table = columns[0].partition(".")[0]
        names = [column.partition(".")[2] for column in columns]
        row = it.of("two") if table == "ranges" else ROW[table]
        another = {"anchor": "through"}  # a smaller number might lie before the range
        changes = ", ".join(f"{name} = {another.get(name, ANOTHER.format(name))}" for name in names)
        it.sql(f"UPDATE shardlake_{table} SET {changes} WHERE {row}")

    return corrupt


@pytest.fixture
def lake(make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> tuple[World, Lake]:
    world = make_world(2, on_data_loss="skip", aggregates="quarantine")
    world.root.mkdir()
    world.ledger = open_ledger(f"sqlite:///{world.root}/ledger.db")
    for n in range(3):
        world.put(*(BAD if n == 0 else ()), *(b"%d" % each for each in range(5)))
        if n == 1:
            world.put(b"left", b"too", shard=1)
        if n == 2:
            world.put(b"lost", shard=1)
            world.trim(shard=1)
            world.put(b"right", shard=1)
        world.run(f"run-{n}")
    world.run_until_caught_up()
    rows = list(world.ledger.ranges("p", LIVE))
    assert [row.state for row in rows] == ["committed"] * 4 + ["lost", "committed"]
    backfill = Steps(world.pipeline, world.ledger, namespace="b")
    backfill.open_backfill(Request())
    backfill.run(Run("dag", "b"), InlineEngine(), lambda line: None)
    world.ledger.record(JournalEntry(1, "ada", "repair", "p", LIVE, rows[2].range, "why"))
    ranges = dict(zip(("one", "two", "three", "left", "lost", "right"), (row.range for row in rows), strict=True))
    keys = {name: FileKey.of(range_) for name, range_ in ranges.items()}
    names = {name: key.path for name, key in keys.items() if name != "lost"}
    names |= {"aside": keys["one"].quarantine, "marker": keys["lost"].lost_marker, "file of lost": keys["lost"].path}
    for name in ("two", "three"):
        again = FileKey(keys[name].shard_id, anchor_of(ranges[name]), keys[name].through_key)
        names |= {f"marker of {name}": keys[name].lost_marker, f"{name} again": again.path}
        names |= {f"marker of {name} again": again.lost_marker}
    short = FileKey(keys["two"].shard_id, keys["two"].start_key, anchor_of(ranges["two"]))
    return world, Lake(world.root, {**names, "short": short.path}, ranges)


def anchor_of(range_: SequenceRange) -> str:
    assert range_.anchor
    return range_.anchor.key


@contextmanager
def corrupted(lake: Lake, corrupt: Corruption) -> Iterator[None]:
    """A corruption, which is taken back."""
    kept = lake.root.parent / "kept"
    shutil.copytree(lake.root, kept)
    try:
        corrupt(lake)
        yield
    finally:
        shutil.rmtree(lake.root)
        kept.rename(lake.root)


def findings(world: World, lake: Lake, corrupt: Corruption, namespace: str = LIVE) -> Findings:
    """What the audit finds after a corruption."""
    names = {path: name for name, path in lake.names.items()}
    with corrupted(lake, corrupt):
        steps = Steps(world.pipeline, open_ledger(f"sqlite:///{lake.root}/ledger.db"), namespace=namespace)
        return {(each.kind, names.get(each.path, each.path)) for one in audit(steps) for each in one.findings}


def columns_of(lake: Lake) -> set[str]:
    """The columns of the ledger, as table and column."""
    with closing(sqlite3.connect(lake.root / "ledger.db")) as connection:
        rows = connection.execute(
            "SELECT kept.name, of.name FROM sqlite_master AS kept, pragma_table_info(kept.name) AS of"
            " WHERE kept.type = 'table'"
        ).fetchall()
    return {f"{table.removeprefix('shardlake_')}.{column}" for table, column in rows}


def test_the_audit_finds_every_corruption(lake: tuple[World, Lake]) -> None:
    assert findings(*lake, lambda it: None) == set()
    found = {name: findings(*lake, corrupt) for name, (corrupt, _) in FOUND.items()}
    assert found == {name: expected for name, (_, expected) in FOUND.items()}


def test_what_the_audit_cannot_see(lake: tuple[World, Lake]) -> None:
    """A list to be shortened: whoever makes the audit see one of these finds it here."""
    assert {name: findings(*lake, corrupt) for name, corrupt in UNSEEN.items()} == {name: set() for name in UNSEEN}


def test_the_audit_finds_edits_of_the_ledger(lake: tuple[World, Lake]) -> None:
    """Of every column it is said here what comes of an edit. Kills: facts of shards, or bounds, taken on trust."""
    unseen = {table: [f"{table}.{column}" for column in columns] for table, columns in UNSEEN_COLUMNS.items()}
    shown = {*COLUMNS, *REFUSED, "ranges.through"}  # the last: "ledger's end" above, which has to be that of a record
    assert shown | {each for columns in unseen.values() for each in columns} == columns_of(lake[1])
    known = {*FILES_OF_SHARD, SHARD[1]}
    found = {
        column: {(kind, place if place in known else "another") for kind, place in findings(*lake, edited(column))}
        for column in COLUMNS
    }
    assert found == COLUMNS
    assert {table: findings(*lake, edited(*columns)) for table, columns in unseen.items()} == {t: set() for t in unseen}
    other_bounds = "UPDATE shardlake_backfills SET bounds = replace(bounds, 'fraction\": 0.5', 'fraction\": 0.9')"
    assert findings(*lake, lambda it: it.sql(other_bounds), "b") == {("differs", BOUNDS)}
    assert findings(*lake, lambda it: None, "b") == set()
    for column, said in REFUSED.items():
        with pytest.raises(ShardlakeError, match=said):
            findings(*lake, edited(column))


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("shards", "parents = '[]x'"),
        ("chains", "start_kind = 'ATx'"),
        ("ranges", "anchor = '1'"),
        ("ranges", "start_kind = 'ATx'"),
        ("ranges", "through = 'x'"),
        ("journal", "action = 'x'"),
    ],
)
def test_a_row_that_cannot_be_is_refused(lake: tuple[World, Lake], table: str, change: str) -> None:
    """Past the constraints. Kills: the ValueError of what should be made of it, let through."""
    row = lake[1].of("two") if table == "ranges" else ROW[table]
    with corrupted(lake[1], lambda it: it.sql(f"UPDATE shardlake_{table} SET {change} WHERE {row}")):
        ledger = open_ledger(f"sqlite:///{lake[1].root}/ledger.db")
        with pytest.raises(ConflictError, match=r"the ledger holds a row that cannot be: .* ledger rebuild"):
            (ledger.shards("p"), ledger.chains("p", LIVE), list(ledger.ranges("p", LIVE)), ledger.journal("p"))


@pytest.mark.parametrize("column", UNSEEN_COLUMNS["pipelines"][1:])
def test_a_plan_refuses_another_pipeline(lake: tuple[World, Lake], column: str) -> None:
    world, it = lake
    with corrupted(it, edited(f"pipelines.{column}")):
        world.ledger = open_ledger(f"sqlite:///{it.root}/ledger.db")
        with pytest.raises(ConflictError, match=f"the ledger knows pipeline p otherwise, {column}"):
            world.run("next")


@pytest.mark.parametrize("key", ["pipeline", "stream_arn", "stream_created_at_ms", "ledger_id"])
def test_another_owner_ends_the_audit(lake: tuple[World, Lake], key: str) -> None:
    world, it = lake
    owner = it.path(OWNER)
    owner.write_text(json.dumps({**json.loads(owner.read_text()), key: 7}))
    with pytest.raises(ConflictError, match=f"is not this pipeline's, {key}: expected .*, found 7"):
        list(audit(world.steps))
