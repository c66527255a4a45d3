"""Bugs of planning, of the chains and of what people do by hand, that the product does not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardlake import batch, look, planning, rebuild, rebuild_files, repair, survey
from shardlake.caught_up import CaughtUp
from shardlake.kinesis import reader
from shardlake.ledger import Contents, LedgerRange, chain, memory, sql
from shardlake.ledger.memory import MemoryLedger
from shardlake.ledger.sql import SqlLedger
from shardlake.names import LIVE
from shardlake.sinks.parquet import ParquetSink

LEDGERS = (MemoryLedger, SqlLedger)


def in_both_ledgers(patch: pytest.MonkeyPatch, name: str, wrong: object) -> None:
    """Replace a function of the chain in every ledger."""
    for store in (memory, sql):
        patch.setattr(store, name, wrong)


def commit_without_compare(patch: pytest.MonkeyPatch) -> None:
    in_both_ledgers(patch, "is_open", lambda range_, chain: True)
    in_both_ledgers(patch, "was_seen", lambda row, seen: True)


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


def child_before_parent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(survey, "readable", lambda shards, finished: [shards[id_] for id_ in shards if id_ not in finished])


def start_resolved_again(patch: pytest.MonkeyPatch) -> None:
    def open_under_way(self: survey.Surveyor, new: Any) -> Any:
        return self._open(new, dict.fromkeys((each.shard_id for each in new), "latest"))

    patch.setattr(survey.Surveyor, "_open_under_way", open_under_way)


def rest_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planning, "rest_of", lambda chain, lost: None)


def loss_without_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planning, "write_markers", lambda *_: None)


def report_believed(patch: pytest.MonkeyPatch) -> None:
    """What verify takes for granted, commit would find out by the file's size: so that is not looked at either."""

    def verify(self: ParquetSink, plan: Any, ranges: Any) -> Any:
        return dict.fromkeys(ranges, Contents(1, 1, "as reported"))

    patch.setattr(ParquetSink, "verify", verify)
    patch.setattr(ParquetSink, "still_holds", lambda *_: True)


def idleness_not_noted(patch: pytest.MonkeyPatch) -> None:
    for ledger in LEDGERS:
        patch.setattr(ledger, "record_listing", _without_notes(ledger.record_listing))


def _without_notes(record_listing: Any) -> Any:
    return lambda *arguments, **named: record_listing(*arguments[:-1], **named)


def retention_of_now(patch: pytest.MonkeyPatch) -> None:
    def rules_out_loss(self: CaughtUp, service_time_ms: int, retention_ms: int) -> bool:
        return self.at_ms >= service_time_ms + 1_000 - retention_ms

    patch.setattr(CaughtUp, "rules_out_loss", rules_out_loss)


def backfill_commits_live(patch: pytest.MonkeyPatch) -> None:
    for ledger in LEDGERS:
        right = ledger.pin
        patch.setattr(ledger, "pin", _pinned_live(right))


def _pinned_live(pin: Any) -> Any:
    return lambda self, draft, *others: pin(self, replace(draft, namespace=LIVE), *others)


def rebuilt_without_losses(patch: pytest.MonkeyPatch) -> None:
    right = rebuild_files.closed_ranges

    def closed_ranges(*arguments: Any) -> Any:
        return [each for each in right(*arguments) if not isinstance(each, LedgerRange) or each.state == "committed"]

    patch.setattr(rebuild, "closed_ranges", closed_ranges)


def repaired_with_anything(patch: pytest.MonkeyPatch) -> None:
    def read_range(*arguments: Any) -> Any:
        for page in reader.read_range(*arguments):
            if len(page) > 1:
                yield page.rows(1)

    patch.setattr(repair, "read_range", read_range)
    patch.setattr(repair, "_read_again", _checksum_of_row(repair._read_again))


def _checksum_of_row(read_again: Any) -> Any:
    def wrong(steps: Any, draft: Any, row: Any, *files: Any) -> Any:
        return replace(read_again(steps, draft, row, *files), checksum=row.contents.checksum)

    return wrong


def commit_before_verify(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batch, "_verified_from_text", lambda text, plan: dict.fromkeys(plan.ranges, Contents(0, 0, "")))
    patch.setattr(ParquetSink, "still_holds", lambda *_: True)
