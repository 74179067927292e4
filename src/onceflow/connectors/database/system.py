"""What a sink needs of a database: the port that each system answers in a file of its own.

Must not know: any particular database, sinks, epochs, decisions.

What has a default here is what only some systems have, or is safe. All by which a row could be lost each says itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Select,
    TableClause,
    delete,
    event,
    exists,
)
from sqlalchemy import types as sql
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database.statements import quoted
from onceflow.connectors.database.target import Target
from onceflow.formats.arrow_values import END_S, FIRST_S

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType
    from sqlalchemy.engine.interfaces import ReflectedColumn

LOCK_TIMEOUT_S = 30
"""How long a statement waits for another's lock before it is tried again from the beginning."""

ON_COLUMNS = ("SELECT", "INSERT", "UPDATE")
"""Rights that may be given on some columns alone."""


class Refusal(Enum):
    """What a database would not do, by what helps."""

    ROW = "row"
    """A row that a constraint or a type does not take: it would not at the next try either."""
    RIGHT = "right"
    """A right is missing, or a table is gone or has changed: somebody has to see to it."""
    PASSING = "passing"
    """No answer, a lock that did not come, a deadlock: trying again is right."""


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


class Database(ABC):
    """One system. It keeps nothing: drivers and tasks ask it alike.

    Attributes:
        driver: SQLAlchemy's name of the driver.
        module: The driver's module, by which its errors are known.
        extra: Of onceflow, which installs it.
        parameters: Of a URL, those that are taken: only what says where and as whom. Others read files, run statements
            or code (service, passfile, options, read_default_file, init_command, local_infile, uri), or loosen what the
            commit rests on.
        times: From which second to before which a time has a form; a dead letter with any other has null there.
        json_takes_nul: Whether a text within JSON may have NUL in it.
        refuses_nul: Whether a text may not have NUL in it.
        takes_nan, takes_infinity: Whether a column of floats does.
        cuts_off: Whether blanks are cut off in silence behind the letters of a text that a column takes.
        octets: Types of texts without a length, that take so many bytes.
        blurring: Types of columns that take two texts which differ for one, whatever their collation, and why.
        ends_idle: Whether it ends a transaction by itself whose driver says nothing more.
        takes_back_tables: Whether a table that is made in a transaction is gone with it.
        holds_by_merge: Whether the merge itself keeps the target from being altered, and may be looked at behind it.
        counts_upserts: Whether an upsert's count says how many of the rows are there. Then it refuses two rows of
            one key, too.
        upserts_by_any_key: Whether an upsert changes the row that collides in any unique constraint, and not
            in the key's alone.
        fills_nulls: Whether a column that takes no null may make a value of one.
        refusing: Words of an error without a code that somebody has to see to.
    """

    driver: str
    module: str
    extra: str
    parameters: frozenset[str] = frozenset()
    times = (FIRST_S, END_S)
    json_takes_nul = True
    refuses_nul = False
    takes_nan: bool
    takes_infinity: bool
    cuts_off = True
    octets: Mapping[type, int] = MappingProxyType({})
    blurring: Mapping[type, str] = MappingProxyType(
        {
            sql.CHAR: "char(n) takes a text and the same with spaces behind it for one; make it varchar",
            sql.Uuid: "uuid takes several ways to write an id for one; make it varchar, or append",
        }
    )
    ends_idle = False
    takes_back_tables: bool
    holds_by_merge: bool
    counts_upserts = False
    upserts_by_any_key: bool
    fills_nulls: bool
    refusing: tuple[str, ...] = ()

    # -- connections and sessions -----------------------------------------------------------------

    def require_taken(self, url: URL) -> None:
        """Refuse a URL by which rows would be lost.

        Raises:
            ConfigurationError: It is one.
        """

    def settings(self, url: URL, *, lasting: bool) -> dict[str, Any]:
        """What an engine is made with.

        Args:
            url: The database's.
            lasting: For the driver: several threads use it. Else for a task: one connection.
        """
        # Of a wider isolation the look at the target's types would be of before its lock, whatever a user's default is.
        settings: dict[str, Any] = {"pool_pre_ping": True, "isolation_level": "READ COMMITTED"}
        return settings if lasting else settings | {"pool_size": 1, "max_overflow": 0}

    def listen(self, engine: Engine) -> None:
        """Let each of an engine's connections be told what a commit rests on."""
        # Before SQLAlchemy's own first look, by which it quotes names as the mode says.
        event.listen(engine, "connect", self.begin_session, insert=True)

    def begin_session(self, connection: Any, record: object) -> None:
        """Tell a driver's new connection what a commit rests on."""

    def sessions_last(self, engine: Engine) -> bool:
        """Whether what a connection is told still holds in its next transaction."""
        return True

    # -- types and values -------------------------------------------------------------------------

    @abstractmethod
    def column_for(self, kind: DataType) -> sql.TypeEngine[Any]:
        """The type of a column that is made for values of this one, which has a form."""

    def column_for_key(self, kind: DataType) -> sql.TypeEngine[Any]:
        """The same of a column that is part of a key."""
        return self.column_for(kind)

    @abstractmethod
    def takes(self, kind: DataType, column: sql.TypeEngine[Any]) -> bool:
        """Whether a column is of a type that has every value of a DataFrame's, which has a form."""

    def loses(self, kind: DataType, column: sql.TypeEngine[Any]) -> str | None:
        """What a column of such a type would cut off of values, as it was declared."""
        return None

    def sent(self, kind: DataType, value: Column) -> Column:
        """What a task gets of a value that is not nested: a form that is loaded as it is."""
        return value

    # -- tables as they are -----------------------------------------------------------------------

    def cutting(self, connection: Connection, schema: str | None, table: str) -> dict[str, str]:
        """Columns of types that look like texts without a bound, and cut off in silence."""
        return {}

    def numbered(
        self, connection: Connection, schema: str | None, table: str, columns: Sequence[ReflectedColumn]
    ) -> set[str]:
        """Those of a table's columns that would make a number of null, though they look as if they took it."""
        return set()

    def schema_of(self, connection: Connection, schema: str | None, table: str) -> str | None:
        """The schema of a table: where none is named, the one in which it is found now; None where there is but one.

        What a name finds may change with every schema and table that somebody makes, where a list is looked through.
        """
        return schema

    def replacing_rules(self, connection: Connection, schema: str | None, table: str) -> list[str]:
        """The rules by which it does something else than what a statement says; no count tells it."""
        return []

    @abstractmethod
    def collation(self, connection: Connection, schema: str | None, table: str, name: str) -> str | None:
        """The collation by which a column's texts that differ may be equal, or None: then only what is the same is."""

    @abstractmethod
    def triggers(self, connection: Connection, schema: str | None, table: str) -> list[str]:
        """The names of a table's triggers, as far as this user may see them."""

    def skipping(self, connection: Connection, schema: str | None, table: str) -> list[str]:
        """The triggers of a table that may skip a row that is there already, where no count tells."""
        return []

    def forgetful(self, connection: Connection) -> str | None:
        """The server's setting by which it may lose a commit that it has answered, or None."""
        return None

    def hiding(self, connection: Connection, schema: str | None, table: str) -> bool:
        """Whether a table may hide rows from this user, without a word."""
        return False

    @abstractmethod
    def passing(self, connection: Connection, schema: str | None, table: str) -> str | None:
        """Why a table's rows are gone after a crash, or a transaction does not hold them; None when they last."""

    # -- rows -------------------------------------------------------------------------------------

    @abstractmethod
    def load(self, connection: Connection, schema: str | None, table: str, rows: pa.RecordBatch) -> None:
        """Insert rows, whose columns are named as the table's, in the connection's transaction; never row by row.

        Raises:
            DBAPIError: The database does not take them.
        """

    @abstractmethod
    def insertion(self, into: TableClause, target: Target, source: Select[Any]) -> Any:
        """The statement that inserts what a query gives, or upserts it where the target has a key."""

    def deletion(self, of: TableClause, named: FromClause, meant: ColumnElement[bool]) -> Any:
        """The statement that deletes the rows which others name.

        Args:
            of: The table.
            named: They.
            meant: Which row of theirs means which of the table.
        """
        return delete(of).where(exists().select_from(named).where(meant).correlate(of))

    def require_taken_back(self, connection: Connection) -> None:
        """See that a rollback has taken back everything.

        Raises:
            TargetError: Something of it stays.
        """

    def bound(self, connection: Connection) -> None:
        """Let the server end the connection's transaction where its driver says nothing more, before it takes a lock.

        Nothing where it does not end such a one.
        """

    def require_constraints(self, connection: Connection) -> None:
        """Let those constraints say now what they would say at the commit."""

    def lock(self, connection: Connection, name: str) -> None:
        """Keep others out of a table whose name is quoted, until the end of the transaction or ``unlock``."""

    def unlock(self, connection: Connection) -> None:
        """Let them in again, where the end of the transaction does not."""

    # -- errors -----------------------------------------------------------------------------------

    def meaning(self, error: DBAPIError) -> Refusal | None:
        """What would help against an error that has a code."""
        return None

    def is_pooled(self, error: DBAPIError) -> bool:
        """Whether an error comes of a connection that is another one in its next transaction."""
        return False

    def broken_off(self, error: DBAPIError) -> str:
        """The code of what passes, and would come of the same rows again; "" where waiting is right."""
        return ""

    @abstractmethod
    def is_gone(self, error: DBAPIError) -> bool:
        """Whether a table or a column is not there: one of onceflow's own is made again by the next start."""

    @abstractmethod
    def by_foreign_key(self, error: DBAPIError) -> bool:
        """Whether a row is refused that names another one which is not there."""

    def words(self, error: DBAPIError) -> str:
        """An error that has a code in a line without a row's values; "" of others."""
        return ""

    # -- rights -----------------------------------------------------------------------------------

    def unnumbered(self, connection: Connection, target: Target) -> list[Needed]:
        """Sequences that number columns which are not written, and give this user no number: no trial meets them."""
        return []

    def may_insert(self, connection: Connection, schema: str | None, table: str, names: Sequence[str]) -> set[str]:
        """Those of a table's columns that this user may give a value: a right may be given on some alone."""
        return set(names)

    def user(self, connection: Connection) -> tuple[str, str]:
        """The user for people, and as a GRANT names it; asked only where a right is missing."""
        raise NotImplementedError

    def missing(self, connection: Connection, error: DBAPIError, needed: Sequence[Needed]) -> Iterator[Needed]:
        """Those of the rights that are needed which this user lacks, behind an error that says so."""
        return iter(())
