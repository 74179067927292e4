"""What a task gets of each column: forms that a database loads without looking at single values in Python.

Must not know: the table, staging, decisions. It needs Spark only, so that a sink can be described without a driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from onceflow.formats.changes import SEQUENCE, is_sequence
from onceflow.formats.contract import column_named
from onceflow.formats.json_text import as_json, require_form
from onceflow.formats.times import within

if TYPE_CHECKING:
    from onceflow.connectors.database.system import Database

_ORDERED = (ByteType, ShortType, IntegerType, LongType, DateType, TimestampType)  # a local time comes twice a year
_NESTED = (ArrayType, MapType, StructType)
# By default nulls are left out, and times are cut off to milliseconds. In the session's own time zone text and hash
# would change with its setting; and before 1900 a zone's seconds are lost.
_AS_IT_IS = {
    "timeZone": "UTC",
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def sent(fields: Sequence[StructField], database: Database) -> list[Column]:
    """What a task gets of each field: forms that are loaded without looking at single values in Python."""
    return [_sent(field, column_named(field.name), database).alias(field.name) for field in fields]


def sent_of_dead_letters(fields: Sequence[StructField], database: Database) -> list[Column]:
    """The same of dead letters, whose job must not stop by what a database has no form for.

    That is a record's time, which then is null; and NUL in a header's name, which some JSON does not take: the sign for
    it stands in its place. Where the record was read it is as it was.
    """
    instead = {"timestamp": within(column_named("timestamp"), *database.times)}
    if not database.json_takes_nul:
        instead["headers"] = F.transform(column_named("headers"), _without_nul)
    columns = {field.name: instead.get(field.name, column_named(field.name)) for field in fields}
    return [_sent(field, columns[field.name], database).alias(field.name) for field in fields]


def _without_nul(header: Column) -> Column:
    name = F.replace(header["key"], F.lit("\0"), F.lit("\u2400"))
    return F.struct(name.alias("key"), header["value"].alias("value"))


def _sent(field: StructField, value: Column, database: Database) -> Column:
    kind = field.dataType
    if isinstance(kind, _NESTED):
        require_form([field])
        return as_json(value, {field.name: (value, kind)}, _AS_IT_IS)
    return database.sent(kind, value)


def written(fields: StructType, *others: str | None) -> StructType:
    """Those of an output's columns that are the table's: without these, which say what is deleted, and the order."""
    return StructType([field for field in fields.fields if field.name not in others])


SEQUENCE_COLUMNS: Mapping[str, DataType] = {
    f"onceflow_{field.name}": BinaryType() if isinstance(field.dataType, StringType) else LongType()
    for field in SEQUENCE
}
"""Of a sequence, as it is staged and kept. Texts are bytes: those of a database's own may be equal and differ."""


def orders(kind: DataType) -> bool:
    """Whether rows can be ordered by a column of this type."""
    return is_sequence(kind) or isinstance(kind, _ORDERED)


def sequenced(field: StructField, database: Database) -> list[Column]:
    """What a task gets of the column that rows are ordered by: ``SEQUENCE_COLUMNS``."""
    value = column_named(field.name)
    if is_sequence(field.dataType):
        parts = [value.getField(name) for name in SEQUENCE.names]
    else:
        number = _number(field.dataType, value)
        parts = [F.lit(0), F.lit(""), number, number, F.lit(""), F.lit(0)]
    kinds = zip(SEQUENCE_COLUMNS.items(), parts, strict=True)
    return [database.sent(kind, part.cast(kind)).alias(name) for (name, kind), part in kinds]


def _number(kind: DataType, value: Column) -> Column:
    """A value as a whole number in the same order."""
    if isinstance(kind, DateType):
        return F.unix_date(value)
    return F.unix_micros(value) if isinstance(kind, TimestampType) else value


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
