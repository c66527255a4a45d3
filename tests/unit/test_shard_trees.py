"""Shard trees of many shapes: which shards get a chain, where it begins, and which are planned in which round.

A story is what happens to a stream, word by word. It begins with how many shards there are. `put:0`, `put:0+1` and
`put:0x3` put records on shards; `split:0`, `merge:0+1` and `resize:4` reshard; `wait:5` lets five hours pass,
`retain:48` sets the retention; `mark` notes the time, for a start `mark` (`dawn` is the stream's beginning); `hide:1+2`
has listings leave shards out; `run` is a batch, planned and committed.

What is expected is told in the same way: the chains as the first plan behind the story finds or opens them, and the
shards of the rounds from there on. `1st` is AT a shard's first record, `>2nd` AFTER its second, `own` AT and `>own`
AFTER its StartingSequenceNumber, `end` is SHARD_END.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shardlake.ranges import Position, SequenceNumber, Start
from support.model_pipeline import ModelPipeline
from support.model_stream import BEGINNING_MS, ModelStream

ORDINALS = ("1st", "2nd", "3rd", "4th", "5th")


class Story:
    """A stream and its pipeline as a story leaves them.

    Args:
        named: `shard_starts`, by a shard's index; `after 0 1st` and `at 0 1st` stand for the number of a record.
    """

    def __init__(self, story: str, folder: Path, start: str, named: dict[int, str] | None = None) -> None:
        shards, *words = story.split()
        self.stream, self.mark_ms = ModelStream(int(shards)), 0
        self._folder, self._start, self._named = folder, start, named or {}
        self._pipeline: ModelPipeline | None = None
        for word in words:
            verb, _, what = word.partition(":")
            self._verbs()[verb](what)

    @property
    def pipeline(self) -> ModelPipeline:
        """The pipeline, made when it is first asked for: what a start means is then known."""
        if self._pipeline is None:
            named = {shard_id(index): self._value(start) for index, start in self._named.items()}
            starts = {"start": self._value(self._start), "shard_starts": named}
            self._pipeline = ModelPipeline(self.stream, self._folder, on_data_loss="skip", **starts)
        return self._pipeline

    def chains(self) -> str:
        """Where the shards stand."""
        chains = self.pipeline.chains.values()
        return " ".join(f"{index_of(chain.shard_id)}@{self._said(chain.shard_id, chain.position)}" for chain in chains)

    def rounds(self) -> str:
        """The shards of one batch after another, each committed."""
        return " | ".join(" ".join(str(index_of(id_)) for id_ in round_) for round_ in self.pipeline.rounds())

    def losses(self) -> str:
        """The lost ranges."""
        rows = [row.range for row in self.pipeline.rows if row.state == "lost"]
        return " ".join(f"{index_of(row.shard_id)}@{self._said(row.shard_id, row.start)}" for row in rows)

    def _verbs(self) -> dict[str, Callable[[str], object]]:
        stream = self.stream
        return {
            "put": self._put,
            "split": lambda what: stream.split(int(what)),
            "merge": lambda what: stream.merge(*map(int, what.split("+"))),
            "resize": lambda what: stream.resize(int(what)),
            "wait": lambda what: stream.wait(float(what)),
            "retain": lambda what: setattr(stream.local, "retention_hours", int(what)),
            "mark": lambda _: self._mark(),
            "hide": self._hide,
            "run": lambda _: self.pipeline.commit(self.pipeline.plan()),
        }

    def _put(self, what: str) -> None:
        indexes, _, count = what.partition("x")
        for index in indexes.split("+"):
            self.stream.put(int(index), int(count or 1))

    def _hide(self, what: str) -> None:
        self.stream.hidden = {shard_id(int(index)) for index in what.split("+") if index}

    def _mark(self) -> None:
        self.stream.wait(0.01)
        self.mark_ms = self.stream.now_ms
        self.stream.wait(0.01)

    def _value(self, start: str) -> Any:
        if times := {"mark": self.mark_ms, "dawn": BEGINNING_MS}.get(start):
            return {"at_timestamp": datetime.fromtimestamp(times / 1000, tz=UTC).isoformat()}
        if " " not in start:
            return start
        kind, index, ordinal = start.split()
        number = self.stream.put_numbers[shard_id(int(index))][ORDINALS.index(ordinal)]
        return {f"{kind}_sequence_number": number.text}

    def _said(self, id_: str, position: Position) -> str:
        own = SequenceNumber(self.stream.local.shards[index_of(id_)].numbers.text(0))
        numbers = {own: "own"} | dict(zip(self.stream.put_numbers.get(id_, []), ORDINALS, strict=False))
        if not isinstance(position, Start):
            return "end"
        return ("" if position.kind == "AT" else ">") + numbers[position.number]


def shard_id(index: int) -> str:
    return f"shardId-{index:012d}"


def index_of(id_: str) -> int:
    return int(id_.removeprefix("shardId-"))


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


# fmt: off
FIRST = [
    ("two roots", "2 put:0x2 mark put:1", [
        ("trim_horizon", "0@1st 1@1st", "0 1"),
        ("latest", "0@>2nd 1@>1st", ""),
        ("mark", "0@>2nd 1@1st", "1"),
    ]),
    ("split, records on both sides of it", "1 put:0 mark put:0 split:0 put:1", [
        ("trim_horizon", "0@1st 1@1st 2@own", "0 | 1"),
        ("latest", "0@end 1@>1st 2@own", ""),
        ("mark", "0@2nd 1@1st 2@own", "0 | 1"),
    ]),
    ("split, everything empty", "1 split:0 mark", [
        ("trim_horizon", "0@own 1@own 2@own", "0"),
        ("latest", "0@end 1@own 2@own", ""),
        ("mark", "0@end 1@own 2@own", ""),
    ]),
    ("merge of a full and an empty shard", "2 put:0 mark merge:0+1 put:2", [
        ("trim_horizon", "0@1st 1@own 2@1st", "0 1 | 2"),
        ("latest", "0@end 1@end 2@>1st", ""),
        ("mark", "0@end 1@end 2@1st", "2"),
    ]),
    ("split and merged again", "1 put:0 split:0 mark put:1 merge:1+2 put:3", [
        ("trim_horizon", "0@1st 1@1st 2@own 3@1st", "0 | 1 2 | 3"),
        ("latest", "0@end 1@end 2@end 3@>1st", ""),
        ("mark", "0@end 1@1st 2@end 3@1st", "1 | 3"),
    ]),
    ("four generations", "1 put:0 split:0 put:1 mark split:1 put:3 split:3 put:5", [
        ("trim_horizon", "0@1st 1@1st 2@own 3@1st 4@own 5@1st 6@own", "0 | 1 | 3 | 5"),
        ("latest", "0@end 1@end 2@own 3@end 4@own 5@>1st 6@own", ""),
        ("mark", "0@end 1@end 2@own 3@1st 4@own 5@1st 6@own", "3 | 5"),
    ]),
    ("merge of a shard with its niece", "2 put:0 put:1 split:0 mark put:2 put:3 merge:3+1 put:4", [
        ("trim_horizon", "0@1st 1@1st 2@1st 3@1st 4@1st", "0 1 | 2 3 | 4"),
        ("latest", "0@end 1@end 2@>1st 3@end 4@>1st", ""),
        ("mark", "0@end 1@end 2@1st 3@1st 4@1st", "2 3 | 4"),
    ]),
    ("six shards: four to two to one, one stays, one is split",
     "6 put:0+1+2+3+4+5 mark merge:0+1 merge:2+3 put:6+7 merge:6+7 split:5 put:8+9+10+4", [
        ("trim_horizon", " ".join(f"{n}@1st" for n in range(11)), "0 1 2 3 4 5 | 6 7 9 10 | 8"),
        ("latest", "0@end 1@end 2@end 3@end 4@>2nd 5@end 6@end 7@end 8@>1st 9@>1st 10@>1st", ""),
        ("mark", "0@end 1@end 2@end 3@end 4@2nd 5@end 6@1st 7@1st 8@1st 9@1st 10@1st", "4 6 7 9 10 | 8"),
    ]),
    ("UpdateShardCount up", "2 put:0 put:1 mark resize:4 put:2", [
        ("trim_horizon", "0@1st 1@1st 2@1st 3@own 4@own 5@own", "0 1 | 2"),
        ("latest", "0@end 1@end 2@>1st 3@own 4@own 5@own", ""),
        ("mark", "0@end 1@end 2@1st 3@own 4@own 5@own", "2"),
    ]),
    ("UpdateShardCount down, over short-lived shards", "3 put:0 put:1 put:2 mark resize:2 put:5 put:6", [
        ("trim_horizon", "0@1st 1@1st 2@1st 3@own 4@own 5@1st 6@1st", "0 1 2 | 3 4 | 5 6"),
        ("latest", "0@end 1@end 2@end 3@end 4@end 5@>1st 6@>1st", ""),
        ("mark", "0@end 1@end 2@end 3@end 4@end 5@1st 6@1st", "5 6"),
    ]),
    ("the parent's records have expired, the parent is still listed",
     "1 put:0 wait:1 split:0 mark wait:23.5 put:1 put:2", [
        ("trim_horizon", "0@own 1@1st 2@1st", "0 | 1 2"),
        ("latest", "0@end 1@>1st 2@>1st", ""),
        ("mark", "0@end 1@1st 2@1st", "1 2"),
    ]),
    ("the parent has left the listing", "1 put:0 split:0 wait:25 mark put:1", [
        ("trim_horizon", "1@1st 2@own", "1"),
        ("latest", "1@>1st 2@own", ""),
        ("mark", "1@1st 2@own", "1"),
    ]),
    ("parents and grandparent have left the listing", "1 split:0 put:1 merge:1+2 wait:25 mark put:3", [
        ("trim_horizon", "3@1st", "3"),
        ("latest", "3@>1st", ""),
        ("mark", "3@1st", "3"),
    ]),
    ("the listing is in mid-reshard: no children yet", "1 put:0 mark split:0 put:1 hide:1+2", [
        ("trim_horizon", "0@1st", "0 | 1"),
        ("latest", "0@end", "1"),
        ("mark", "0@end", "1"),
    ]),
    ("the listing is in mid-reshard: one child of two", "1 put:0 mark split:0 put:1 put:2 hide:2", [
        ("trim_horizon", "0@1st 1@1st", "0 | 1 2"),
        ("latest", "0@end 1@>1st", "2"),
        ("mark", "0@end 1@1st", "1 2"),
    ]),
    ("one of two parents is not listed", "2 put:0 put:1 mark merge:0+1 put:2 hide:1", [
        ("trim_horizon", "0@1st 2@1st", "0 1 | 2"),
        ("latest", "0@end 2@>1st", "1"),
        ("mark", "0@end 2@1st", "1 | 2"),
    ]),
]
FIRST_CASES = [
    pytest.param(story, *case, id=f"{name}, {case[0]}") for name, story, cases in FIRST for case in cases
]
SPLIT = "1 put:0x3 split:0 put:1x2 mark put:2x2"
MERGE = "2 put:0x2 put:1 merge:0+1 put:2x2 mark put:2"
LINE = "1 put:0x2 split:0 put:1 split:1 put:3x2"
NAMED_CASES = [
    # what follows from a parent that is read to its end is read from its beginning
    (SPLIT, "latest", {0: "trim_horizon"}, "0@1st 1@1st 2@1st", "0 | 1 2"),
    (SPLIT, "latest", {0: "at 0 2nd"}, "0@2nd 1@1st 2@1st", "0 | 1 2"),
    (SPLIT, "latest", {0: "after 0 2nd"}, "0@>2nd 1@1st 2@1st", "0 | 1 2"),
    (SPLIT, "latest", {0: "after 0 3rd"}, "0@>3rd 1@1st 2@1st", "0 | 1 2"),
    (LINE, "latest", {0: "after 0 1st"}, "0@>1st 1@1st 2@own 3@1st 4@own", "0 | 1 | 3"),
    (MERGE, "latest", {0: "after 0 1st"}, "0@>1st 1@end 2@1st", "0 | 2"),
    (SPLIT, "mark", {0: "after 0 1st"}, "0@>1st 1@1st 2@1st", "0 | 1 2"),
    # ... from a time, both
    (SPLIT, "latest", {0: "mark"}, "0@end 1@>2nd 2@1st", "2"),
    (MERGE, "latest", {0: "mark", 1: "mark"}, "0@end 1@end 2@3rd", "2"),
    (MERGE, "latest", {0: "mark", 1: "dawn"}, "0@end 1@1st 2@1st", "1 | 2"),
    (MERGE, "latest", {0: "mark", 1: "latest"}, "0@end 1@end 2@3rd", "2"),
    (MERGE, "latest", {0: "mark", 1: "after 1 1st"}, "0@end 1@>1st 2@1st", "1 | 2"),
    # ... and from one at latest, nothing: it is the SHARD_END of another consumer
    (SPLIT, "trim_horizon", {0: "latest"}, "0@end 1@1st 2@1st", "1 2"),
    (SPLIT, "latest", {0: "latest"}, "0@end 1@>2nd 2@>2nd", ""),
    # a child that is named itself begins as it says, and so do its children
    (SPLIT, "trim_horizon", {1: "after 1 1st"}, "0@1st 1@>1st 2@1st", "0 | 1 2"),
    (SPLIT, "trim_horizon", {1: "latest"}, "0@1st 1@>2nd 2@1st", "0 | 2"),
    (SPLIT, "latest", {0: "after 0 1st", 2: "at 2 2nd"}, "0@>1st 1@1st 2@2nd", "0 | 1 2"),
    (LINE, "latest", {0: "after 0 1st", 1: "latest"}, "0@>1st 1@end 2@own 3@>2nd 4@own", "0"),
]
# fmt: on
UNDER_WAY_CASES = [
    ("a split", "1 put:0 run split:0 put:1", "0@>1st 1@1st 2@own", "0 | 1", ""),
    (
        "a child's beginning is about to expire",
        "1 put:0 run split:0 put:1 wait:23.9 put:1",
        "0@>1st 1@1st 2@own",
        "0 | 1 | 1",
        "",
    ),
    (
        "three generations between two batches",
        "1 put:0 run put:0 split:0 put:1 split:1 put:3",
        "0@>1st 1@1st 2@own 3@1st 4@own",
        "0 | 1 | 3",
        "",
    ),
    (
        "a parent whose end comes before its children are listed",
        "1 put:0 run split:0 put:1 hide:1+2 run hide:",
        "0@end 1@1st 2@own",
        "1",
        "",
    ),
    (
        "UpdateShardCount, twice between two batches",
        "2 run put:0 resize:4 put:2 resize:2 put:6",
        "0@own 1@own 2@1st 3@own 4@own 5@own 6@1st 7@own",
        "0 1 | 2 3 4 5 | 6",
        "",
    ),
    (
        "an outage as long as the parents' life",
        "1 put:0 run put:0 split:0 wait:23 put:1",
        "0@>1st 1@1st 2@own",
        "0 | 1",
        "",
    ),
    (
        "an outage longer than that: what came first is lost, in the child too",
        "1 put:0 run put:0 split:0 put:1 wait:25 put:1x2",
        "0@>1st 1@>own 2@>own",
        "1",
        "0@>1st 1@>own",
    ),
    (
        "the same, merged",
        "2 put:0 run put:1 merge:0+1 put:2 wait:25 put:2",
        "0@>1st 1@own 2@>own",
        "2",
        "0@>1st 1@own 2@>own",
    ),
    (
        "the same, the parent's end read before",
        "1 put:0 run split:0 hide:1+2 run hide: put:1 wait:25 put:1",
        "0@end 1@2nd 2@>own",
        "1",
        "1@>own",
    ),
    (
        "a shard that came and went unseen",
        "1 put:0 run split:0 hide:1+2 run hide: put:1 split:1 put:3 wait:25 put:3",
        "0@end 2@>own 3@2nd 4@>own",
        "3",
        "3@>own",
    ),
    ("one listing without a shard", "1 put:0 run hide:0 put:0 run hide:", "0@>1st", "0", ""),
    (
        "two without a shard that can be read all the same",
        "1 put:0 run hide:0 put:0 run run put:0 hide:",
        "0@>2nd",
        "0",
        "",
    ),
    (
        "idle for days, looked at now and then",
        "1 put:0 run run wait:23 run wait:23 run wait:23 put:0",
        "0@>1st",
        "0",
        "",
    ),
    ("not looked at for longer than the retention", "1 put:0 run run wait:25 put:0", "0@2nd", "0", "0@>1st"),
    (
        "longer by less than the second that the service's clock shows",
        "1 run put:0 wait:24 put:0",
        "0@2nd",
        "0",
        "0@own",
    ),
    ("as long, but retained", "1 retain:48 put:0 run run wait:1 put:0 wait:25 put:0", "0@>1st", "0 | 0", ""),
    (
        "the same, and the retention lowered",
        "1 retain:48 put:0 run run wait:1 put:0 wait:25 retain:24 put:0",
        "0@3rd",
        "0",
        "0@>1st",
    ),
    (
        "the retention lowered for an idle shard",
        "1 retain:48 put:0 wait:30 run run retain:24 wait:1 put:0",
        "0@>1st",
        "0",
        "",
    ),
]


def told(story: Story) -> tuple[str, str]:
    """The chains that the first plan opens, and the rounds from there on, all shards being listed."""
    story.pipeline.plan()
    story.stream.hidden = ()
    return story.chains(), story.rounds()


@pytest.mark.parametrize(("story", "start", "chains", "rounds"), FIRST_CASES)
def test_a_first_start(tmp_path: Path, story: str, start: str, chains: str, rounds: str) -> None:
    assert told(Story(story, tmp_path, start)) == (chains, rounds)


@pytest.mark.parametrize(("story", "start", "named", "chains", "rounds"), NAMED_CASES)
def test_a_first_start_with_shards_that_begin_elsewhere(
    tmp_path: Path, story: str, start: str, named: dict[int, str], chains: str, rounds: str
) -> None:
    assert told(Story(story, tmp_path, start, named)) == (chains, rounds)


@pytest.mark.parametrize("start", ["trim_horizon", "latest"])
@pytest.mark.parametrize(
    ("story", "chains", "rounds", "losses"), [pytest.param(*case[1:], id=case[0]) for case in UNDER_WAY_CASES]
)
def test_under_way_whatever_the_start_was(
    tmp_path: Path, start: str, story: str, chains: str, rounds: str, losses: str
) -> None:
    under_way = Story(story, tmp_path, start)
    assert (*told(under_way), under_way.losses()) == (chains, rounds, losses)


@pytest.mark.parametrize("nth", range(12))
def test_a_beginning_that_is_trimmed_while_it_is_planned_is_told(tmp_path: Path, nth: int) -> None:
    """Kills: the horizon asked for before the beginning is looked for."""
    story = Story("1 put:0 run split:0 hide:1+2 run hide: put:1 wait:23.9 put:1", tmp_path, "trim_horizon")
    stream, calls = story.stream, itertools.count()

    def late(call: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object, **more: object) -> object:
            if next(calls) == nth:
                stream.wait(0.2)
            return call(*arguments, **more)

        return called

    for name in ("list_shards", "shards_at_horizon", "iterator_at", "iterator_at_horizon", "get_records"):
        setattr(stream, name, late(getattr(stream, name)))
    story.rounds()
    row = next(row for row in story.pipeline.rows if index_of(row.range.shard_id) == 1)
    first = stream.put_numbers[shard_id(1)][0]
    assert row.range.start.key <= Start("AT", first).key
    assert row.state == "lost" or row.range.anchor == first
