"""What has to hold after every step, and once all is quiet: the ledger and the files against the producers' log."""

from __future__ import annotations

from shardlake.backfill import Backfill
from shardlake.names import LIVE
from shardlake.ranges import SHARD_END, SequenceRange
from simulation.beginnings import Beginnings
from simulation.bounds import check_bounds
from simulation.chains import Chains
from simulation.files import Files
from simulation.losses import Losses, span
from simulation.tasks import Scope, Task
from simulation.world import MAIN, PIPELINE, World

CHANGES_OF_CHAINS = tuple(
    f"ledger {name}"
    for name in ("record_listing", "pin", "commit", "declare_lost", "abandon", "open_backfill", "restore")
)
CHANGES_OF_FILES = tuple(f"{name} lake-" for name in ("link", "replace", "unlink", "fsync", "s3 PUT", "s3 DELETE"))
"""How effects begin that can change what others see; of files only those count that readers see."""


class ScopeChecks:
    """What has to hold of one pipeline's namespace."""

    def __init__(self, world: World, scope: Scope) -> None:
        self._world, self._scope = world, scope
        self.beginnings = Beginnings(world, scope)
        self.losses = Losses(world, scope)
        self.files = Files(world, scope, self.beginnings.never_there if scope[1] == LIVE else lambda put: False)
        self.chains = Chains(world, scope, self.losses.check_row, self.files.forget)

    def check(self) -> None:
        """What holds at any time."""
        by_shard = self.chains.check()
        if self._scope[1] == LIVE:
            self.beginnings.check(self._world.chains(self._scope), by_shard)
        self.check_files()

    def check_files(self) -> None:
        """What holds of files at any time."""
        self.files.check(self.chains.rows)

    def at_the_end(self) -> None:
        """What holds once the pipeline has caught up, or the backfill is complete."""
        self.check()
        rows = self._world.rows(self._scope)
        assert {row.state for row in rows} <= {"committed", "lost"}, "a range is still open"
        self.files.at_the_end(rows)
        if self._scope[1] == LIVE:
            self._check_every_record()
        else:
            self._check_backfill()

    def _check_every_record(self) -> None:
        world, rows = self._world, self._world.rows(self._scope)
        lost_to_their_ends = {
            row.range.shard_id for row in rows if row.state == "lost" and row.range.through is SHARD_END
        }
        spans = {shard_id: [] for shard_id in world.producer.of_shard}  # type: dict[str, list[range]]
        for row in rows:
            spans.setdefault(row.range.shard_id, []).append(span(row))
        for put in world.producer.log:
            held = sum(put.number in each for each in spans[put.shard_id])
            assert held <= 1, f"{put} is in {held} ranges"
            assert held or self.beginnings.excuses(put, lost_to_their_ends), f"{put} is in no range"
        open_shards = {shard.shard_id for shard in world.producer.open_shards()}
        for shard_id, chain in world.chains(self._scope).items():
            assert (chain.position is SHARD_END) == (shard_id not in open_shards), (
                f"{shard_id} ends at {chain.position}"
            )

    def _check_backfill(self) -> None:
        text = self._world.ledger.store.backfill(*self._scope)
        chains = self._world.chains(self._scope)
        for stretch in Backfill.from_text(text).stretches if text else ():
            end = chains[stretch.shard_id].position.key
            assert end == stretch.through.key, f"{stretch} of {self._scope[1]} is read up to {end}"


class Checks:
    """What has to hold of all of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._of: dict[Scope, ScopeChecks] = {}
        self._bounded: set[Scope] = set()
        self._live: dict[str, str] = {}

    def of(self, scope: Scope) -> ScopeChecks:
        """The checks of one scope."""
        return self._of.setdefault(scope, ScopeChecks(self._world, scope))

    def allow_to_go(self, range_: SequenceRange) -> None:
        """Let an open range go with its file: a person gives it up."""
        self.of(MAIN).chains.may_go = range_

    def after(self, task: Task, effect: str) -> None:
        """What holds at any time, as far as an effect of a process can have changed it."""
        if effect == "ledger open_backfill" and task.scope not in self._bounded:
            self._check_bounds(task)
        if effect.startswith(CHANGES_OF_CHAINS):
            self.of(task.scope).check()
        elif effect.startswith(CHANGES_OF_FILES) and "/data" in effect:
            self.of(task.scope).check_files()
        if effect.startswith(CHANGES_OF_CHAINS):
            live = {shard_id: chain.position.key for shard_id, chain in self._world.chains().items()}
            assert task.scope[1] == LIVE or live == self._live, f"{effect} of a backfill has moved the live position"
            self._live = live
        while self._world.failed:
            failed = self._world.failed.pop()
            committed = [row for row in self._world.rows(failed.scope) if row.state == "committed"]
            self.of(failed.scope).losses.check_error(failed, committed)

    def _check_bounds(self, task: Task) -> None:
        text = self._world.ledger.store.backfill(*task.scope)
        if text is not None:
            check_bounds(self._world, task, Backfill.from_text(text))
            self._bounded.add(task.scope)
            self._world.scheduler.counts["backfills"] += 1

    def after_a_step(self) -> None:
        """What holds at any time."""
        for checks in self._of.values():
            checks.check()

    def after_a_power_loss(self) -> None:
        """What holds at any time; but files that are not committed may be gone, and all are other files of the disk."""
        for checks in self._of.values():
            checks.files.after_a_power_loss()
        self.after_a_step()

    def ledger_rebuilt(self) -> None:
        """What holds once a ledger was lost and rebuilt: all that was closed is as it was."""
        backfills = self._world.ledger.store.backfills(PIPELINE)
        self._of = {scope: each for scope, each in self._of.items() if scope[1] == LIVE or scope[1] in backfills}
        self._live = {shard_id: chain.position.key for shard_id, chain in self._world.chains().items()}
        for scope, checks in self._of.items():
            checks.chains.rebuilt()
            checks.losses.forget()
            if scope[1] == LIVE:
                finished = {id_ for id_, chain in self._world.chains(scope).items() if chain.position is SHARD_END}
                checks.beginnings.rebuilt({row.range.shard_id for row in self._world.rows(scope)} | finished)
        self.after_a_step()

    def at_the_end(self) -> None:
        """What holds once all processes are over, all faults too, and everything has caught up."""
        opened = {LIVE, *self._world.ledger.store.backfills(PIPELINE)}
        for (_, namespace), checks in self._of.items():
            if namespace in opened:
                checks.at_the_end()
            else:
                checks.files.are_none()
