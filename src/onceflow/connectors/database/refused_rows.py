"""Which rows a table's columns do not take, told by the row alone: as an expression of Spark, before a task has them.

Must not know: staging, connections, where such rows go. What tasks refuse of what they are given is in ``limits``; this
says the same of one row. What only the table can tell (a CHECK, a key that is there already) is told by nobody here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql import types as spark
from sqlalchemy import types as sql

from onceflow.connectors.database.limits import limits
from onceflow.formats.arrow_values import END_S, FIRST_S
from onceflow.formats.contract import column_named

if TYPE_CHECKING:
    from pyspark.sql import Column
    from sqlalchemy.engine.interfaces import ReflectedColumn

    from onceflow.connectors.database.system import Database

_DAY_S, _MICROS = 86_400, 1_000_000
_GROUPS = "([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}"
_UUID = rf"\A({_GROUPS}|\{{{_GROUPS}\}})\z"
_TEXTS = (spark.StringType, spark.CharType, spark.VarcharType)


def limits_of(columns: Mapping[str, ReflectedColumn], required: set[str], database: Database) -> dict[str, Any]:
    """What a table's columns take of a row, as JSON values, by their names.

    Args:
        columns: As they were found.
        required: Those that take no null.
        database: Which it is.
    """
    found: dict[str, Any] = {name: asdict(limit) for name, limit in limits(columns, required, database).items()}
    for name, column in columns.items():
        if isinstance(column["type"], sql.Uuid):
            found[name] = found.get(name, {}) | {"uuid": True}
    return found


def reason(
    fields: Sequence[spark.StructField],
    of: Mapping[str, Any],
    key: Sequence[str],
    database: Database,
    deletes: Column | None = None,
) -> Column:
    """Why a row is not taken, a string; null where it is.

    Args:
        fields: The columns that are written.
        of: What ``limits_of`` has told.
        key: The columns that a row is known by, which take no null.
        database: Which it is.
        deletes: True of a row that means a delete, of which the key alone counts.
    """
    whys = F.lit(None).cast("string")
    for field in reversed(fields):
        for wrong, why in reversed(list(_troubles(field, of.get(field.name, {}), field.name in key, database))):
            counts = wrong if deletes is None or field.name in key else wrong & ~F.coalesce(deletes, F.lit(False))
            whys = F.when(counts, F.lit(f"column {field.name} {why}")).otherwise(whys)
    return whys


def _troubles(
    field: spark.StructField, limit: Mapping[str, Any], is_key: bool, database: Database
) -> Iterator[tuple[Column, str]]:
    value, kind = column_named(field.name), field.dataType
    if is_key:
        yield value.isNull(), "is part of the key, and is null"
    elif not limit.get("nulls", True):
        yield value.isNull(), "takes no null, and is null"
    if isinstance(kind, _TEXTS):
        yield ~F.is_valid_utf8(value), "has a text that is not UTF-8"
        yield from _of_text(value, limit, database)
    elif isinstance(kind, spark.FloatType | spark.DoubleType) and not database.takes_nan:
        yield F.isnan(value), "has NaN"
        if not database.takes_infinity:
            yield F.abs(value) == F.lit(float("inf")), "has an infinite number"
    elif isinstance(kind, spark.DateType):
        days = F.unix_date(value)
        yield (days < FIRST_S // _DAY_S) | (days >= END_S // _DAY_S), "has a date outside of the years 1 to 9999"
    elif isinstance(kind, spark.TimestampNTZType):
        earliest = F.expr("timestamp_ntz'0001-01-01 00:00:00'")
        latest = F.expr("timestamp_ntz'9999-12-31 23:59:59.999999'")
        yield (value < earliest) | (value > latest), "has a time outside of the years 1 to 9999"
    elif isinstance(kind, spark.TimestampType):
        micros, (first, end) = F.unix_micros(value), database.times
        yield (micros < first * _MICROS) | (micros >= end * _MICROS), "has a time that the database has no form for"


def _of_text(value: Column, limit: Mapping[str, Any], database: Database) -> Iterator[tuple[Column, str]]:
    if database.refuses_nul:
        yield value.contains("\0"), "has a text with U+0000"
    if (letters := limit.get("letters")) is not None:
        yield F.length(value) > letters, f"takes {letters} letters, and has more"
    if (octets := limit.get("octets")) is not None:
        yield F.octet_length(value) > octets, f"takes {octets} bytes, and has more"
    if not limit.get("blanks", True):
        yield value.endswith(" "), "has a text with a blank at its end, which it would cut off"
    if limit.get("uuid"):
        yield ~value.rlike(_UUID), "has a text that is no UUID"
