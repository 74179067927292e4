"""How attempts end.

Must not know: why they are ended, participants, decisions.

Whoever ends an attempt takes its row's lock, as its writer and its commit do.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, inspect, select, update

from onceflow.connectors.database import tables as own


def end(connection: Connection, mine: own.Tables, ids: Sequence[str]) -> None:
    """End these, in the connection's transaction. They keep their row: it is the evidence. Their rows are removed.

    What was merged has no row any more, and stays as it is.
    """
    attempts = mine.attempts
    for i in sorted(ids):
        found = connection.execute(
            select(attempts.c.staged).where(attempts.c.id == i, attempts.c.state != own.ABORTED).with_for_update()
        ).scalar()
        if found is None:
            continue
        connection.execute(update(attempts).where(attempts.c.id == i).values(state=own.ABORTED))
        if inspect(connection).has_table(found, schema=attempts.schema):  # else its rows are gone with it
            held = own.staging_table(found, attempts.schema, ())
            connection.execute(delete(held).where(held.c[own.ID] == i))


def clear(connection: Connection, mine: own.Tables, ids: Sequence[str], staged: str) -> None:
    """Remove these with what they have staged in a table, in the connection's transaction."""
    attempts, held = mine.attempts, own.staging_table(staged, mine.attempts.schema, ())
    connection.execute(delete(held).where(held.c[own.ID].in_(ids)))
    connection.execute(delete(attempts).where(attempts.c.id.in_(ids)))
