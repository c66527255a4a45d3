"""Every corruption that can be planted, by its name, and what the audit finds; and what it cannot see.

One dataset serves for all: before each corruption it is put back as it was. Where a file is written again, the ledger
is told its new size, so that not the size alone gives it away.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardlake.auditing import audit
from shardlake.batch import Steps
from shardlake.lake.rows import RowsChecksum
from shardlake.ledger import open_ledger
from shardlake.names import LIVE, FileKey
from shardlake.ranges import SequenceRange
from support.aggregates import User, protobuf, sealed

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
        return f"shard_id = '{range_.shard_id}' AND start_key = '{range_.start.key}'"

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

NO_CONTENTS = "rows = NULL, bytes = NULL, checksum = NULL"

Corruption = Callable[[Lake], object]
Findings = set[tuple[str, str]]


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
    "ledger's rows": (lambda it: it.update("two", "rows = rows + 1"), {("differs", "two")}),
    "ledger's checksum": (lambda it: it.update("two", "checksum = 'ab'"), {("differs", "two")}),
    "ledger's bytes": (lambda it: it.update("two", "bytes = bytes + 1"), {("damaged", "two")}),
    "ledger's anchor": (lambda it: it.update("two", "anchor = through"), {("differs", "two")}),
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
        lambda it: it.sql("DELETE FROM shardlake_chains WHERE shard_id = 'shardId-000000000000'"),
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
    "ledger's time of the commit": lambda it: it.update("two", "closed_at_ms = 1"),
    "the batch that planned a committed range": lambda it: it.update("two", "batch_id = 'x'"),
    "the start of a chain that has ranges": lambda it: it.sql(
        "UPDATE shardlake_chains SET start_number = '5', start_key = '5' WHERE shard_id = 'shardId-000000000000'"
    ),
    # These decide what is planned next, and the ledger is all that says so.
    "the last range made open again": lambda it: it.update("three", f"state = 'planned', {NO_CONTENTS}"),
    "when a shard was caught up": lambda it: it.sql(
        "UPDATE shardlake_chains SET caught_up_at_ms = 1 WHERE shard_id = 'shardId-000000000000'"
    ),
    "a copy of a plan": lambda it: shutil.rmtree(it.path("_shardlake/batches")),
}


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


def findings(world: World, lake: Lake, corrupt: Corruption) -> Findings:
    """What the audit finds after a corruption, which is taken back."""
    kept = lake.root.parent / "kept"
    shutil.copytree(lake.root, kept)
    corrupt(lake)
    steps = Steps(world.pipeline, open_ledger(f"sqlite:///{lake.root}/ledger.db"))
    names = {path: name for name, path in lake.names.items()}
    found: Findings = {(each.kind, names.get(each.path, each.path)) for one in audit(steps) for each in one.findings}
    shutil.rmtree(lake.root)
    kept.rename(lake.root)
    return found


def test_the_audit_finds_every_corruption(lake: tuple[World, Lake]) -> None:
    assert findings(*lake, lambda it: None) == set()
    found = {name: findings(*lake, corrupt) for name, (corrupt, _) in FOUND.items()}
    assert found == {name: expected for name, (_, expected) in FOUND.items()}


def test_what_the_audit_cannot_see(lake: tuple[World, Lake]) -> None:
    """A list to be shortened: whoever makes the audit see one of these finds it here."""
    assert {name: findings(*lake, corrupt) for name, corrupt in UNSEEN.items()} == {name: set() for name in UNSEEN}
