"""Attempts in the order of runs: who may begin one, and how they end.

Must not know: why they are ended, participants, decisions.

Whoever ends an attempt takes its row's lock, as its writer and its commit do. What orders runs is (incarnation,
epoch): starts of a job only rise, and epochs within a start; after a resume from an older checkpoint epochs begin
lower, and are newer all the same. The newest run of a job for a table is kept beside the marks. Under its row's lock a
task either finds that a newer one has begun, and ends, or begins; and whoever moves it on ends what older runs have
open. So behind a newer run's row comes none of an older.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqlalchemy import Connection, and_, delete, insert, inspect, or_, select, update
from sqlalchemy.exc import IntegrityError

from onceflow.connectors.contract import Run
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


def newest_run(connection: Connection, mine: own.Tables, run: Run, staged: str) -> tuple[int, int]:
    """Make this the newest run of its job for a table, unless a newer one has begun; which is the newest now.

    The row's lock is held until the end of the connection's transaction.

    Args:
        connection: Within a transaction.
        mine: onceflow's tables.
        run: The run.
        staged: The table's first staging table: a sink that was renamed has the same, and one of other columns.
    """
    marks, now = mine.marks, (run.incarnation, run.epoch)
    key = hashlib.sha256(f"run\0{run.prefix}\0{run.job_id}\0{staged}".encode()).hexdigest()
    query = select(marks.c.mark).where(marks.c.id == key).with_for_update()
    found = connection.execute(query).scalar()
    if found is None:
        try:
            with connection.begin_nested():
                connection.execute(insert(marks).values(id=key, mark=_dumps(now)))
        except IntegrityError:  # another task was first
            pass
        found = connection.execute(query).scalar_one()
    incarnation, epoch = found.split()
    newest = int(incarnation), int(epoch)
    if newest < now:
        connection.execute(update(marks).where(marks.c.id == key).values(mark=_dumps(now)))
        _end_older(connection, mine, run, staged)
    return max(newest, now)


def _dumps(run: tuple[int, int]) -> str:
    return f"{run[0]} {run[1]}"


def _end_older(connection: Connection, mine: own.Tables, run: Run, staged: str) -> None:
    """What has prepared writes no more, and may be decided."""
    attempts = mine.attempts
    older = or_(
        attempts.c.incarnation < run.incarnation,
        and_(attempts.c.incarnation == run.incarnation, attempts.c.epoch < run.epoch),
    )
    query = select(attempts.c.id, attempts.c.staged).where(
        attempts.c.job == run.job_id, attempts.c.prefix == run.prefix, attempts.c.state == own.OPEN, older
    )
    found = connection.execute(query).all()
    end(connection, mine, [i for i, name in found if own.is_staging(name, staged)])
