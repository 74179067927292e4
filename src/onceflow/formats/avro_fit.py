"""Columns for a schema of Avro: whether they fit it, what is cast, and which values have no form there.

What ``to_avro`` of Spark's jar takes is narrower (``AvroSerializer``): it wants the same width, refuses a decimal of
another scale, fails a row without a name where null is not allowed, and checks all of that when the first row is
written.
Must not know: registries, where the bytes go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from onceflow.formats.avro_schema import Schema, name_of, parts
from onceflow.formats.refused import NOT_UTF8, not_utf8, require_no_trouble

if TYPE_CHECKING:
    from pyspark.sql import Column

_WHOLE = (ByteType, ShortType, IntegerType)
_TAKEN: dict[str, tuple[DataType, tuple[type[DataType], ...]]] = {
    "boolean": (BooleanType(), (BooleanType,)),
    "int": (IntegerType(), _WHOLE),
    "long": (LongType(), (*_WHOLE, LongType)),
    "float": (FloatType(), (FloatType,)),
    "double": (DoubleType(), (FloatType, DoubleType)),
    "string": (StringType(), (StringType,)),
    "bytes": (BinaryType(), (BinaryType,)),
    "enum": (StringType(), (StringType,)),
    "fixed": (BinaryType(), (BinaryType,)),
    "int (date)": (DateType(), (DateType,)),
    "int (time-millis)": (IntegerType(), _WHOLE),
    "long (time-micros)": (LongType(), (*_WHOLE, LongType)),
    "long (timestamp-millis)": (TimestampType(), (TimestampType,)),
    "long (timestamp-micros)": (TimestampType(), (TimestampType,)),
    "long (timestamp-nanos)": (LongType(), (LongType,)),
    "long (local-timestamp-millis)": (TimestampNTZType(), (TimestampNTZType,)),
    "long (local-timestamp-micros)": (TimestampNTZType(), (TimestampNTZType,)),
    "long (local-timestamp-nanos)": (LongType(), (LongType,)),
    "string (uuid)": (StringType(), (StringType,)),
    "fixed (uuid)": (BinaryType(), (BinaryType,)),
    "fixed (duration)": (BinaryType(), (BinaryType,)),
    "bytes (big-decimal)": (BinaryType(), (BinaryType,)),
}
"""By Avro's type: the type of Spark's that its jar writes it from, and those that lose nothing on the way to that."""

_NULL = "is null, and the schema allows none there"


def require_fit(columns: Sequence[StructField], schema: Schema, whose: str) -> None:
    """Refuse columns that a schema, in which names are resolved, cannot hold.

    Raises:
        ConfigurationError: Names each column, its type, and what the schema has.
    """
    if not (isinstance(schema, dict) and schema.get("type") == "record"):
        troubles = (
            [f"the schema is no record but {name_of(schema)}, and {len(columns)} columns are written"]
            if len(columns) != 1
            else list(_troubles(columns[0].name, columns[0].dataType, schema))
        )
    else:
        troubles = list(_of_record("", columns, schema))
    require_no_trouble(troubles, columns, whose)


def _of_record(path: str, columns: Sequence[StructField], schema: Schema) -> Iterator[str]:
    fields = {field["name"]: field for field in schema["fields"]}
    for column in columns:
        if column.name not in fields:
            yield f"the schema has no field {path}{column.name}"
        else:
            yield from _troubles(f"{path}{column.name}", column.dataType, fields[column.name]["type"])
    given = {column.name for column in columns}
    for name, field in fields.items():
        if name not in given and not parts(field["type"])[1]:
            yield f"there is no column for the schema's field {path}{name}, which may not be null"


def _troubles(path: str, kind: DataType, schema: Schema) -> Iterator[str]:
    of, _ = parts(schema)
    match of, kind:
        case {"type": "record"}, StructType():
            yield from _of_record(f"{path}.", kind.fields, of)
        case {"type": "array", "items": items}, ArrayType():
            yield from _troubles(f"{path}[]", kind.elementType, items)
        case {"type": "map", "values": values}, MapType() if isinstance(kind.keyType, StringType):
            yield from _troubles(f"{path}{{}}", kind.valueType, values)
        case _, DecimalType() if isinstance(of, dict) and of.get("logicalType") == "decimal":
            precision, scale = int(of["precision"]), int(of.get("scale", 0))
            if kind.scale > scale or kind.precision - kind.scale > precision - scale:
                yield f"{path} is {kind.simpleString()}, and the schema has decimal({precision},{scale})"
        case _ if not isinstance(kind, _TAKEN.get(name_of(of), (None, ()))[1]):
            yield f"{path} is {kind.simpleString()}, and the schema has {name_of(of)}"


def fitted(column: Column, kind: DataType, schema: Schema) -> Column:
    """A column as the type that Spark's jar writes the schema from; nothing is lost."""
    of, _ = parts(schema)
    match of, kind:
        case {"type": "record"}, StructType():
            types = {field.name: field.dataType for field in kind}
            inner = [
                fitted(column.getField(field["name"]), types[field["name"]], field["type"]).alias(field["name"])
                for field in of["fields"]
                if field["name"] in types
            ]
            return F.when(column.isNotNull(), F.struct(*inner))
        case {"type": "array", "items": items}, ArrayType():
            return F.transform(column, lambda item: fitted(item, kind.elementType, items))
        case {"type": "map", "values": values}, MapType():
            return F.transform_values(column, lambda _, value: fitted(value, kind.valueType, values))
        case _, DecimalType():
            return column.cast(DecimalType(int(of["precision"]), int(of.get("scale", 0))))
    target, _ = _TAKEN[name_of(of)]
    return column if kind == target else column.cast(target)


