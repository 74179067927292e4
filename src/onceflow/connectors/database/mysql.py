"""MySQL and MariaDB: their sessions, types, tables, rows, errors and rights. What differs between them is said of both.

Must not know: sinks, epochs, decisions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark
from sqlalchemy import URL, ColumnElement, Connection, FromClause, Select, TableClause, delete, text
from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database import types
from onceflow.connectors.database.statements import in_utc, insert_rows, named
from onceflow.connectors.database.system import LOCK_TIMEOUT_S, ON_COLUMNS, Database, Needed, Refusal
from onceflow.connectors.database.target import Target, TargetError
from onceflow.errors import RefusedSettingError

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS: Mapping[type, Callable[[], sql.TypeEngine[Any]]] = {
    spark.FloatType: sql.Double,  # a float is shown with 6 digits
    spark.StringType: mysql.LONGTEXT,
    spark.BinaryType: mysql.LONGBLOB,
    spark.TimestampType: partial(mysql.TIMESTAMP, fsp=6),
    spark.TimestampNTZType: partial(mysql.DATETIME, fsp=6),
}
_KEY_LETTERS = 255
_UNICODE = {"utf8mb4", "utf8mb3", "utf8"}
"""What they call UTF-8; the older two refuse some texts, loudly."""
_BLOBS = (sql.LargeBinary, sql.VARBINARY, mysql.TINYBLOB, mysql.MEDIUMBLOB, mysql.LONGBLOB)
_NOT_TAKEN_BACK = 1196
"""The warning of a rollback: tables that keep no transactions have kept what was written."""
_RIGHT = {1044, 1045, 1049, 1054, 1142, 1143, 1146, 1227, 1290, 1370}
_PASSING = {1053, 1205, 1213, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 1021, 1041, 1040, 1114}
_ROW = {1048, 1062, 1118, 1264, 1265, 1292, 1364, 1366, 1369, 1406, 1451, 1452, 1644, 1690, 3140, 3819, 4025}
# The words of a right that is missing; a server of another language says them otherwise.
_DENIED = re.compile(r"(?P<rights>[A-Z][A-Z, ]*) command denied to user .* for (?:column .* in )?table (?P<table>\S+)$")


class MySql(Database):
    """MySQL."""

    driver, module, extra = "pymysql", "pymysql", "mysql"
    parameters = frozenset({"charset", "unix_socket", "connect_timeout", "ssl_ca", "ssl_cert", "ssl_key"})
    times = (1, 1 << 31)  # timestamp(6): 0 is its word for none
    takes_nan = takes_infinity = False
    octets = MappingProxyType({mysql.TINYTEXT: 255, mysql.MEDIUMTEXT: 16_777_215, sql.TEXT: 65_535})
    takes_back_tables = False
    holds_by_merge = False  # another engine than InnoDB could not take back what it was given
    upserts_by_any_key = fills_nulls = True
    exact_collation = "utf8mb4_0900_bin"

    # -- connections and sessions -----------------------------------------------------------------

    def require_taken(self, url: URL) -> None:
        charset = str(url.query.get("charset", "utf8mb4"))
        if charset.lower() not in _UNICODE:
            raise RefusedSettingError(
                f"the URL's charset={charset} is refused: not every text of a row has a form in it",
                cause="it is what the connection speaks, not what the table keeps",
                action="leave it out: utf8mb4 is used",
            )

    def begin_session(self, connection: Any, record: object) -> None:
        with connection.cursor() as cursor:
            # What a value means must not hang on the server's or the user's modes: some make null of an empty text. By
            # NO_AUTO_VALUE_ON_ZERO 0 is 0 where a column counts by itself.
            cursor.execute("set session sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'")
            cursor.execute(
                f"set session innodb_lock_wait_timeout = {LOCK_TIMEOUT_S}, lock_wait_timeout = {LOCK_TIMEOUT_S}"
            )
            cursor.execute("set session time_zone = '+00:00'")
            cursor.execute("set session transaction isolation level read committed")
        connection.commit()

    # -- types and values -------------------------------------------------------------------------

    def column_for(self, kind: spark.DataType) -> sql.TypeEngine[Any]:
        mine = next((made for of, made in _COLUMNS.items() if isinstance(kind, of)), None)
        return types.usual_column(kind) if mine is None else mine()

    def column_for_key(self, kind: spark.DataType) -> sql.TypeEngine[Any]:
        if isinstance(kind, spark.StringType):
            # There is no unique constraint on texts without a bound, and usual collations take 'a', 'A' and 'a ' for
            # one.
            return mysql.VARCHAR(_KEY_LETTERS, charset="utf8mb4", collation=self.exact_collation)
        return self.column_for(kind)

    def takes(self, kind: spark.DataType, column: sql.TypeEngine[Any]) -> bool:
        match kind:
            case spark.BooleanType() if isinstance(column, mysql.TINYINT):
                return True
            case spark.DoubleType() if isinstance(column, mysql.FLOAT):
                return False
            case spark.StringType() if isinstance(column, mysql.ENUM | mysql.SET):
                return False  # it writes a member's own letters for other ones, and a set's members in its own order
            case spark.BinaryType():
                return isinstance(column, _BLOBS)
            case spark.TimestampType():
                return isinstance(column, mysql.TIMESTAMP)
            case spark.TimestampNTZType():
                return isinstance(column, mysql.DATETIME)
        if isinstance(kind, types.INTEGERS) and isinstance(column, sql.Integer):
            width = 1 if isinstance(column, mysql.TINYINT) else 3 if isinstance(column, mysql.MEDIUMINT) else None
            return not getattr(column, "unsigned", False) and types.takes_integer(kind, column, width)
        return types.usually_takes(kind, column)

    def loses(self, kind: spark.DataType, column: sql.TypeEngine[Any]) -> str | None:
        if not isinstance(kind, spark.TimestampType | spark.TimestampNTZType) or getattr(column, "fsp", None) == 6:
            return None
        return f"{column!s} keeps no microseconds; make it {type(column).__name__}(6)"

    # -- tables as they are -----------------------------------------------------------------------

    def collation(self, connection: Connection, schema: str | None, table: str, name: str) -> str | None:
        """Only those are exact that compare bytes and do not pad with spaces."""
        query = (
            "select collation_name from information_schema.columns where table_name = :table "
            "and table_schema = coalesce(:schema, database()) and column_name = :name"
        )
        found = connection.execute(text(query), {"schema": schema, "table": table, "name": name}).scalar()
        exact = found is None or (str(found).endswith("_bin") and ("_nopad_" in str(found) or "_0900_" in str(found)))
        return None if exact else str(found)

    def triggers(self, connection: Connection, schema: str | None, table: str) -> list[str]:
        """As the port says; who may not see them is told of none. They skip no row."""
        query = (
            "select trigger_name from information_schema.triggers where event_object_table = :name "
            "and event_object_schema = coalesce(:schema, database()) order by trigger_name"
        )
        return [str(name) for (name,) in connection.execute(text(query), {"schema": schema, "name": table})]

    def forgetful(self, connection: Connection) -> str | None:
        flushed = connection.exec_driver_sql("select @@innodb_flush_log_at_trx_commit").scalar()
        return None if flushed in (1, "1") else f"innodb_flush_log_at_trx_commit={flushed}"

    def passing(self, connection: Connection, schema: str | None, table: str) -> str | None:
        query = (
            "select engine from information_schema.tables where table_name = :table "
            "and table_schema = coalesce(:schema, database())"
        )
        engine = connection.execute(text(query), {"schema": schema, "table": table}).scalar()
        return None if str(engine).lower() == "innodb" else f"its engine is {engine}, which keeps no transactions"

    # -- rows -------------------------------------------------------------------------------------

    def load(self, connection: Connection, schema: str | None, table: str, rows: pa.RecordBatch) -> None:
        import pyarrow as pa  # noqa: PLC0415 - only in a worker

        # This driver puts values into the statement.
        into, columns = (part.replace("%", "%%") for part in named(connection, schema, table, rows))
        rows = pa.RecordBatch.from_arrays([in_utc(column) for column in rows.columns], rows.schema.names)
        insert_rows(connection, into, columns, "%s", rows)

    def insertion(self, into: TableClause, target: Target, source: Select[Any]) -> Any:
        statement = mysql.insert(into).from_select(list(target.columns), source)
        if not target.key:
            return statement
        changed = target.rest or target.key[:1]
        return statement.on_duplicate_key_update({name: statement.inserted[name] for name in changed})

    def deletion(self, of: TableClause, named: FromClause, meant: ColumnElement[bool]) -> Any:
        # Of a subquery in a DELETE the server makes no join: it asks it anew for each row of the table.
        return delete(of).where(meant)

    def require_taken_back(self, connection: Connection) -> None:
        said = {code for _, code, _ in connection.exec_driver_sql("show warnings")}
        if _NOT_TAKEN_BACK in said:
            raise TargetError(
                "a trigger of the target writes to a table whose engine keeps no transactions: what it has written "
                "there in this trial stays, and the commit would write it again"
            )

    def lock(self, connection: Connection, name: str) -> None:
        connection.execute(text(f"lock tables {name} write"))

    def unlock(self, connection: Connection) -> None:
        connection.execute(text("unlock tables"))

    # -- errors -----------------------------------------------------------------------------------

    def code(self, error: DBAPIError) -> int | None:
        """The number, which says more than the SQLSTATE."""
        number = error.orig.args[0] if error.orig is not None and error.orig.args else None
        return number if isinstance(number, int) else None

    def meaning(self, error: DBAPIError) -> Refusal | None:
        code = self.code(error)
        if code is None:
            return None
        if code in _PASSING:
            return Refusal.PASSING
        return Refusal.ROW if code in _ROW else Refusal.RIGHT

    def is_gone(self, error: DBAPIError) -> bool:
        return self.code(error) in (1146, 1054)

    def by_foreign_key(self, error: DBAPIError) -> bool:
        return self.code(error) in (1451, 1452)

    def words(self, error: DBAPIError) -> str:
        code = self.code(error)
        return "" if code is None else f"{type(error.orig).__name__} ({code})"

    # -- rights -----------------------------------------------------------------------------------

    def may_insert(self, connection: Connection, schema: str | None, table: str, names: Sequence[str]) -> set[str]:
        query = (
            "select column_name from information_schema.columns where table_name = :name "
            "and table_schema = coalesce(:schema, database()) and find_in_set('insert', privileges)"
        )
        found = connection.execute(text(query), {"schema": schema, "name": table})
        return {str(name) for (name,) in found} & set(names)

    def user(self, connection: Connection) -> tuple[str, str]:
        name = str(connection.execute(text("select current_user()")).scalar_one())
        user, _, host = name.rpartition("@")
        return name, f"'{user}'@'{host}'"

    def missing(self, connection: Connection, error: DBAPIError, needed: Sequence[Needed]) -> Iterator[Needed]:
        """The error says one right and the table's name; of which others are given there is a list by column."""
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
        lacks = [
            each for each in mine if each.right in denied or (each.right in ON_COLUMNS and each.right not in given)
        ]
        # A look at a table, which any right on it is enough for, is told as one of another kind.
        yield from (replace(each, schema=schema, columns=()) for each in lacks or mine)


class MariaDb(MySql):
    """MariaDB."""

    exact_collation = "utf8mb4_nopad_bin"
