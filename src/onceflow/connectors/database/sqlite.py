"""SQLite: its connections, types, tables, rows and errors. It has no users.

Must not know: sinks, epochs, decisions.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark
from sqlalchemy import URL, Connection, Engine, NullPool, Select, TableClause, event, inspect, text
from sqlalchemy import types as sql
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database import types
from onceflow.connectors.database.statements import in_utc, insert_rows, named, on_conflict
from onceflow.connectors.database.system import LOCK_TIMEOUT_S, Database
from onceflow.connectors.database.target import Target
from onceflow.errors import ConfigurationError
from onceflow.processes import is_anothers, others_may_write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from sqlalchemy.engine.interfaces import ReflectedColumn

log = logging.getLogger(__name__)

_JOURNALS = ("-journal", "-wal", "-shm")
"""Of a database's name: what SQLite takes for its own, and for what the database is to hold, whoever has made it."""
_EXACT_DIGITS = 15
"""What is declared a number is kept in 8 bytes: more digits would be rounded without a word."""
_SKIPS = re.compile(r"\braise\s*\(\s*ignore\b", re.IGNORECASE)
_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
# Primary codes: ERROR, CORRUPT, TOOBIG, MISMATCH, MISUSE, FORMAT, RANGE, NOTADB.
_STAYS = {1, 11, 18, 20, 21, 24, 25, 26}


class Sqlite(Database):
    """SQLite."""

    driver, module, extra = "pysqlite", "sqlite3", "sqlite"
    takes_nan = False  # it makes null of it
    takes_infinity = True
    cuts_off = False
    blurring = MappingProxyType({})
    takes_back_tables = holds_by_merge = True
    upserts_by_any_key = fills_nulls = False
    refusing = ("no such", "readonly", "no column")

    # -- connections and sessions -----------------------------------------------------------------

    def require_taken(self, url: URL) -> None:
        if url.database in (None, "", ":memory:"):
            raise ConfigurationError(
                "a SQLite database in memory is gone with its process",
                action="name a file: sqlite:////folder/file.db",
            )

    def settings(self, url: URL, *, lasting: bool) -> dict[str, Any]:
        if lasting:
            _tell_of_others(Path(str(url.database)).resolve())
        return {"poolclass": NullPool, "connect_args": {"timeout": LOCK_TIMEOUT_S}}

    def listen(self, engine: Engine) -> None:
        event.listen(engine, "do_connect", _require_own_journals)
        event.listen(engine, "connect", self.begin_session)
        event.listen(engine, "begin", _begin_immediate)

    def begin_session(self, connection: Any, record: object) -> None:
        # sqlite3 opens transactions when it likes to; who reads and then writes is refused at once, without waiting.
        connection.isolation_level = None
        connection.execute("pragma synchronous=full")

    # -- types and values -------------------------------------------------------------------------

    def column_for(self, kind: spark.DataType) -> sql.TypeEngine[Any]:
        long = isinstance(kind, spark.DecimalType) and kind.precision > _EXACT_DIGITS
        if long or isinstance(kind, (spark.TimestampType, spark.TimestampNTZType, *types.NESTED)):
            return sql.Text()
        return types.usual_column(kind)

    def takes(self, kind: spark.DataType, column: sql.TypeEngine[Any]) -> bool:
        match kind:
            case spark.DoubleType():
                return types.usually_takes(spark.FloatType(), column)  # each float has 8 bytes
            case spark.DecimalType():
                exact = isinstance(column, sql.Numeric) and kind.precision <= _EXACT_DIGITS
                return exact or isinstance(column, sql.String)
            case spark.TimestampType() | spark.TimestampNTZType():
                return isinstance(column, sql.String)
        # Each INTEGER has 8 bytes.
        whole = isinstance(kind, types.INTEGERS) and isinstance(column, sql.Integer)
        return whole or types.usually_takes(kind, column)

    def sent(self, kind: spark.DataType, value: Column) -> Column:
        return value.cast("string") if isinstance(kind, spark.DecimalType | spark.DateType) else value

    # -- tables as they are -----------------------------------------------------------------------

    def numbered(
        self, connection: Connection, schema: str | None, table: str, columns: Sequence[ReflectedColumn]
    ) -> set[str]:
        """The number of a row."""
        key = inspect(connection).get_pk_constraint(table, schema=schema)["constrained_columns"]
        return {c["name"] for c in columns if key == [c["name"]] and str(c["type"]).upper() == "INTEGER"}

    def collation(self, connection: Connection, schema: str | None, table: str, name: str) -> str | None:
        """Of the unique indexes that have the column, the first collation that is not of bytes."""
        quote = connection.dialect.identifier_preparer.quote_identifier
        inside = "" if schema is None else quote(schema) + "."
        for index in connection.exec_driver_sql(f"pragma {inside}index_list({quote(table)})").mappings().all():
            if index["unique"]:
                columns = connection.exec_driver_sql(f"pragma {inside}index_xinfo({quote(index['name'])})").mappings()
                for column in columns.all():
                    if column["name"] == name and column["coll"].upper() != "BINARY":
                        return str(column["coll"]).upper()
        return None

    def triggers(self, connection: Connection, schema: str | None, table: str) -> list[str]:
        return sorted(_triggers(connection, schema, table))

    def skipping(self, connection: Connection, schema: str | None, table: str) -> list[str]:
        """Those that say RAISE(IGNORE)."""
        found = _triggers(connection, schema, table).items()
        # Also as it stands: what looks like the beginning of a comment may be a text.
        return sorted(name for name, said in found if any(map(_SKIPS.search, (said, _COMMENTS.sub(" ", said)))))

    def passing(self, connection: Connection, schema: str | None, table: str) -> str | None:
        return None

    # -- rows -------------------------------------------------------------------------------------

    def load(self, connection: Connection, schema: str | None, table: str, rows: pa.RecordBatch) -> None:
        """Times are text: it has none."""
        import pyarrow as pa  # noqa: PLC0415 - only in a worker
        import pyarrow.compute as pc  # noqa: PLC0415

        columns = []
        for each in rows.columns:
            column = in_utc(each)
            if pa.types.is_timestamp(column.type):
                column = pc.replace_substring(column.cast(pa.string()), "Z", "+00:00")
            columns.append(column)
        plain = pa.RecordBatch.from_arrays(columns, rows.schema.names)
        insert_rows(connection, *named(connection, schema, table, rows), "?", plain)

    def insertion(self, into: TableClause, target: Target, source: Select[Any]) -> Any:
        # A constraint of the target may say REPLACE, which takes other rows away and counts as one that is new.
        return on_conflict(sqlite.insert, into, target, source).prefix_with("OR ABORT")

    # -- errors -----------------------------------------------------------------------------------

    def broken_off(self, error: DBAPIError) -> str:
        number = getattr(error.orig, "sqlite_errorcode", None)
        stays = isinstance(number, int) and number & 0xFF in _STAYS
        return str(getattr(error.orig, "sqlite_errorname", number)) if stays else ""

    def is_gone(self, error: DBAPIError) -> bool:
        return any(each in str(error.orig) for each in ("no such table", "no column named"))

    def by_foreign_key(self, error: DBAPIError) -> bool:
        return "FOREIGN KEY constraint failed" in str(error.orig)


