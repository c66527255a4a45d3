"""Files where the ledger knows of none tell that it was restored from an old backup: nothing is planned over them.

Verify finds a second file of a range by its beginning. A range that would begin in the middle of a file, since the
records before are gone, is found here: before a chain is opened, and before a stretch is declared lost.
"""

from __future__ import annotations

from collections.abc import Collection

from shardlake.errors import ConflictError
from shardlake.lake.home import Home
from shardlake.ledger import Chain, Ledger
from shardlake.names import DATA, FileKey

Scope = tuple[str, str]
"""Pipeline and namespace."""


def refuse_files_of_new_shards(home: Home, ledger: Ledger, scope: Scope, shard_ids: Collection[str]) -> None:
    """Check that shards whose chains are to be opened have no files.

    Raises:
        ConflictError: one has.
    """
    folders = home.names(DATA) if shard_ids else []
    for shard_id in shard_ids:
        found = home.names(f"{DATA}/shard_id={shard_id}") if f"shard_id={shard_id}" in folders else []
        if found and shard_id not in ledger.chains(*scope):  # asked last: another run may have opened it meanwhile
            raise _restored(shard_id, "no chain of this shard in the ledger", found[0])


def is_published(home: Home, ledger: Ledger, scope: Scope, chain: Chain) -> bool:
    """Whether the open range of a chain that begins with a loss was published meanwhile, or the chain has moved on.

    Raises:
        ConflictError: files are there that no range accounts for.
    """
    found = home.names(f"{DATA}/shard_id={chain.shard_id}", after=chain.position.key)
    if not found:
        return False
    now = ledger.chains(*scope)[chain.shard_id]
    mine = now.open_range and FileKey.of(now.open_range).path.rpartition("/")[2]
    if now.position.key == chain.position.key and set(found) - {mine}:
        raise _restored(chain.shard_id, f"nothing behind {chain.position}", found[0])
    return True


def _restored(shard_id: str, expected: str, found: str) -> ConflictError:
    return ConflictError(
        f"the dataset has files of {shard_id} that the ledger does not know",
        expected=expected,
        found=found,
        todo="Likely cause: the ledger was restored from a backup; `shardlake ledger rebuild` brings it up to date",
    )
