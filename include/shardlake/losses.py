"""Records that are gone: told as an error, or recorded in the chain as a lost range, never passed over."""

from __future__ import annotations

import json

from shardlake.errors import DataLossError
from shardlake.kinesis.through import Trimmed
from shardlake.lake.home import Home
from shardlake.ledger import Chain, Ledger
from shardlake.names import FileKey
from shardlake.plan import BatchPlan, range_to_json
from shardlake.ranges import SHARD_END, SequenceRange, ShardEnd, Start


def loss_of(chain: Chain, trimmed: Trimmed) -> DataLossError:
    """The error that tells a loss under `on_data_loss: fail`."""
    return DataLossError(
        f"records of {chain.shard_id} after position {chain.position} are no longer retained",
        expected=chain.position,
        found=f"{trimmed.oldest} as the oldest record left" if trimmed.oldest else "no record left",
        todo="Set on_data_loss: skip to record the loss and go on; raise the stream's retention or run more often",
    )


def lost_range(chain: Chain, trimmed: Trimmed) -> SequenceRange | None:
    """The stretch from the position up to the first record left, or to the shard's end where none is.

    Returns:
        None where nothing is left and the shard is open: its next record will show where the loss ends.
    """
    if isinstance(chain.position, ShardEnd) or (trimmed.oldest is None and not trimmed.at_end):
        return None
    through = trimmed.oldest.plus(-1) if trimmed.oldest else SHARD_END
    return SequenceRange(chain.shard_id, chain.position, through, anchor=chain.position.number)


def rest_of(chain: Chain, lost: SequenceRange) -> SequenceRange | None:
    """What is left of an open range behind its lost beginning: from the first record left to the same end."""
    if chain.open_range is None or lost.through is SHARD_END or chain.open_range.through.key <= lost.through.key:
        return None
    oldest = lost.through.plus(1)
    return SequenceRange(chain.shard_id, Start("AT", oldest), chain.open_range.through, anchor=oldest)


def write_markers(ledger: Ledger, home: Home, draft: BatchPlan) -> None:
    """Leave a marker in the dataset for every lost range, so that a rebuilt ledger knows of it.

    Markers are copies of what the ledger says, written again by the next plan where one was cut short.
    """
    for row in ledger.ranges(draft.pipeline, draft.namespace, state="lost"):
        key = FileKey.of(row.range).lost_marker
        if not home.exists(key):
            facts = {"pipeline": draft.pipeline, "stream": draft.stream.arn, "batch": row.batch_id}
            home.create(key, json.dumps({**range_to_json(row.range), **facts}, indent=1, sort_keys=True))
