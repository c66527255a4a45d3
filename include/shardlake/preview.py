"""What the next batch would be: a plan that pins nothing and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from shardlake.batch import Steps
from shardlake.errors import DataLossError
from shardlake.plan import Run
from shardlake.ranges import SequenceRange


@dataclass(frozen=True, slots=True)
class Preview:
    """A batch as it would be planned now.

    Attributes:
        open_ranges: those of `ranges` that an earlier plan has pinned and no run has committed.
        behind: records would be left behind it.
        losses: what is lost and not in `ranges`: one message a shard.
    """

    ranges: tuple[SequenceRange, ...]
    open_ranges: frozenset[SequenceRange]
    behind: bool
    losses: tuple[str, ...]


def preview(steps: Steps) -> Preview:
    """Look at all shards as the plan step does.

    Raises:
        ConfigError, ConflictError, UnavailableError: as planning.
    """
    planner = steps.planner()
    draft = planner.draft(Run("preview", "preview"))
    try:
        plan, ranges = planner.propose(draft)
    except DataLossError as exc:
        return Preview((), frozenset(), behind=False, losses=(str(exc),))
    chains = steps.ledger.chains(steps.pipeline.name, steps.namespace).values()
    open_ranges = frozenset(chain.open_range for chain in chains if chain.open_range)
    return Preview(tuple(ranges), open_ranges & frozenset(ranges), plan.behind, plan.losses)


def check(steps: Steps) -> None:
    """Find out that a first batch could be planned and its dataset written, before anything is.

    Raises:
        ShardlakeError: as planning.
    """
    preview(steps)
    steps.home.check_writable()
