"""Rights: whether a login has what a merge needs, tried and taken back; and of what was refused, what gives it.

Must not know: epochs, decisions, whose rows are staged.

The trial says whether: its statements are those of a commit. Of what is refused the database's own lists say which
right it is, since its error names a table at best; of several it names one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Engine, FromClause, delete, false, insert, null, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from onceflow.connectors.database import tables as own
from onceflow.connectors.database.merge import merge
from onceflow.connectors.database.refusals import Refusal, refusal, told_of, words
from onceflow.connectors.database.shapes import quoted
from onceflow.connectors.database.target import Target
from onceflow.errors import DatabaseRightsError, OnceflowError

_ON_COLUMNS = ("SELECT", "INSERT", "UPDATE")
_ALL = (*_ON_COLUMNS, "DELETE")
# PostgreSQL's names of what may be granted on what, and how it is asked for.
_ASKED = {"SCHEMA": "has_schema_privilege", "TABLE": "has_table_privilege", "SEQUENCE": "has_sequence_privilege"}
# MySQL's and MariaDB's words of a right that is missing; a server of another language says them otherwise.
_DENIED = re.compile(r"(?P<rights>[A-Z][A-Z, ]*) command denied to user .* for (?:column .* in )?table (?P<table>\S+)$")


@dataclass(frozen=True, slots=True)
class Needed:
    """A right that the sink needs.

    Attributes:
        right: As a GRANT names it.
        kind: On what kind of thing.
        schema: Of the thing, or the thing; None for the one that is found by its name.
        name: Of the thing; "" of a schema.
        columns: It is enough to have it on these; none: on the whole thing.
    """

    right: str
    kind: str
    schema: str | None
    name: str = ""
    columns: tuple[str, ...] = ()

    @property
    def thing(self) -> str:
        """What it is on, for people."""
        said = ".".join(part for part in (self.schema, self.name) if part)
        return f"{self.kind.lower()} {said}"

    def given_by(self, connection: Connection, user: str) -> str:
        """The statement that gives it to a user, whose name is quoted."""
        right, on = self.right, quoted(connection, self.schema, self.name)
        if self.columns:
            right += f" ({', '.join(quoted(connection, name) for name in self.columns)})"
        kind = f"{self.kind} " if self.kind != "TABLE" else ""
        return f"GRANT {right} ON {kind}{on} TO {user}"


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
    rest = tuple(name for name in target.columns if name not in target.key)
    needed = [Needed("USAGE", "SCHEMA", target.schema), Needed("INSERT", *where, target.columns)]
    if target.key:
        needed += [Needed("SELECT", *where, target.columns if rest else target.key)]
        needed.append(Needed("UPDATE", *where, rest))
    needed += [Needed("DELETE", *where)] if target.deletes else []
    needed += [Needed("CREATE", "SCHEMA", schema)] if making else []
    return needed + [Needed(right, "TABLE", schema, target.staged) for right in ("SELECT", "INSERT", "DELETE")]


def try_merge(
    engine: Engine, schema: str | None, target: Target, types: Sequence[tuple[str, TypeEngine[Any]]], *, making: bool
) -> None:
    """Merge nothing into a target, stage nothing, and take it back: whoever may do that may do it with rows.

    Where the staging table is not there yet, a database that takes back such a thing makes it for the trial. MySQL and
    MariaDB would keep it, and merge from nowhere.

    Args:
        engine: The database's.
        schema: Of onceflow's own tables.
        target: The target.
        types: The columns of its staging table.
        making: That is not there.

    Raises:
        DBAPIError: It was refused, or got no answer.
        TargetError: The target would keep what is to be deleted.
    """
    table, there = own.staging_table(target.staged, schema, types), not making
    with engine.connect() as connection, connection.begin() as trial:
        if not there and connection.dialect.name not in ("mysql", "mariadb"):
            table.create(connection)
            there = True
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


def of_sequences(connection: Connection, target: Target) -> list[Needed]:
    """Sequences that number the columns which are not written, and give this user no number: no trial meets them."""
    if connection.dialect.name != "postgresql":
        return []
    query = (
        "select distinct n.nspname, s.relname from pg_catalog.pg_attrdef d "
        "join pg_catalog.pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum "
        "join pg_catalog.pg_depend p on p.classid = 'pg_catalog.pg_attrdef'::regclass and p.objid = d.oid "
        "and p.refclassid = 'pg_catalog.pg_class'::regclass "
        "join pg_catalog.pg_class s on s.oid = p.refobjid and s.relkind = 'S' "
        "join pg_catalog.pg_namespace n on n.oid = s.relnamespace "
        "where d.adrelid = to_regclass(:table) and a.attname <> all(:written) "
        # In an order of its own the server might ask it of what is no sequence.
        "and not case when s.relkind = 'S' then has_sequence_privilege(s.oid, 'USAGE, UPDATE') else true end "
        "order by 1, 2"
    )
    table = quoted(connection, target.schema, target.table)
    found = connection.execute(text(query), {"table": table, "written": list(target.columns)})
    return [Needed("USAGE", "SEQUENCE", str(schema), str(name)) for schema, name in found]


def may_insert(connection: Connection, schema: str | None, table: str, names: Sequence[str]) -> set[str]:
    """Those of a table's columns that this user may give a value: a right may be given on some alone."""
    database = connection.dialect.name
    if database == "postgresql":
        query = (
            "select attname from pg_catalog.pg_attribute where attrelid = to_regclass(:table) and attnum > 0 "
            "and not attisdropped and has_column_privilege(attrelid, attnum, 'INSERT')"
        )
    elif database in ("mysql", "mariadb"):
        query = (
            "select column_name from information_schema.columns where table_name = :name "
            "and table_schema = coalesce(:schema, database()) and find_in_set('insert', privileges)"
        )
    else:
        return set(names)
    asked = {"table": quoted(connection, schema, table), "schema": schema, "name": table}
    return {str(name) for (name,) in connection.execute(text(query), asked)} & set(names)


