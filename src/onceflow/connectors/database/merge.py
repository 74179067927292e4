"""The merge: from the staging table into the target, as one statement.

Must not know: the ledger, who staged the rows, when it is done.

Rows of a staging table that mean deletes have a mark in a column of its own; what they name is deleted first. Where
rows are ordered (``sequence``), only the newest of each key are merged, and their sequences are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    TableClause,
    and_,
    column,
    false,
    func,
    select,
    table,
)

from onceflow.connectors.database import sequence
from onceflow.connectors.database import tables as own
from onceflow.connectors.database.introspection import column_types, required_columns, trouble
from onceflow.connectors.database.target import AlteredError, Target, TargetError
from onceflow.connectors.database.urls import database_of


def merge(
    connection: Connection,
    schema: str | None,
    target: Target,
    attempts: Sequence[str],
    staged: FromClause | None = None,
) -> int:
    """Insert, upsert or delete what these attempts have staged, in the connection's transaction.

    Args:
        connection: Within a transaction.
        schema: Of onceflow's own tables.
        target: Where to.
        attempts: Whose rows.
        staged: What has them; None: the target's staging table.

    Returns:
        How many rows the target has of them, or has no more; with those that are older than what it has.

    Raises:
        DBAPIError: The target does not take them.
        TargetError: It keeps rows that were to be deleted, or nothing says which of them is the newest.
    """
    into, held = _into(target), staging(target, schema) if staged is None else staged
    of: ColumnElement[bool] = held.c[own.ID].in_(attempts)
    deleted = older = 0
    if target.sequence is not None:
        sequence.hold(connection, schema, target)
        older = sequence.keep(connection, schema, held, target, attempts)
        held = sequence.winners(held, schema, target, attempts)
        of = held.c[own.ID].in_(attempts)
    if target.deletes:
        deleted = _delete(connection, into, held, and_(of, held.c[own.DELETE] == 1), target.key)
        of = and_(of, held.c[own.DELETE] == 0)
    source = select(*(held.c[name] for name in target.columns)).where(of)
    database = database_of(connection)
    statement = database.insertion(into, target, source)
    taken = connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount
    if target.key and (not database.counts_upserts or not target.rest):
        taken = _there(connection, into, held, of, target.key)
    return deleted + int(taken) + older


def _there(
    connection: Connection, into: TableClause, held: FromClause, of: ColumnElement[bool], key: Sequence[str]
) -> int:
    """How many of the rows that were upserted the target has.

    Where a count does not say it, the last of two rows is kept whose keys are equal by the target's collation, in
    silence; and MySQL adds rows where somebody has dropped the unique constraint since the start. Of rows that are
    their key alone PostgreSQL counts those that were not there: one that a trigger has skipped looks like one that was.
    """
    meant = and_(*(into.c[name] == held.c[name] for name in key))
    found = select(*(into.c[name] for name in key)).select_from(held.join(into, meant)).where(of)
    each, keys = (select(func.count()).select_from(q.subquery()) for q in (found, found.distinct()))
    rows, rows_there, keys_there = (
        int(connection.execute(query).scalar_one())
        for query in (select(func.count()).select_from(held).where(of), each, keys)
    )
    return rows_there if keys_there == rows else keys_there


def staging(target: Target, schema: str | None) -> TableClause:
    """The staging table of a target, as a statement names it."""
    return table(target.staged, column(own.ID), column(own.HASH), *map(column, target.held), schema=schema)


def _delete(
    connection: Connection, into: TableClause, held: FromClause, marked: ColumnElement[bool], key: Sequence[str]
) -> int:
    """Delete the rows of these keys; how many keys. One that is not there is deleted already."""
    meant = and_(*(into.c[name] == held.c[name] for name in key))
    connection.execute(database_of(connection).deletion(into, held, and_(marked, meant)))
    left = connection.execute(select(func.count()).select_from(held.join(into, meant)).where(marked)).scalar_one()
    if left:
        raise TargetError(
            f"the target keeps {left} rows that were to be deleted: a trigger or a rule of it prevents it"
        )
    return int(connection.execute(select(func.count()).select_from(held).where(marked)).scalar_one())


def merge_whole(connection: Connection, schema: str | None, target: Target, attempts: Sequence[str], rows: int) -> None:
    """Merge; and look, while the transaction keeps the target from being altered, whether it took all as it is.

    Args:
        connection: Within a transaction.
        schema: Of onceflow's own tables.
        target: Where to.
        attempts: Whose rows.
        rows: How many these have staged.

    Raises:
        DBAPIError: The target does not take them.
        TargetError: It did not take all, or not as they are.
    """
    # Behind the merge no partition is unseen that rows went to.
    database = database_of(connection)
    if not database.holds_by_merge:
        _hold(connection, schema, target)
        _require_unaltered(connection, target)
    taken = merge(connection, schema, target, attempts)
    if database.holds_by_merge:
        _require_unaltered(connection, target)
    if taken != rows:
        raise TargetError(
            f"the target took {taken} of {rows} rows: a trigger or a rule of it drops some"
            + (", or their keys are equal to it" if target.key else "")
        )
    if database.fills_nulls:
        _require_no_filled(connection, schema, target, attempts)
    now = column_types(connection, target.schema, target.table)
    held = column_types(connection, schema, target.staged)
    for name in target.columns:
        if now.get(name) != held.get(name):
            raise AlteredError(
                f"column {name} of the target is {now.get(name, 'gone')} now, and what is staged has {held.get(name)}"
            )


def take_back(connection: Connection) -> None:
    """Undo what was only tried, in the connection's transaction.

    Raises:
        TargetError: Something of it stays: a trigger has written to a table that keeps no transactions.
    """
    connection.exec_driver_sql("rollback")
    database_of(connection).require_taken_back(connection)


def _into(target: Target) -> TableClause:
    return table(target.table, *map(column, target.columns), schema=target.schema)


def _hold(connection: Connection, schema: str | None, target: Target) -> None:
    """Keep the target from being altered until the end of the transaction, with no more rights than a merge needs."""
    held = staging(target, schema)
    nothing = select(*(held.c[name] for name in target.columns)).where(false())
    connection.execute(_into(target).insert().from_select(list(target.columns), nothing))


def _require_unaltered(connection: Connection, target: Target) -> None:
    if why := trouble(connection, target):
        raise AlteredError(f"the target was altered: {why}")


def _require_no_filled(connection: Connection, schema: str | None, target: Target, attempts: Sequence[str]) -> None:
    """MySQL makes the time of now, or the next number, of a null in some columns that take none: a task looks, too.

    It does so as the columns were when its start looked.
    """
    held = staging(target, schema)
    for name in sorted(required_columns(connection, target.schema, target.table) & set(target.columns)):
        empty = held.c[name].is_(None)
        of = and_(held.c[own.ID].in_(attempts), empty, held.c[own.DELETE] == 0) if target.deletes else None
        of = and_(held.c[own.ID].in_(attempts), empty) if of is None else of
        if connection.execute(select(func.count()).select_from(held).where(of)).scalar_one():
            raise TargetError(f"column {name} of the target takes no null now, and what is staged has some")
