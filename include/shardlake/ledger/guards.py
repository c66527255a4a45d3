"""Guards: triggers that refuse a row, written once and made for each database.

A guard's condition is SQL that SQLite and PostgreSQL read alike, over the rows NEW and OLD.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    """`event` on `table` is refused where `when` holds; `says` is the error.

    Attributes:
        event: INSERT, UPDATE or DELETE of a row, or TRUNCATE (PostgreSQL), which row triggers do not see.
    """

    name: str
    table: str
    event: str
    when: str
    says: str


def no_replacing(table: str, key: Sequence[str]) -> Guard:
    """Refuses SQLite's INSERT OR REPLACE, which deletes what is in its way without asking the DELETE guards."""
    same = " AND ".join(f"kept.{column} = NEW.{column}" for column in key)
    there = f"EXISTS (SELECT 1 FROM {table} AS kept WHERE {same})"  # noqa: S608 (names of a migration)
    return Guard(f"{table}_replace", table, "INSERT", there, f"a row of {table} is never replaced")


def no_truncating(table: str) -> Guard:
    """Refuses TRUNCATE."""
    return Guard(f"{table}_truncate", table, "TRUNCATE", "true", f"{table} is never truncated")


def guards_in_sqlite(guards: Iterable[Guard]) -> list[str]:
    """The statements that make the guards in SQLite."""
    return [
        f"CREATE TRIGGER {guard.name} BEFORE {guard.event} ON {guard.table} WHEN {guard.when} "
        f"BEGIN SELECT RAISE(ABORT, '{guard.says}'); END"
        for guard in guards
    ]


def guards_in_postgresql(guards: Iterable[Guard]) -> list[str]:
    """The statements that make the guards in PostgreSQL: a function and a trigger each.

    A function that looks at tables runs on the search path of the migration, not on that of whoever writes, and always
    by index: its plan may be made while a table is still empty, and kept for the ten thousand rows that follow in the
    same transaction.
    """
    statements = []
    for guard in guards:
        settings = "SET search_path FROM CURRENT SET enable_seqscan = off" if "SELECT" in guard.when else ""
        each = "STATEMENT" if guard.event == "TRUNCATE" else "ROW"
        row = {"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD", "TRUNCATE": "NULL"}[guard.event]
        statements += [
            f"CREATE FUNCTION {guard.name}() RETURNS trigger LANGUAGE plpgsql {settings} AS $$ BEGIN "
            f"IF {guard.when} THEN "
            f"RAISE EXCEPTION '{guard.says}' USING ERRCODE = 'integrity_constraint_violation'; END IF; "
            f"RETURN {row}; END $$",
            f"CREATE TRIGGER {guard.name} BEFORE {guard.event} ON {guard.table} "
            f"FOR EACH {each} EXECUTE FUNCTION {guard.name}()",
        ]
    return statements
