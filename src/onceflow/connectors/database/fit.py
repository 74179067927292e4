"""Which of a DataFrame's types a table's column takes without loss, and which column is made for one.

Must not know: staging, decisions, how rows travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql, postgresql

from onceflow.connectors.json_text import without_form
from onceflow.errors import ConfigurationError

_BLOBS = (sql.LargeBinary, sql.VARBINARY, postgresql.BYTEA, mysql.TINYBLOB, mysql.MEDIUMBLOB, mysql.LONGBLOB)
_KEY_LETTERS = 255
_SQLITE_EXACT_DIGITS = 15
"""SQLite keeps what is declared a number in 8 bytes: more digits would be rounded without a word."""


def for_new_key(kind: DataType, database: str) -> sql.TypeEngine[Any]:
    """The type of a column that is made for values of this one, and is part of a key."""
    if isinstance(kind, StringType) and _is_mysql(database):
        # It has no unique constraint on texts without a bound, and its usual collations take 'a', 'A' and 'a ' for one.
        collation = "utf8mb4_nopad_bin" if database == "mariadb" else "utf8mb4_0900_bin"
        return mysql.VARCHAR(_KEY_LETTERS, charset="utf8mb4", collation=collation)
    return for_new(kind, database)


def for_new(kind: DataType, database: str) -> sql.TypeEngine[Any]:  # noqa: C901, PLR0912 - a line for each type
    """The type of a column that is made for values of this one."""
    match kind:
        case BooleanType():
            return sql.Boolean()
        case ByteType() | ShortType():
            return sql.SmallInteger()
        case IntegerType():
            return sql.Integer()
        case LongType():
            return sql.BigInteger()
        case FloatType():
            return sql.Double() if _is_mysql(database) else sql.REAL()  # MySQL shows 6 digits of a float
        case DoubleType():
            return sql.Double()
        case DecimalType():
            if database == "sqlite" and kind.precision > _SQLITE_EXACT_DIGITS:
                return sql.Text()
            return sql.Numeric(kind.precision, kind.scale)
        case StringType():
            return mysql.LONGTEXT() if _is_mysql(database) else sql.Text()
        case BinaryType():
            return mysql.LONGBLOB() if _is_mysql(database) else sql.LargeBinary()
        case DateType():
            return sql.Date()
        case TimestampType():
            if database == "sqlite":
                return sql.Text()
            return mysql.TIMESTAMP(fsp=6) if _is_mysql(database) else sql.TIMESTAMP(timezone=True)
        case TimestampNTZType():
            if database == "sqlite":
                return sql.Text()
            return mysql.DATETIME(fsp=6) if _is_mysql(database) else sql.TIMESTAMP(timezone=False)
        case ArrayType() | MapType() | StructType():
            if why := without_form(kind):
                raise ConfigurationError(
                    f"{kind.simpleString()} has no form in a database: it would be JSON, and {why}",
                    action="give it another type in the stream function",
                )
            if database == "sqlite":
                return sql.Text()
            return postgresql.JSONB() if database == "postgresql" else sql.JSON()
    raise ConfigurationError(
        f"{kind.simpleString()} has no form in a database, so no column is made for it",
        action="cast it in the stream function to a type that has, to string for example",
    )


def misfit(kind: DataType, column: sql.TypeEngine[Any], database: str) -> str | None:  # noqa: C901, PLR0912 - likewise
    """Why a table's column cannot take every value of a DataFrame's column as it is; None when it can.

    A text that is too long for a ``varchar(n)`` is not told here: the database refuses it, loudly.
    """
    match kind:
        case BooleanType():
            fits = isinstance(column, sql.Boolean) or (_is_mysql(database) and isinstance(column, mysql.TINYINT))
        case ByteType() | ShortType() | IntegerType() | LongType():
            fits = _takes_integers(kind, column, database)
        case FloatType():
            fits = isinstance(column, sql.Float) or (database == "sqlite" and isinstance(column, sql.REAL))
            fits = fits and not _rounds(column)
        case DoubleType():
            single = isinstance(column, sql.REAL | mysql.FLOAT) and not isinstance(column, sql.Double)
            fits = isinstance(column, sql.Float) and not (single and database != "sqlite") and not _rounds(column)
        case DecimalType():
            fits = _takes_decimals(kind, column, database)
        case StringType():
            fits = isinstance(column, sql.String | sql.Uuid | postgresql.CITEXT | sql.Enum)
            # MySQL writes a member's own letters for other ones, and a set's members in its own order.
            fits = fits and not isinstance(column, mysql.ENUM | mysql.SET)
        case BinaryType():
            fits = isinstance(column, _BLOBS)
        case DateType():
            fits = isinstance(column, sql.Date)
        case TimestampType():
            if _is_mysql(database):
                return _microseconds(column) if isinstance(column, mysql.TIMESTAMP) else _no(kind, column)
            fits = isinstance(column, sql.String) if database == "sqlite" else _with_zone(column) and _exact(column)
        case TimestampNTZType():
            if _is_mysql(database):
                return _microseconds(column) if isinstance(column, mysql.DATETIME) else _no(kind, column)
            plain = isinstance(column, sql.DateTime) and not _with_zone(column) and _exact(column)
            fits = isinstance(column, sql.String) if database == "sqlite" else plain
        case ArrayType() | MapType() | StructType():
            if why := without_form(kind):
                return f"{kind.simpleString()} has no form in JSON: {why}"
            fits = isinstance(column, sql.JSON | sql.String)
        case _:
            return f"{kind.simpleString()} has no form in a database; cast it to a type that has"
    return None if fits else _no(kind, column)


def not_a_key(kind: DataType, column: sql.TypeEngine[Any], database: str) -> str | None:
    """Why two values of a DataFrame's column that differ may be one to a table's; None when they never are.

    What depends on a column's collation is not told here (``shapes.collation``).
    """
    if isinstance(kind, ArrayType | MapType | StructType):
        return "a nested value is no key: what is equal is told by the database's own rules of JSON"
    if not isinstance(kind, StringType):
        return None
    if isinstance(column, postgresql.CITEXT):
        return "citext takes letters of both cases for one"
    if isinstance(column, sql.CHAR) and database != "sqlite":
        return "char(n) takes a text and the same with spaces behind it for one; make it varchar"
    if isinstance(column, sql.Uuid):
        return "uuid takes several ways to write an id for one; make it varchar, or append"
    return None


def _no(kind: DataType, column: sql.TypeEngine[Any]) -> str:
    return f"{kind.simpleString()} does not fit into {column!s}"


def _microseconds(column: sql.TypeEngine[Any]) -> str | None:
    if getattr(column, "fsp", None) == 6:
        return None
    return f"{column!s} keeps no microseconds; make it {type(column).__name__}(6)"


def _rounds(column: sql.TypeEngine[Any]) -> bool:
    """MySQL's ``DOUBLE(7,2)`` rounds without a word."""
    return getattr(column, "scale", None) is not None