def _require_own_journals(dialect: object, record: object, arguments: Sequence[Any], settings: object) -> None:  # noqa: ARG001 - SQLAlchemy calls it
    """Refuse what another user has laid beside a database that he may not write to: SQLite would write it there.

    Raises:
        ConfigurationError: There is such a file, or a link.
    """
    path = Path(arguments[0]).resolve()
    for beside in (path.with_name(path.name + ending) for ending in _JOURNALS):
        with contextlib.suppress(OSError):  # it is not there; what else is wrong with the folder SQLite tells
            about = beside.lstat()
            is_file = stat.S_ISREG(about.st_mode)
            if is_file and (not is_anothers(about) or (path.exists() and others_may_write(path))):
                continue
            raise ConfigurationError(
                f"{beside} is {'of another user' if is_file else 'no file'}, and SQLite would take it for the "
                f"journal of {path}",
                harmless="always: the database was not opened",
                cause="somebody who may write to the folder has laid it there, to have rows of his in the database; or "
                "a job of another user writes to it, too",
                action="remove it, unless that user's program is at work, and give the database a folder that nobody "
                "else may write to",
                file=str(beside),
            )


@functools.cache
def _tell_of_others(path: Path) -> None:
    with contextlib.suppress(OSError):  # a folder that is not there is told by SQLite
        if others_may_write(path.parent):
            log.warning(
                "others may write to %s: what they lay beside %s as its journal SQLite takes for what the database is "
                "to hold. Give it a folder of its user's",
                path.parent,
                path.name,
            )


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("begin immediate")


def _triggers(connection: Connection, schema: str | None, table: str) -> dict[str, str]:
    inside = "" if schema is None else connection.dialect.identifier_preparer.quote_identifier(schema) + "."
    query = f"select name, sql from {inside}sqlite_master where type = 'trigger' and lower(tbl_name) = lower(:name)"  # noqa: S608
    return {str(name): str(said) for name, said in connection.execute(text(query), {"name": table})}
