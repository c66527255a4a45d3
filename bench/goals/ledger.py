"""Goal 9: pinning and committing many ranges at once on PostgreSQL, new and with a long history."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from statistics import median
from typing import Any

from psycopg.sql import SQL, Identifier

from bench.figures import Figure, Goal
from bench.runs import REPOSITORY, BenchError
from bench.setting import Bench
from demo.background import Background
from demo.postgres import NoPostgresError, Postgres, postgres

LEAST_REPEATS = 5
"""Batches on one ledger; they take seconds."""

SHARED_BUFFERS = "1GB"
"""A quarter of a small database server's memory, as PostgreSQL's manual would have it."""


def measure(bench: Bench) -> Iterator[Figure]:
    """A batch of many ranges on a new ledger, then on one with a history."""
    sizes = bench.sizes
    try:
        with Background(bench.place("postgres.json")) as background, postgres(background, SHARED_BUFFERS) as server:
            new = _batches(bench, server.url(server.new_database()), 0)
            database = server.new_database()
            _batches(bench, server.url(database), 0, batches=0)
            bench.say(f"  a history of {sizes.history:,} ranges")
            length = sizes.history // sizes.ranges
            _add_history(server, database, length)
            old = _batches(bench, server.url(database), length)
    except NoPostgresError as exc:
        raise BenchError(str(exc)) from exc
    how = f"pin and commit of {sizes.ranges:,} ranges, PostgreSQL with {SHARED_BUFFERS} of buffers and fsync off"
    yield Figure(9, "plan + commit in the ledger", "s", new, how, Goal("at most", 10))
    long = f"the same with {sizes.history:,} committed ranges of the same shards in it, inserted by SQL, batch by batch"
    yield Figure(9, "the same with a long history", "s", old, long)
    yield Figure(9, "  takes longer by", "times", (median(old) / median(new),), long, Goal("at most", 1.2))


def _batches(bench: Bench, url: str, after: int, batches: int = LEAST_REPEATS) -> tuple[float, ...]:
    """How long each batch took, seconds."""
    arguments = [url, str(bench.sizes.ranges), str(after), str(batches)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.children.ledger"],
        input=json.dumps(arguments),  # the URL has a password
        cwd=REPOSITORY,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(done.stderr[-1000:])
    said: Mapping[str, Any] = json.loads(done.stdout)
    return tuple(said["seconds"])


def _add_history(server: Postgres, database: str, length: int) -> None:
    """Committed ranges behind the beginning of every chain, each a number long, past the guards.

    They come at once instead of over weeks, and then lie as weeks would have left them: batch by batch in the table,
    the indexes filled to seven tenths, nothing waiting for a vacuum or a checkpoint.
    """
    with closing(server.connect(database)) as connection:
        connection.execute("SET session_replication_role = replica")
        keys = connection.execute(_KEYS).fetchall()
        for name, _ in keys:
            connection.execute(SQL("ALTER TABLE shardlake_ranges DROP CONSTRAINT {}").format(Identifier(name)))
        for back in range(length):
            connection.execute(_HISTORY, {"back": back})
        for name, definition in keys:
            added = "ALTER TABLE shardlake_ranges ADD CONSTRAINT {} {} WITH (fillfactor = 70)"
            connection.execute(SQL(added).format(Identifier(name), SQL(definition)))
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


_KEYS = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = 'shardlake_ranges'::regclass AND contype IN ('p', 'u')
"""

_HISTORY = """
INSERT INTO shardlake_ranges (pipeline, namespace, shard_id, start_kind, start_number, start_key, through, through_key,
                              anchor, state, batch_id, rows, bytes, checksum, closed_at_ms)
SELECT c.pipeline, c.namespace, c.shard_id, 'AFTER', n.number::text, lpad(n.number::text, 56, '0'),
       (n.number + 1)::text, lpad((n.number + 1)::text, 56, '0'), (n.number + 1)::text, 'committed', 'history',
       1000, 100000, repeat('0', 64), 0
FROM shardlake_chains c, LATERAL (SELECT c.start_number::bigint + %(back)s::bigint AS number) n
"""
