"""Marks: short lines beside the rows, a job's under its id and its table, and a name's under its prefix and name.

Must not know: what stands in a mark, who asks.

A job's mark belongs to the table, so that a sink which goes to another one is noticed. Older ones stood under the job's
id alone: one is read where the table has none yet, and is gone when the table's own is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from sqlalchemy import Engine, Table, delete, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from onceflow.connectors.database import tables as own
from onceflow.connectors.database.attempts import clear
from onceflow.connectors.marks import Marks


class DatabaseMarks(Marks):
    """Those of one job for one table.

    Args:
        engine: The committer's.
        mine: Our tables.
        prefix: The job's prefix.
        job_id: The job's id.
        table: The target's name.
        translating: Makes an error of ours of what the database refuses in it, by what was to be done.
    """

    def __init__(
        self,
        engine: Engine,
        mine: own.Tables,
        prefix: str,
        job_id: str,
        table: str,
        translating: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._engine = engine
        self._own = mine
        self._prefix = prefix
        self._job_id = job_id
        self._key = job_key(job_id, table)
        self._of_job = [self._key, job_id, target_key(job_id, table)]
        self._translating = translating

    def read(self) -> str | None:
        """The job's mark, or None."""
        with self._translating("read the job's mark"):
            return read(self._engine, self._own.marks, self._key, self._job_id)

    def write(self, mark: str) -> None:
        """Keep the job's mark for this table, best effort."""
        write(self._engine, self._own.marks, self._key, mark, self._job_id)

    def forget(self) -> None:
        """Its attempts with what is staged of them, its rows of the ledger, and its mark."""
        attempts, ledger, kept = self._own.attempts, self._own.ledger, self._own.marks
        query = select(attempts.c.id, attempts.c.staged).where(attempts.c.job == self._job_id)
        with self._translating("remove what is kept of the job"), self._engine.begin() as connection:
            staged: dict[str, list[str]] = {}
            for row in connection.execute(query.where(attempts.c.state != own.ABORTED)):
                staged.setdefault(row.staged, []).append(row.id)
            for name, ids in staged.items():
                clear(connection, self._own, ids, name)
            for table in (attempts, ledger):
                connection.execute(delete(table).where(table.c.job == self._job_id))
            connection.execute(delete(kept).where(kept.c.id.in_(self._of_job)))

    def read_name(self, name: str) -> str | None:
        """What is kept under the job's name, or None."""
        with self._translating("read the mark of the job's name"):
            return read(self._engine, self._own.marks, name_id(self._prefix, name))

    def write_name(self, name: str, mark: str) -> None:
        """Keep it under the job's name, best effort."""
        write(self._engine, self._own.marks, name_id(self._prefix, name), mark)


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


def keep(engine: Engine, marks: Table, key: str, mark: str) -> None:
    """Keep it, where nothing is kept under this key yet.

    Args:
        engine: The database's.
        marks: The table.
        key: The key.
        mark: What is kept.

    Raises:
        DBAPIError: The database did not answer, or refused.
    """
    if read(engine, marks, key) is None:
        with suppress(IntegrityError), engine.begin() as connection:  # another start was first
            connection.execute(insert(marks).values(id=key, mark=mark))


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
