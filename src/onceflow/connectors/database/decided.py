"""Whether what is staged is what was decided: its attempts, and their rows by number and hash.

Must not know: the ledger, the target, why it is asked.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, func, inspect, literal_column, select

from onceflow.connectors.database import tables as own
from onceflow.connectors.database.staged import Staged
from onceflow.connectors.database.writer import HASH_MASK


def unfit(connection: Connection, mine: own.Tables, staged: Staged) -> str | None:
    """Why what is staged cannot be merged as it was decided, or None. Holds the attempts' rows until the end."""
    attempts = mine.attempts
    found = {
        row.id: (row.state, row.staged)
        for row in connection.execute(
            select(attempts.c.id, attempts.c.state, attempts.c.staged)
            .where(attempts.c.id.in_(staged.ids))
            .order_by(attempts.c.id)
            .with_for_update()
        )
    }
    for each in staged.attempts:
        state, _ = found.get(each.id, ("gone", ""))
        if state != own.PREPARED and not (staged.sealed is None and state == own.OPEN):
            return f"attempt {each.id} is {state}"
    for name in {table for _, table in found.values()}:
        if not inspect(connection).has_table(name, schema=attempts.schema):
            return f"table {name} was dropped, with what was staged"
        held = own.staging_table(name, attempts.schema, ())
        rows = connection.execute(
            select(held.c[own.ID], func.count(), *_halves(held.c[own.HASH]))
            .where(held.c[own.ID].in_([i for i, (_, table) in found.items() if table == name]))
            .group_by(held.c[own.ID])
        ).all()
        there = {i: (int(count), _whole(int(low or 0), int(high or 0))) for i, count, low, high in rows}
        if staged.sealed is None:
            continue
        for each in staged.attempts:
            count, hashed = there.get(each.id, (0, 0))
            if (count, hashed) != (each.rows, each.hash):
                return f"attempt {each.id} staged {each.rows} rows, and {count} are there, or they have changed"
    return None


def _halves(column: Column[int]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """The sums of a hash's lower and upper 32 bits: a sum of 64-bit numbers would not fit into SQLite's own."""
    low = func.sum(column.op("&")(literal_column("4294967295")))
    return low, func.sum(column.op(">>")(literal_column("32")))


def _whole(low: int, high: int) -> int:
    return ((high << 32) + low) & HASH_MASK
