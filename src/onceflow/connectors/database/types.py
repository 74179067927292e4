"""Which of a DataFrame's types a table's column takes without loss, and which column is made for one.

Must not know: any particular database, staging, decisions, how rows travel.

What a database has of its own stands in its file; what is usual, here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark
from sqlalchemy import types as sql

from onceflow.errors import ConfigurationError
from onceflow.formats.json_text import without_form

if TYPE_CHECKING:
    from typing import TypeGuard

    from onceflow.connectors.database.system import Database

NESTED = (spark.ArrayType, spark.MapType, spark.StructType)
INTEGERS = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)

_COLUMNS: Mapping[type[spark.DataType], Callable[[Any], sql.TypeEngine[Any]]] = {
    spark.BooleanType: lambda _: sql.Boolean(),
    spark.ByteType: lambda _: sql.SmallInteger(),
    spark.ShortType: lambda _: sql.SmallInteger(),
    spark.IntegerType: lambda _: sql.Integer(),
    spark.LongType: lambda _: sql.BigInteger(),
    spark.FloatType: lambda _: sql.REAL(),
    spark.DoubleType: lambda _: sql.Double(),
    spark.DecimalType: lambda kind: sql.Numeric(kind.precision, kind.scale),
    spark.StringType: lambda _: sql.Text(),
    spark.BinaryType: lambda _: sql.LargeBinary(),
    spark.DateType: lambda _: sql.Date(),
    spark.TimestampType: lambda _: sql.TIMESTAMP(timezone=True),
    spark.TimestampNTZType: lambda _: sql.TIMESTAMP(timezone=False),
    **dict.fromkeys(NESTED, lambda _: sql.JSON()),
}
"""The usual column of each type that has a form in a database."""

_DIGITS: Mapping[type[spark.DataType], int] = {
    spark.ByteType: 3,
    spark.ShortType: 5,
    spark.IntegerType: 10,
    spark.LongType: 19,
}
_WIDTHS: Mapping[type[spark.DataType], int] = {
    spark.ByteType: 1,
    spark.ShortType: 2,
    spark.IntegerType: 4,
    spark.LongType: 8,
}


def for_new(kind: spark.DataType, database: Database) -> sql.TypeEngine[Any]:
    """The type of a column that is made for values of this one."""
    _require_form(kind)
    return database.column_for(kind)


def for_new_key(kind: spark.DataType, database: Database) -> sql.TypeEngine[Any]:
    """The type of a column that is made for values of this one, and is part of a key."""
    _require_form(kind)
    return database.column_for_key(kind)


def _require_form(kind: spark.DataType) -> None:
    if not isinstance(kind, tuple(_COLUMNS)):
        raise ConfigurationError(
            f"{kind.simpleString()} has no form in a database, so no column is made for it",
            action="cast it in the stream function to a type that has, to string for example",
        )
    if isinstance(kind, NESTED) and (why := without_form(kind)):
        raise ConfigurationError(
            f"{kind.simpleString()} has no form in a database: it would be JSON, and {why}",
            action="give it another type in the stream function",
        )


def misfit(kind: spark.DataType, column: sql.TypeEngine[Any], database: Database) -> str | None:
    """Why a table's column cannot take every value of a DataFrame's column as it is; None when it can.

    A text that is too long for a ``varchar(n)`` is not told here: the database refuses it, loudly.
    """
    if not isinstance(kind, tuple(_COLUMNS)):
        return f"{kind.simpleString()} has no form in a database; cast it to a type that has"
    if isinstance(kind, NESTED) and (why := without_form(kind)):
        return f"{kind.simpleString()} has no form in JSON: {why}"
    digits = spark.DecimalType(_DIGITS[type(kind)], 0) if isinstance(kind, INTEGERS) and is_decimal(column) else kind
    if not database.takes(digits, column):
        return f"{kind.simpleString()} does not fit into {column!s}"
    return database.loses(kind, column)


def not_a_key(kind: spark.DataType, column: sql.TypeEngine[Any], database: Database) -> str | None:
    """Why two values of a DataFrame's column that differ may be one to a table's; None when they never are.

    What depends on a column's collation is not told here (``Database.collation``).
    """
    if isinstance(kind, NESTED):
        return "a nested value is no key: what is equal is told by the database's own rules of JSON"
    if not isinstance(kind, spark.StringType):
        return None
    return next((why for of, why in database.blurring.items() if isinstance(column, of)), None)


def usual_column(kind: spark.DataType) -> sql.TypeEngine[Any]:
    """What most databases make for values of this type."""
    return next(made(kind) for of, made in _COLUMNS.items() if isinstance(kind, of))


def usually_takes(kind: spark.DataType, column: sql.TypeEngine[Any]) -> bool:
    """Whether in most databases a column has every value of this type; times are each database's own."""
    match kind:
        case spark.BooleanType():
            return isinstance(column, sql.Boolean)
        case spark.ByteType() | spark.ShortType() | spark.IntegerType() | spark.LongType():
            return takes_integer(kind, column)
        case spark.FloatType():
            return isinstance(column, sql.Float) and not _rounds(column)
        case spark.DoubleType():
            return isinstance(column, sql.Float) and not isinstance(column, sql.REAL) and not _rounds(column)
        case spark.DecimalType():
            if not is_decimal(column) or column.precision is None:
                return False
            scale = column.scale or 0
            return scale >= kind.scale and column.precision - scale >= kind.precision - kind.scale
        case spark.StringType():
            return isinstance(column, sql.String | sql.Uuid)
        case spark.BinaryType():
            return isinstance(column, sql.LargeBinary)
        case spark.DateType():
            return isinstance(column, sql.Date)
    return isinstance(kind, NESTED) and isinstance(column, sql.JSON | sql.String)


def takes_integer(kind: spark.DataType, column: sql.TypeEngine[Any], width: int | None = None) -> bool:
    """Whether a column of integers has all of this type's.

    Args:
        kind: One of ``INTEGERS``.
        column: The column's type.
        width: Its bytes; None: those of SQL's types.
    """
    usual = 8 if isinstance(column, sql.BigInteger) else 2 if isinstance(column, sql.SmallInteger) else 4
    return isinstance(column, sql.Integer) and _WIDTHS[type(kind)] <= (width or usual)


def is_decimal(column: sql.TypeEngine[Any]) -> TypeGuard[sql.Numeric[Any]]:
    """Whether it has decimal digits, each as it is given."""
    return isinstance(column, sql.Numeric) and not isinstance(column, sql.Float)


def _rounds(column: sql.TypeEngine[Any]) -> bool:
    """MySQL's ``DOUBLE(7,2)`` rounds without a word."""
    return getattr(column, "scale", None) is not None
