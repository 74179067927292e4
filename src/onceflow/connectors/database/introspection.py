"""What a table is now: its columns' types, those that take no null, and whether it holds what is written to it.

Must not know: which tables are whose, any particular database.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Dialect, inspect
from sqlalchemy.types import TypeEngine

from onceflow.connectors.database.target import Target
from onceflow.connectors.database.urls import database_of

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import ReflectedColumn


def told_type(kind: TypeEngine[Any], dialect: Dialect) -> str:
    """A type as two tables can be compared by.

    MariaDB tells a whole number's type with the width in which it is shown, ``BIGINT(20)``, which no value hangs on.
    """
    return re.sub(r"((?:TINY|SMALL|MEDIUM|BIG)INT|INTEGER)\(\d+\)", r"\1", kind.compile(dialect))


def column_types(connection: Connection, schema: str | None, table: str) -> dict[str, str]:
    """Each column's type, as two tables can be compared by."""
    found = inspect(connection).get_columns(table, schema=schema)
    types = {c["name"]: told_type(c["type"], connection.dialect) for c in found}
    return types | database_of(connection).cutting(connection, schema, table)


def required_columns(connection: Connection, schema: str | None, table: str) -> set[str]:
    """Columns that take no null, or would make a number of one."""
    columns = inspect(connection).get_columns(table, schema=schema)
    found = {c["name"] for c in columns if not c["nullable"]}
    return found | database_of(connection).numbered(connection, schema, table, columns)


def found_table(
    connection: Connection, schema: str | None, table: str
) -> tuple[str | None, dict[str, ReflectedColumn]]:
    """In which schema a table is found by its name, and its columns; none where it is not there."""
    found, looking = database_of(connection).schema_of(connection, schema, table), inspect(connection)
    there = looking.get_columns(table, schema=found) if looking.has_table(table, schema=found) else []
    return found, {c["name"]: c for c in there}


def trouble(connection: Connection, target: Target) -> str | None:
    """Why the target would not hold all that is written to it, though each count is right; None where it would.

    Args:
        connection: Within a transaction.
        target: The target.
    """
    database, where = database_of(connection), (connection, target.schema, target.table)
    if why := database.passing(*where):
        return f"it does not hold what a transaction has written: {why}"
    if rules := database.replacing_rules(*where):
        return f"rule {', '.join(rules)} does something else instead of what is written"
    if skips := database.skipping(*where):
        return f"trigger {', '.join(skips)} may skip rows by RAISE(IGNORE), and no count tells it"
    if target.deletes and database.hiding(*where):
        return "its row security may hide rows from this user, which then are not deleted"
    return None


def never_left_out(found: Mapping[str, ReflectedColumn]) -> list[str]:
    """The columns that a row cannot be without."""
    return [
        name
        for name, c in found.items()
        if not c["nullable"]
        and c["default"] is None
        and c.get("autoincrement") is not True
        and not c.get("identity")
        and not c.get("computed")
    ]


def is_given(column: ReflectedColumn) -> bool:
    """Whether the database alone says what is in it."""
    identity = column.get("identity")
    return identity is not None and identity["always"]
