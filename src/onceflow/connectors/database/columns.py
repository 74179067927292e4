"""What a task gets of each column: forms that a database loads without looking at single values in Python.

Must not know: the table, staging, decisions. It needs Spark only, so that a sink can be described without a driver.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

from onceflow.connectors.formats import column_named

_NESTED = (ArrayType, MapType, StructType)
# By default nulls are left out, and times are cut off to milliseconds. In the session's own time zone text and hash
# would change with its setting; and before 1900 a zone's seconds are lost.
_AS_IT_IS = {
    "timeZone": "UTC",
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def sent(fields: Sequence[StructField], database: str) -> list[Column]:
    """What a task gets of each field: forms that are loaded without looking at single values in Python."""
    return [_sent(field, database).alias(field.name) for field in fields]


def _sent(field: StructField, database: str) -> Column:
    value, kind = column_named(field.name), field.dataType
    if isinstance(kind, _NESTED):
        return F.to_json(value, _AS_IT_IS)
    if database == "postgresql" and isinstance(kind, BinaryType):
        return F.concat(F.lit("\\x"), F.hex(value))  # COPY reads it as text
    if database == "sqlite" and isinstance(kind, DecimalType | DateType):
        return value.cast("string")
    return value


def written(fields: StructType, delete_when: str | None) -> StructType:
    """Those of an output's columns that are the table's: without the one that says what is deleted."""
    return StructType([field for field in fields.fields if field.name != delete_when])


def marker(name: str) -> Column:
    """Whether a row is to be deleted, as a staging table has it: 1 or 0."""
    return F.coalesce(column_named(name), F.lit(False)).cast("smallint")


def hashed(fields: Sequence[StructField]) -> Column:
    """A 64-bit hash of a row, each field with its null flag: xxhash64 alone passes over nulls."""
    parts: list[Column] = []
    for field in fields:
        value = column_named(field.name)
        parts += [F.to_json(value, _AS_IT_IS) if isinstance(field.dataType, _NESTED) else value, value.isNull()]
    return F.xxhash64(*parts)
