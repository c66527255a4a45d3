"""Records that are gone: told as an error, or recorded in the chain as a lost range, never passed over."""

from __future__ import annotations

import json

from shardlake.errors import DataLossError
from shardlake.kinesis.through import Trimmed
from shardlake.lake.home import LocalHome
from shardlake.ledger import Chain, Ledger
from shardlake.names import FileKey
from shardlake.plan import BatchPlan, range_to_json
from shardlake.ranges import SHARD_END, SequenceRange, Start


def loss_of(chain: Chain, trimmed: Trimmed) -> DataLossError:
    """The error that tells a loss under `on_data_loss: fail`."""
    return DataLossError(
        f"records of {chain.shard_id} after position {chain.position} are no longer retained",
        expected=chain.position,
        found=f"{trimmed.oldest} as the oldest record left" if trimmed.oldest else "no record left",
        todo="Set on_data_loss: skip to record the loss and go on; raise the stream's retention or run more often",
    )


def close_lost(ledger: Ledger, home: LocalHome, draft: BatchPlan, chain: Chain, trimmed: Trimmed) -> Chain | None:
    """Record the stretch before the first record left as lost, and return the chain behind it.

    An open range keeps its end: what is left of it is open again, from the first record left. The lost range leaves a
    marker in the dataset, so that a rebuilt ledger knows of it.

    Returns:
        None where nothing is left to read: the shard is finished, or its next record will show where the loss ends.
    """
    if trimmed.oldest is None and not trimmed.at_end:
        return None
    assert isinstance(chain.position, Start)  # a finished chain loses nothing
    oldest = trimmed.oldest
    lost_through = SHARD_END if oldest is None else oldest.plus(-1)
    lost = SequenceRange(chain.shard_id, chain.position, lost_through, chain.position.number)
    rest = None
    if oldest and chain.open_range and oldest.key <= chain.open_range.through.key:
        rest = SequenceRange(chain.shard_id, Start("AT", oldest), chain.open_range.through, oldest)
    marker = {**range_to_json(lost), "pipeline": draft.pipeline, "stream": draft.stream.arn, "batch": draft.batch_id}
    home.create(FileKey.of(lost).lost_marker, json.dumps(marker, indent=1, sort_keys=True))
    ledger.declare_lost(draft.pipeline, draft.namespace, draft.batch_id, lost, rest)
    return Chain(chain.shard_id, Start("AT", oldest), rest, None) if oldest else None
