"""The markers that lost ranges leave in a dataset, read back: for the audit, and for whoever rebuilds a ledger."""

from __future__ import annotations

import json

from shardlake.errors import ConflictError
from shardlake.lake.home import Home
from shardlake.lake.owner import refuse_other
from shardlake.names import FileKey
from shardlake.plan import BatchPlan, range_from_json
from shardlake.ranges import SequenceRange


def lost_range(home: Home, draft: BatchPlan, key: str) -> tuple[SequenceRange, str]:
    """The range that a marker declares lost, and the batch that did.

    Args:
        draft: whose dataset it is, and which stream.

    Raises:
        ConflictError: it is no marker, or another pipeline's, or that of another range.
    """
    try:
        told = json.loads(home.read(key) or "")
        refuse_other(told, {"pipeline": draft.pipeline, "stream": draft.stream.arn}, f"the marker {key} is another's")
        range_, batch_id = range_from_json(told), str(told["batch"])
        expected = FileKey.of(range_).lost_marker
    except (KeyError, TypeError, ValueError, RecursionError) as exc:
        raise ConflictError(f"{key} is not the marker of a lost range ({exc})") from exc
    if key != expected:
        raise ConflictError(f"the marker {key} is of another range", expected=key, found=expected)
    return range_, batch_id
