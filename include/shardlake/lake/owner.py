"""Whose dataset this is: one pipeline of one ledger, reading one stream. Checked when planning and publishing."""

from __future__ import annotations

import json
from collections.abc import Mapping

from shardlake.errors import ConflictError
from shardlake.lake.home import Home
from shardlake.names import CONTROL, DATA, OWNER
from shardlake.plan import BatchPlan

_CAUSES = {
    "pipeline": "the dataset belongs to another pipeline",
    "stream_arn": "the pipeline now names another stream",
    "stream_created_at_ms": "the stream was deleted and made anew under its name",
    "ledger_id": "the ledger is another one (a second deployment, or one restored or emptied):"
    " where the old one is lost, `shardlake ledger rebuild` makes this one the dataset's",
}


def check_owner(home: Home, plan: BatchPlan) -> bool:
    """Whether the dataset has an owner; if so, it is the plan's.

    Raises:
        ConflictError: the dataset is owned by another pipeline, stream or ledger.
    """
    text = home.read(OWNER)
    if text is None:
        return False
    _checked(home, text, plan, _owner(plan))
    return True


def owning_ledger(home: Home, plan: BatchPlan) -> str:
    """The id of the ledger that owns the dataset, which has to be of the plan's pipeline and stream.

    Raises:
        ConflictError: it has no owner, or another one.
    """
    text = home.read(OWNER)
    if text is None:
        raise ConflictError(
            f"dataset {plan.dataset} has no {OWNER}", todo="Likely cause: its disk is not mounted. Put the file back"
        )
    expected = {key: value for key, value in _owner(plan).items() if key != "ledger_id"}
    return str(_checked(home, text, plan, expected).get("ledger_id"))


def take_over(home: Home, plan: BatchPlan) -> None:
    """Make the plan's ledger the owner, in place of the one that was."""
    home.replace(OWNER, json.dumps(_owner(plan), indent=1, sort_keys=True))


def require_owner(home: Home, plan: BatchPlan) -> None:
    """Check that the dataset is the plan's, before anything is published or committed.

    Raises:
        ConflictError: as `check_owner`, or the dataset has no owner any more.
    """
    if not check_owner(home, plan):
        raise ConflictError(
            f"dataset {plan.dataset} has lost its {OWNER}",
            todo="Likely cause: its disk is not mounted, or the folder was emptied. Put it back, or choose a new one",
        )


def claim_dataset(home: Home, plan: BatchPlan) -> None:
    """Make the plan's pipeline the owner of a dataset that has none.

    Raises:
        ConflictError: as `check_owner`, also when another claims it at the same time; or there are files already.
    """
    if check_owner(home, plan):
        home.sync(CONTROL)  # whoever made the file may have died before its name was on disk
        return
    if home.names(DATA):
        raise ConflictError(
            f"dataset {plan.dataset} has files in {DATA}/ but no {OWNER}",
            todo="Restore the file, or choose an empty folder",
        )
    home.create(OWNER, json.dumps(_owner(plan), indent=1, sort_keys=True))
    require_owner(home, plan)


def refuse_other(found: Mapping[str, object], expected: Mapping[str, object], what: str) -> None:
    """Raise unless `found` says what `expected` does, naming the first difference and its likely cause.

    Raises:
        ConflictError: it does not.
        KeyError: `found` lacks a key.
    """
    for key, value in expected.items():
        if found[key] != value:
            raise ConflictError(
                f"{what}, {key}",
                expected=value,
                found=found[key],
                todo=f"Likely cause: {_CAUSES.get(key, 'the configuration has changed')}."
                " Give the pipeline a new name and a new dataset, or put back what it had",
            )


def _checked(home: Home, text: str, plan: BatchPlan, expected: Mapping[str, object]) -> dict[str, object]:
    """What the owner's file says, which has to be what is expected, and may be more."""
    try:
        found: dict[str, object] = json.loads(text)
        refuse_other(found, expected, f"dataset {plan.dataset} is not this pipeline's")
    except (ValueError, TypeError, KeyError, RecursionError) as exc:
        raise ConflictError(
            f"{home.url(OWNER)} cannot be understood ({exc})", todo="Restore it, or choose a new dataset"
        ) from exc
    return found


def _owner(plan: BatchPlan) -> dict[str, object]:
    return {
        "pipeline": plan.pipeline,
        "stream_arn": plan.stream.arn,
        "stream_created_at_ms": plan.stream.created_at_ms,
        "ledger_id": plan.ledger_id,
    }
