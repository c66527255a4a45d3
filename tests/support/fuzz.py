"""What fuzzing shares: hostile values, documents with some of their values changed, and how long it goes on."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from shardlake.names import LIVE
from shardlake.plan import BatchPlan, HashRange, Run, Stream
from shardlake.ranges import SequenceRange

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
"""How many examples a property is tried with."""

GONE = object()
"""In place of a value: neither it nor its key is there."""

_hostile = st.sampled_from(
    [
        *(
            GONE,
            None,
            True,
            0,
            -1,
            10**30,
            -(10**200),
            10**200,
            1e308,
            float("nan"),
            float("inf"),
            1.5,
            "",
            [],
            {},
            [[]],
        ),
        *("1" * 200, "-5", "0", "a\0b", "../../x", "\x1b[31m", "x" * 10_000, "٣", {"a": 1}, "2026-01-01T00:00:00Z"),
    ]
)
values = _hostile | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)

_Path = tuple[Any, ...]


def _paths(document: Any, path: _Path = ()) -> Iterator[_Path]:
    yield path
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        yield from _paths(document[key], (*path, key))


def _changed(document: Any, changes: list[tuple[_Path, Any]]) -> Any:
    document = copy.deepcopy(document)
    for (*path, last), value in ((("document", *path), value) for path, value in changes):
        place: Any = {"document": document}
        for key in path:
            place = place[key]
        if value is GONE and last != "document":
            del place[last]
        elif last == "document":
            return None if value is GONE else value
        else:
            place[last] = value
    return document


def mutated(document: Any) -> st.SearchStrategy[Any]:
    """The JSON document with one of its values, or itself, changed or gone."""
    change = st.tuples(st.sampled_from(list(_paths(document))), values)
    return change.map(lambda one: _changed(document, [one]))


def plan_of(range_: SequenceRange) -> BatchPlan:
    """A plan of one range."""
    return BatchPlan(
        batch_id="b",
        pipeline="p",
        namespace=LIVE,
        run=Run("d", "r"),
        stream=Stream("s", "arn:aws:kinesis:eu-west-1:000000000000:stream/s", 1, 86_400_000, "eu-west-1", None),
        dataset="/lake",
        ledger_id="a" * 32,
        planned_at_ms=0,
        behind=False,
        groups=((range_,),),
        aggregates="keep",
        hash_ranges=(HashRange(range_.shard_id, "0", str(2**128 - 1)),),
    )
