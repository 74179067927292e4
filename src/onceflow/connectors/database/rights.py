"""Rights: whether a login has what a merge needs, tried and taken back; and of what was refused, what gives it.

Must not know: epochs, decisions, whose rows are staged.

The trial says whether: its statements are those of a commit. Of what is refused the database's own lists say which
right it is, since its error names a table at best; of several it names one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Engine, FromClause, Table, delete, false, insert, null, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from onceflow.connectors.database import refusals
from onceflow.connectors.database import tables as own
from onceflow.connectors.database.merge import merge
from onceflow.connectors.database.refusals import refusal, words
from onceflow.connectors.database.system import Needed, Refusal
from onceflow.connectors.database.target import Target
from onceflow.connectors.database.urls import database_of
from onceflow.errors import DatabaseRightsError, OnceflowError

_ALL = ("SELECT", "INSERT", "UPDATE", "DELETE")


def of_own(mine: own.Tables, *, making: bool = False) -> list[Needed]:
    """What a job needs of onceflow's own tables.

    Args:
        mine: They.
        making: Some are not there.
    """
    schema = mine.attempts.schema
    needed = [Needed("USAGE", "SCHEMA", schema), *([Needed("CREATE", "SCHEMA", schema)] if making else [])]
    rights = {mine.identity.name: ("SELECT",), mine.ledger.name: ("SELECT", "INSERT", "DELETE")}
    for table in mine.all:
        needed += [Needed(right, "TABLE", schema, table.name) for right in rights.get(table.name, _ALL)]
    return needed


def of_target(target: Target, schema: str | None, *, making: bool = False) -> list[Needed]:
    """What its merge needs.

    Args:
        target: The target.
        schema: Of onceflow's own tables.
        making: Its staging table is not there.
    """
    where = ("TABLE", target.schema, target.table)
    needed = [Needed("USAGE", "SCHEMA", target.schema), Needed("INSERT", *where, target.columns)]
    if target.key:
        needed += [Needed("SELECT", *where, target.columns if target.rest else target.key)]
        needed.append(Needed("UPDATE", *where, target.rest))
    needed += [Needed("DELETE", *where)] if target.deletes else []
    needed += [Needed("CREATE", "SCHEMA", schema)] if making else []
    if target.sequence is not None:
        needed += [Needed(right, "TABLE", schema, target.sequence) for right in ("SELECT", "INSERT", "UPDATE")]
    return needed + [Needed(right, "TABLE", schema, target.staged) for right in ("SELECT", "INSERT", "DELETE")]


def try_merge(
    engine: Engine,
    schema: str | None,
    target: Target,
    types: Sequence[tuple[str, TypeEngine[Any]]],
    *,
    making: bool,
    sequences: Table | None,
) -> None:
    """Merge nothing into a target, stage nothing, and take it back: whoever may do that may do it with rows.

    What of our own tables is not there yet a database that takes back such a thing makes for the trial. MySQL and
    MariaDB would keep it: they merge from nowhere, and without an order.

    Args:
        engine: The database's.
        schema: Of onceflow's own tables.
        target: The target.
        types: The columns of its staging table.
        making: That is not there.
        sequences: The table of its sequences, where it is not there and will be.

    Raises:
        DBAPIError: It was refused, or got no answer.
        TargetError: The target would keep what is to be deleted.
    """
    table, there = own.staging_table(target.staged, schema, types), not making
    with engine.connect() as connection, connection.begin() as trial:
        takes_back = database_of(connection).takes_back_tables
        if not there and takes_back:
            table.create(connection)
            there = True
        if sequences is not None and takes_back:
            sequences.create(connection)
        elif sequences is not None:
            target = replace(target, sequence=None)
        merge(connection, schema, target, [""], None if there else _nowhere(target))
        if there:
            connection.execute(insert(table).values({own.ID: "", own.HASH: 0}))
            connection.execute(delete(table).where(table.c[own.ID] == ""))
        trial.rollback()


def _nowhere(target: Target) -> FromClause:
    """A staging table without a row that is in no schema."""
    columns = (own.ID, own.HASH, *target.held)
    nothing = select(*(null().label(name) for name in columns)).select_from(text("dual"))
    return nothing.where(false()).subquery(target.staged)


def translated(
    engine: Engine, error: DBAPIError, who: str, what: str, needed: Callable[[], Sequence[Needed]]
) -> OnceflowError:
    """The error of what a database has refused, with the rights that are missing by name where there are some.

    Args:
        engine: The database's.
        error: Its error.
        who: Whom it is told of.
        what: What it was asked to do.
        needed: Tells what the sink needs; asked only of a right that is missing.
    """
    if refusal(error) is Refusal.RIGHT:
        with suppress(DBAPIError), engine.connect() as connection:
            missing = list(database_of(connection).missing(connection, error, needed()))
            if missing:
                return lacking(connection, f"{who} refused to {what}: {words(error)}", missing)
    return refusals.translated(error, who, what)


def lacking(connection: Connection, said: str, missing: Sequence[Needed]) -> DatabaseRightsError:
    """The error of rights that are missing.

    Args:
        connection: The database's.
        said: By what it was noticed.
        missing: They.
    """
    name, user = database_of(connection).user(connection)
    lacks = ", ".join(f"{each.right} on {each.thing}" for each in missing)
    return DatabaseRightsError(
        f"{said}: user {name} lacks {lacks}",
        harmless="for the data: nothing was changed",
        cause=f"no GRANT gives it to {name}, who is the URL's user",
        action=f"{'; '.join(each.given_by(connection, user) for each in missing)}. docs/databases.md lists all that a "
        "job needs. Then start the job again",
    )
