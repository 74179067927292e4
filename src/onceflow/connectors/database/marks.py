"""Marks: short lines beside the rows, a job's under its id and its table, and a name's under its prefix and name.

Must not know: what stands in a mark, who asks.

A job's mark belongs to the table, so that a sink which goes to another one is noticed. Older ones stood under the job's
id alone: one is read where the table has none yet, and is gone when the table's own is written.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from sqlalchemy import Engine, Table, delete, insert, select, update
from sqlalchemy.exc import DBAPIError


def job_key(job_id: str, table: str) -> str:
    """What the mark of a job is found by."""
    return hashlib.sha256(f"{job_id}\0{table}".encode()).hexdigest()


def target_key(job_id: str, table: str) -> str:
    """By what is found in which schema a job's table was when the job began."""
    return hashlib.sha256(f"target\0{job_id}\0{table}".encode()).hexdigest()


def name_id(prefix: str, name: str) -> str:
    """What the mark of a name is found by: of one length, whatever the name."""
    return hashlib.sha256(f"{prefix}\0{name}".encode()).hexdigest()


def read(engine: Engine, marks: Table, key: str, older: str | None = None) -> str | None:
    """What is kept under a key, or None.

    Args:
        engine: The database's.
        marks: The table.
        key: The key.
        older: Where it stood before, or None.

    Raises:
        DBAPIError: The database did not answer, or refused.
    """
    with engine.begin() as connection:
        found = connection.execute(select(marks.c.id, marks.c.mark).where(marks.c.id.in_([key, older or key]))).all()
        kept = {row.id: row.mark for row in found}
        return kept.get(key) or kept.get(older) or None


def write(engine: Engine, marks: Table, key: str, mark: str, older: str | None = None) -> None:
    """Keep it, best effort.

    Args:
        engine: The database's.
        marks: The table.
        key: The key.
        mark: What is kept.
        older: Where it stood before, or None.
    """
    with suppress(DBAPIError), engine.begin() as connection:
        changed = connection.execute(update(marks).where(marks.c.id == key).values(mark=mark))
        if not changed.rowcount:
            connection.execute(insert(marks).values(id=key, mark=mark))
        if older is not None:
            connection.execute(delete(marks).where(marks.c.id == older))
