"""A run like the demo's, on some of its flights: what audit and the demo's check say when a file is gone."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from demo.check import check
from demo.flights import read_flights, to_record
from local_kinesis.produce import put_all
from support.command_line import entry_of, write_config

if TYPE_CHECKING:
    from tests.integration.conftest import World


def test_a_deleted_file_fails_audit_and_the_demos_check(world: World, tmp_path: Path) -> None:
    flights = list(islice(read_flights(), 3_000))
    acknowledged = put_all(world.client, world.stream, map(to_record, flights))
    carriers = Counter(flight["carrier"] for flight in flights)
    shards = Counter(record.shard_id for record in acknowledged)
    shardlake = write_config(tmp_path / "pipelines.yaml", flights=entry_of(world))
    assert shardlake("run", "flights").exit_code == 0
    dataset = world.root / "lake"
    assert shardlake("audit", "flights").exit_code == 0
    assert check(dataset, carriers, shards) == []

    file = next((dataset / "data").rglob("*.parquet"))
    file.unlink()

    audit = shardlake("audit", "flights")
    assert audit.exit_code == 4
    assert audit.output.startswith("missing: the file of range shardId-000000000000 AT ")
    assert check(dataset, carriers, shards) != []