def told(
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
            missing = list(_missing(connection, error, needed()))
            if missing:
                return lacking(connection, f"{who} refused to {what}: {words(error)}", missing)
    return told_of(error, who, what)


def lacking(connection: Connection, said: str, missing: Sequence[Needed]) -> DatabaseRightsError:
    """The error of rights that are missing.

    Args:
        connection: The database's.
        said: By what it was noticed.
        missing: They.
    """
    name, user = _user(connection)
    lacks = ", ".join(f"{each.right} on {each.thing}" for each in missing)
    return DatabaseRightsError(
        f"{said}: user {name} lacks {lacks}",
        harmless="for the data: nothing was changed",
        cause=f"no GRANT gives it to {name}, who is the URL's user",
        action=f"{'; '.join(each.given_by(connection, user) for each in missing)}. docs/databases.md lists all that a "
        "job needs. Then start the job again",
    )


def _user(connection: Connection) -> tuple[str, str]:
    """The user for people, and as a GRANT names it."""
    if connection.dialect.name == "postgresql":
        name = str(connection.execute(text("select current_user")).scalar_one())
        return name, quoted(connection, name)
    name = str(connection.execute(text("select current_user()")).scalar_one())
    user, _, host = name.rpartition("@")
    return name, f"'{user}'@'{host}'"


def _missing(connection: Connection, error: DBAPIError, needed: Sequence[Needed]) -> Iterator[Needed]:
    database = connection.dialect.name
    if database == "postgresql":
        for each in needed:
            yield from _lacks(connection, each)
    elif database in ("mysql", "mariadb"):
        yield from _denied(connection, error, needed)


def _lacks(connection: Connection, needed: Needed) -> Iterator[Needed]:
    """PostgreSQL knows, also of a table in a schema that this user may not use."""
    asked = {"schema": needed.schema, "name": needed.name, "right": needed.right}
    if needed.kind == "SCHEMA":
        # Of the search_path only schemas are looked through that this user may use.
        query = "select oid from pg_catalog.pg_namespace where nspname = coalesce(:schema, current_schema())"
    else:
        query = (
            "select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
            "where c.relname = :name and n.nspname = coalesce(:schema, current_schema())"
        )
    found = connection.execute(text(query), asked).scalar()
    if found is None:
        return
    asked["thing"] = found
    if connection.execute(text(f"select {_ASKED[needed.kind]}(cast(:thing as oid), :right)"), asked).scalar():
        return
    given: set[str] = set()
    if needed.right in _ON_COLUMNS:
        query = (
            "select attname from pg_catalog.pg_attribute where attrelid = :thing and attnum > 0 "
            "and not attisdropped and has_column_privilege(cast(:thing as oid), attnum, :right)"
        )
        given = set(connection.execute(text(query), asked).scalars())
    columns = tuple(name for name in needed.columns if name not in given)
    if columns or not given:  # which columns it is about is not known yet: then any is enough
        yield replace(needed, columns=columns if given else ())


def _denied(connection: Connection, error: DBAPIError, needed: Sequence[Needed]) -> Iterator[Needed]:
    """MySQL and MariaDB say one right and the table's name; of which others are given there is a list by column."""
    said = str(error.orig.args[1]) if error.orig is not None and len(error.orig.args) > 1 else ""
    found = _DENIED.search(said)
    if found is None:
        return
    name = found["table"].replace("`", "").replace("'", "").rpartition(".")[2]
    mine = [each for each in needed if each.kind == "TABLE" and each.name == name]
    if not mine:
        return
    asked = {"schema": mine[0].schema, "name": name}
    schema = connection.execute(text("select coalesce(:schema, database())"), asked).scalar()
    query = (
        "select distinct privileges from information_schema.columns where table_name = :name "
        "and table_schema = coalesce(:schema, database())"
    )
    given = {right.upper() for row in connection.execute(text(query), asked).scalars() for right in row.split(",")}
    denied = {right.strip() for right in found["rights"].split(",")}
    lacks = [each for each in mine if each.right in denied or (each.right in _ON_COLUMNS and each.right not in given)]
    # A look at a table, which any right on it is enough for, is told as one of another kind.
    yield from (replace(each, schema=schema, columns=()) for each in lacks or mine)