def refusals(name: str, column: Column, kind: DataType, schema: Schema) -> Iterator[tuple[Column, str, DataType, str]]:
    """Conditions, never null, of a value that has no form; each with the column's name, its type, and why."""
    strange = not_utf8(column, kind)
    if strange is not None:
        yield strange, name, kind, NOT_UTF8
    for why, condition in _refusals(column, kind, schema):
        yield condition, name, kind, why


def _refusals(column: Column, kind: DataType, schema: Schema) -> Iterator[tuple[str, Column]]:
    of, may_be_null = parts(schema)
    if not may_be_null:
        yield _NULL, column.isNull()
    match of, kind:
        case {"type": "record"}, StructType():
            types = {field.name: field.dataType for field in kind}
            for field in of["fields"]:
                if field["name"] in types:
                    inner = column.getField(field["name"])
                    for why, condition in _refusals(inner, types[field["name"]], field["type"]):
                        yield why, column.isNotNull() & condition
        case {"type": "array", "items": items}, ArrayType():
            yield from _of_items(column, kind.elementType, items)
        case {"type": "map", "values": values}, MapType():
            yield from _of_items(F.map_values(column), kind.valueType, values)
        case {"type": "enum", "symbols": symbols}, _:
            yield "is none of the schema's symbols", F.coalesce(~column.isin(list(symbols)), F.lit(False))
        case {"type": "fixed", "size": size}, BinaryType():
            yield f"has not the schema's {size} bytes", F.coalesce(F.length(column) != size, F.lit(False))


def _of_items(items: Column, kind: DataType, schema: Schema) -> Iterator[tuple[str, Column]]:
    found: dict[str, list[int]] = {}
    for at, (why, _) in enumerate(_refusals(F.lit(None), kind, schema)):
        found.setdefault(why, []).append(at)

    def holds(places: list[int], item: Column) -> Column:
        conditions = [condition for _, condition in _refusals(item, kind, schema)]
        together = conditions[places[0]]
        for place in places[1:]:
            together |= conditions[place]
        return together

    for why, places in found.items():
        yield why, F.coalesce(F.exists(items, partial(holds, places)), F.lit(False))
