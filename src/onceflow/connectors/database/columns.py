"""What a task gets of each column: forms that a database loads without looking at single values in Python.

Must not know: the table, staging, decisions. It needs Spark only, so that a sink can be described without a driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    ArrayType,
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


SEQUENCE_COLUMNS = tuple(f"onceflow_{name}" for name in SEQUENCE.names)
"""Of a sequence, as it is staged and kept: whole numbers of 64 bits, a text's hash for a text."""


def orders(kind: DataType) -> bool:
    """Whether rows can be ordered by a column of this type."""
    return is_sequence(kind) or isinstance(kind, _ORDERED)


def sequenced(field: StructField, database: Database) -> list[Column]:
    """What a task gets of the column that rows are ordered by: ``SEQUENCE_COLUMNS``."""
    value = column_named(field.name)
    if is_sequence(field.dataType):
        found = [(part, value.getField(part.name)) for part in SEQUENCE]
        parts = [_hash(each) if isinstance(part.dataType, StringType) else each for part, each in found]
    else:
        number, alike = _number(field.dataType, value), F.lit(0)
        parts = [alike, alike, number, number, alike, alike]
    named = zip(SEQUENCE_COLUMNS, parts, strict=True)
    return [database.sent(LongType(), part.cast("bigint")).alias(name) for name, part in named]


def _hash(text: Column) -> Column:
    """Servers and streams are asked whether they are the same, no more; a database compares numbers faster."""
    return F.when(text.isNotNull(), F.xxhash64(text))


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
