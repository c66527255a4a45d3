"""Bugs that the product does not have, each of which the simulation has to find."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardlake import look, planning, survey
from shardlake.kinesis import reader, through
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.user_records import Unpacker, UserRecords
from shardlake.lake import local
from shardlake.lake.local import LocalHome
from shardlake.ledger import Contents, chain, memory, sql
from shardlake.ledger.memory import MemoryLedger
from shardlake.ledger.sql import SqlLedger
from shardlake.ranges import SequenceNumber, SequenceRange
from shardlake.sinks.parquet import ParquetSink

Bug = Callable[[pytest.MonkeyPatch], None]


def in_both_ledgers(patch: pytest.MonkeyPatch, name: str, wrong: object) -> None:
    """Replace a function of the chain in every ledger."""
    for store in (memory, sql):
        patch.setattr(store, name, wrong)


def commit_without_compare(patch: pytest.MonkeyPatch) -> None:
    in_both_ledgers(patch, "is_open", lambda range_, chain: True)


def pin_without_compare(patch: pytest.MonkeyPatch) -> None:
    def choose(proposed: Any, chains: Any) -> Any:
        open_ranges = [chains[each.shard_id].open_range for each in proposed]
        chosen = [open_ or each for open_, each in zip(open_ranges, proposed, strict=True)]
        return chosen, [each for open_, each in zip(open_ranges, proposed, strict=True) if not open_]

    in_both_ledgers(patch, "choose", choose)


def forget_open_ranges(patch: pytest.MonkeyPatch) -> None:
    right = look.Looker.look
    patch.setattr(look.Looker, "look", lambda self, shard, chain: right(self, shard, replace(chain, open_range=None)))


def open_range_planned_anew(patch: pytest.MonkeyPatch) -> None:
    forget_open_ranges(patch)
    in_both_ledgers(patch, "choose", lambda proposed, chains: (list(proposed), list(proposed)))


def end_moved_on_take_over(patch: pytest.MonkeyPatch) -> None:
    right = chain.choose

    def choose(proposed: Any, chains: Any) -> Any:
        chosen, new = right(proposed, chains)
        return [each for each in proposed if each.shard_id in {one.shard_id for one in chosen}], new

    forget_open_ranges(patch)
    in_both_ledgers(patch, "choose", choose)


def end_within_an_aggregate(patch: pytest.MonkeyPatch) -> None:
    right = Unpacker.user_records

    def user_records(self: Unpacker, pages: Iterable[Any]) -> Iterable[UserRecords]:
        for some in right(self, pages):
            if some.sub_sequence_numbers and some.sub_sequence_numbers[-1]:
                some = UserRecords(*(column and column[:-1] for column in map(some.__getattribute__, some.__slots__)))
            yield some

    patch.setattr(Unpacker, "user_records", user_records)


def child_before_parent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(survey, "readable", lambda shards, finished: [shards[id_] for id_ in shards if id_ not in finished])


def rename_over(patch: pytest.MonkeyPatch) -> None:
    def publish(self: LocalHome, temporary: Path, key: str) -> bool:
        self.overwrite(temporary, key)
        temporary.touch()
        return True

    patch.setattr(LocalHome, "publish", publish)


def visible_before_it_is_whole(patch: pytest.MonkeyPatch) -> None:
    def link(temporary: Path, target: Path) -> bool:
        content = temporary.read_bytes()
        for part in (content[: len(content) // 2], content):
            target.write_bytes(part)
            local._sync(target)
        local._sync(target.parent)
        return True

    patch.setattr(local, "_link", link)


def file_not_synced(patch: pytest.MonkeyPatch) -> None:
    right = local._sync
    patch.setattr(local, "_sync", lambda path: right(path) if path.is_dir() else None)


def folder_not_synced(patch: pytest.MonkeyPatch) -> None:
    right = local._sync
    patch.setattr(local, "_sync", lambda path: None if "shard_id=" in path.name else right(path))


def start_resolved_again(patch: pytest.MonkeyPatch) -> None:
    latest = "_policies_under_way"
    patch.setattr(survey.Surveyor, latest, lambda self, new: dict.fromkeys((each.shard_id for each in new), "latest"))


def expired_iterator(patch: pytest.MonkeyPatch, wrong: Callable[[Kinesis, str, SequenceNumber], str]) -> None:
    right = Kinesis.iterator_at

    def iterator_at(self: Kinesis, shard_id: str, kind: Any, number: SequenceNumber) -> str:
        if kind == "AFTER_SEQUENCE_NUMBER":
            return wrong(self, shard_id, number)
        return right(self, shard_id, kind, number)

    patch.setattr(Kinesis, "iterator_at", iterator_at)


def expired_iterator_resumed_at(patch: pytest.MonkeyPatch) -> None:
    right = Kinesis.iterator_at
    expired_iterator(patch, lambda self, shard_id, number: right(self, shard_id, "AT_SEQUENCE_NUMBER", number))
    patch.setattr(reader, "_check_follows", lambda *_: None)


def expired_iterator_resumed_behind_a_record(patch: pytest.MonkeyPatch) -> None:
    right = Kinesis.iterator_at

    def behind(self: Kinesis, shard_id: str, number: SequenceNumber) -> str:
        iterator = right(self, shard_id, "AFTER_SEQUENCE_NUMBER", number)
        return self.get_records(iterator, 1).next_iterator or iterator

    expired_iterator(patch, behind)


def anchor_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SequenceRange, "begins_with", lambda self, first: True)


def loss_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(through, "_may_have_lost", lambda *_: False)


def written_again(patch: pytest.MonkeyPatch) -> None:
    right = ParquetSink.write

    def write(self: ParquetSink, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(self, "_is_published", lambda range_: False)
            return right(self, *arguments)

    rename_over(patch)
    patch.setattr(ParquetSink, "write", write)


def rest_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planning, "rest_of", lambda chain, lost: None)


def loss_without_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planning, "write_markers", lambda *_: None)


def report_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        ParquetSink, "verify", lambda self, plan, ranges: dict.fromkeys(ranges, Contents(1, 1, "as reported"))
    )


def idleness_not_noted(patch: pytest.MonkeyPatch) -> None:
    for ledger in (MemoryLedger, SqlLedger):
        patch.setattr(ledger, "record_listing", _without_notes(ledger.record_listing))


def _without_notes(record_listing: Any) -> Any:
    def stored(*arguments: Any, **named: Any) -> Any:
        *others, _ = arguments
        return record_listing(*others, **named)

    return stored


BUGS: dict[str, tuple[Bug, str]] = {
    "an open range planned anew": (open_range_planned_anew, "has become|stray files"),
    "an end within an aggregate": (end_within_an_aggregate, r"holds \[.* was put"),
    "child before parent": (child_before_parent, "is planned before its parent"),
    "visible before it is whole": (visible_before_it_is_whole, "Could not open Parquet"),
    "the file not synced": (file_not_synced, "is not what it was before the power was lost"),
    "the folder not synced": (folder_not_synced, "is committed, and its file is not there"),
    "the start resolved again": (start_resolved_again, "is in no range"),
}
"""Each with what the simulation says of it."""

TO_BE_FOUND: dict[str, Bug] = {
    "commit without compare": commit_without_compare,
    "pin without compare": pin_without_compare,
    "the end moved on take-over": end_moved_on_take_over,
    "publish by rename": rename_over,
    "an expired iterator resumed at the last record": expired_iterator_resumed_at,
    "an expired iterator resumed behind the next record": expired_iterator_resumed_behind_a_record,
    "the anchor not checked": anchor_not_checked,
    "loss not looked for": loss_not_looked_for,
    "a committed file written again": written_again,
    "a lost range without its rest": rest_forgotten,
    "a loss without its marker": loss_without_marker,
    "the report believed": report_believed,
    "idleness not noted": idleness_not_noted,
}
"""Bugs that it is not shown to find within the worlds of one seed; no test asserts them."""
