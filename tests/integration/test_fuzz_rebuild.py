"""Whatever lies in a dataset, a ledger rebuilt from it reads on, or one clear error says why there is none.

A longer run: FUZZ_EXAMPLES=10000.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from shardlake.backfill import Request
from shardlake.batch import Steps
from shardlake.errors import ShardlakeError
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import BOUNDS, DATA, LIVE, LOST, OWNER, SHARD_ID
from shardlake.rebuild import rebuilt, restore
from support.fuzz import EXAMPLES, mutated

if TYPE_CHECKING:
    from tests.integration.conftest import World

pytestmark = pytest.mark.slow

fuzzed = settings(max_examples=max(1, EXAMPLES // 4), deadline=None, derandomize=True, database=None)


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A committed range, a lost one, and one that is planned; a backfill of all that is left."""
    world = make_world(1, on_data_loss="skip")
    world.put(b"read")
    world.run()
    world.put(b"lost")
    world.trim()
    world.put(b"left", b"too")
    world.run_until_caught_up()
    Steps(world.pipeline, world.ledger, namespace="b").open_backfill(Request())
    world.put(b"planned")
    world.plan("open")
    return world


def stored(world: World) -> dict[str, bytes]:
    """The plan of the open range, the owner, the marker and the backfill's bounds, by key."""
    (lost,) = world.lake.keys(f"{LOST}/")
    (plan,) = [key for key in world.lake.keys("_shardlake/batches/open-") if key.endswith("plan.json")]
    return {key: world.lake.read(key) for key in (plan, OWNER, lost, f"backfill/b/{BOUNDS}")}


@pytest.mark.parametrize("which", range(4), ids=["plan", "owner", "marker", "bounds"])
def test_what_is_rebuilt_goes_on_or_is_refused(world: World, tmp_path: Path, which: int) -> None:
    """Kills: a shard's id taken from a plan, by which a range would leave the dataset's folder."""
    key, content = [*stored(world).items()][which]
    outside = sorted(tmp_path.iterdir())

    @fuzzed
    @given(mutated(json.loads(content)))
    def check(document: Any) -> None:
        goes_on_or_is_refused(replace(world, ledger=MemoryLedger()), key, document)

    check()
    assert sorted(tmp_path.iterdir()) == outside


def goes_on_or_is_refused(world: World, key: str, document: Any) -> None:
    before = {each: world.lake.read(each) for each in world.lake.keys("")}
    world.lake.write(key, json.dumps(document).encode())
    try:
        restore(world.steps, rebuilt(world.steps))
        for namespace in (LIVE, *world.ledger.backfills("p")):
            assert all(map(SHARD_ID.fullmatch, world.ledger.chains("p", namespace)))
        world.run("next")
    except ShardlakeError:
        pass
    finally:
        for each in world.lake.keys(""):
            if each not in before:
                assert each.startswith((f"{DATA}/shard_id=shardId-", "_shardlake/", "backfill/b/")), each
                world.lake.delete(each)
        for each, content in before.items():
            world.lake.write(each, content)


def test_a_plan_with_a_range_of_a_shard_that_cannot_be_is_no_usable_copy(world: World) -> None:
    (key,) = [key for key in stored(world) if key.endswith("plan.json")]
    plan = json.loads(world.lake.read(key))
    plan["groups"][0][0]["shard_id"] = "../../x"
    world.lake.write(key, json.dumps(plan).encode())
    found = rebuilt(replace(world, ledger=MemoryLedger()).steps)
    assert [note for note in found.notes if "has no usable copy of its plan" in note]
    assert {shard_id for told in found.told for shard_id in told.starts} == {"shardId-000000000000"}
