"""The journal in SQL: what people did to ranges, appended and never changed."""

import sqlalchemy as sa

from shardlake.ledger import JournalEntry, tables

_t = tables.journal


def append(connection: sa.Connection, entry: JournalEntry) -> None:
    """Append an entry; the transaction holds its pipeline's lock, under which the entries are numbered."""
    last = sa.select(sa.func.max(_t.c.entry_number)).where(_t.c.pipeline == entry.pipeline).scalar_subquery()
    number = 1 + sa.func.coalesce(last, 0)
    connection.execute(sa.insert(_t).values(entry_number=number, **tables.journal_row(entry)))


def entries(connection: sa.Connection, pipeline: str) -> list[JournalEntry]:
    """The entries of a pipeline, by time; those of the same time as they were written."""
    columns = (column for column in _t.c if column is not _t.c.entry_number)
    rows = connection.execute(
        sa.select(*columns).where(_t.c.pipeline == pipeline).order_by(_t.c.at_ms, _t.c.entry_number)
    )
    return [tables.journal_entry(row) for row in rows]