def _with_zone(column: sql.TypeEngine[Any]) -> bool:
    return isinstance(column, sql.DateTime) and bool(column.timezone)


def _exact(column: sql.TypeEngine[Any]) -> bool:
    """PostgreSQL rounds to a column's precision without a word."""
    return getattr(column, "precision", None) in (None, 6)


_DIGITS: Mapping[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_WIDTHS: Mapping[type[DataType], int] = {ByteType: 1, ShortType: 2, IntegerType: 4, LongType: 8}


def _takes_integers(kind: DataType, column: sql.TypeEngine[Any], database: str) -> bool:
    if isinstance(column, sql.Integer):
        if database == "sqlite":
            return True  # every INTEGER has 8 bytes
        if getattr(column, "unsigned", False):
            return False
        width = 8 if isinstance(column, sql.BigInteger) else 2 if isinstance(column, sql.SmallInteger) else 4
        width = 1 if isinstance(column, mysql.TINYINT) else 3 if isinstance(column, mysql.MEDIUMINT) else width
        return _WIDTHS[type(kind)] <= width
    if isinstance(column, sql.Numeric) and not isinstance(column, sql.Float):
        return _takes_decimals(DecimalType(_DIGITS[type(kind)], 0), column, database)
    return False


def _takes_decimals(kind: DecimalType, column: sql.TypeEngine[Any], database: str) -> bool:
    if database == "sqlite":
        exact = isinstance(column, sql.Numeric) and kind.precision <= _SQLITE_EXACT_DIGITS
        return exact or isinstance(column, sql.String)
    if not isinstance(column, sql.Numeric) or isinstance(column, sql.Float):
        return False
    if column.precision is None:
        return database == "postgresql"
    scale = column.scale or 0
    return scale >= kind.scale and column.precision - scale >= kind.precision - kind.scale


def _is_mysql(database: str) -> bool:
    return database in ("mysql", "mariadb")
