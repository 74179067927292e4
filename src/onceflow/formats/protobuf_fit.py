"""Columns for a message of Protobuf: whether they fit it, and how they go to where it is written.

Must not know: registries, the bytes of records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
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
    TimestampType,
)

from onceflow.formats.protobuf_schema import MESSAGES, RANGES, Descriptor, is_map, is_time, is_wrapper, name_of
from onceflow.formats.refused import require_no_trouble

if TYPE_CHECKING:
    from pyspark.sql import Column

_F = FieldDescriptor
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_TAKEN: dict[int, tuple[type[DataType], ...]] = {
    _F.TYPE_FLOAT: (FloatType,),
    _F.TYPE_DOUBLE: (FloatType, DoubleType),
    _F.TYPE_BOOL: (BooleanType,),
    _F.TYPE_STRING: (StringType,),
    _F.TYPE_ENUM: (StringType,),
    _F.TYPE_BYTES: (BinaryType,),
}


def require_fit(columns: Sequence[StructField], message: Descriptor, whose: str) -> None:
    """Refuse columns that a message cannot hold.

    Raises:
        ConfigurationError: Names each column, its type, and what the message has.
    """
    require_no_trouble(list(_of_message("", columns, message)), columns, whose)


def _of_message(path: str, columns: Sequence[StructField], message: Descriptor) -> Iterator[str]:
    fields = {each.name: each for each in message.fields}
    for column in columns:
        if column.name not in fields:
            yield f"message {message.full_name} has no field {path}{column.name}"
        else:
            yield from _troubles(f"{path}{column.name}", column.dataType, fields[column.name])
    given = {column.name for column in columns}
    for name, field in fields.items():
        if field.is_required and name not in given:
            yield f"there is no column for the field {path}{name}, which is required"


def _troubles(path: str, kind: DataType, of: Descriptor) -> Iterator[str]:
    if is_map(of) and isinstance(kind, MapType):
        key, value = (of.message_type.fields_by_name[name] for name in ("key", "value"))
        yield from _of_one(f"{path}{{}}", kind.keyType, key)
        yield from _of_one(f"{path}{{}}", kind.valueType, value)
    elif of.is_repeated and isinstance(kind, ArrayType) and not is_map(of):
        yield from _of_one(f"{path}[]", kind.elementType, of)
    elif of.is_repeated:
        yield _other(path, kind, of)
    else:
        yield from _of_one(path, kind, of)


def _of_one(path: str, kind: DataType, of: Descriptor) -> Iterator[str]:
    if of.type in RANGES:
        if not (isinstance(kind, _WHOLE) or (isinstance(kind, DecimalType) and kind.scale == 0)):
            yield _other(path, kind, of)
    elif of.type in MESSAGES and is_wrapper(of):
        yield from _of_one(path, kind, of.message_type.fields_by_number[1])
    elif of.type in MESSAGES and is_time(of):
        if not isinstance(kind, TimestampType):
            yield _other(path, kind, of)
    elif of.type in MESSAGES and isinstance(kind, StructType):
        yield from _of_message(f"{path}.", kind.fields, of.message_type)
    elif not isinstance(kind, _TAKEN.get(of.type, ())):
        yield _other(path, kind, of)


def _other(path: str, kind: DataType, of: Descriptor) -> str:
    return f"{path} is {kind.simpleString()}, and the message has {name_of(of)}"


def names_in(columns: Sequence[StructField]) -> tuple[tuple[str, Any], ...]:
    """The names of columns and of those inside, as ``WritingPlan`` has them."""
    return tuple((column.name, _inside(column.dataType)) for column in columns)


def _inside(kind: DataType) -> tuple[tuple[str, Any], ...]:
    match kind:
        case StructType():
            return names_in(kind.fields)
        case ArrayType():
            return _inside(kind.elementType)
        case MapType():
            return _inside(kind.valueType)
    return ()


def in_micros(column: Column, kind: DataType) -> Column:
    """A column with whole microseconds since 1970 in the place of each time in it."""
    match kind:
        case TimestampType():
            return F.unix_micros(column)
        case StructType():
            inner = (in_micros(column.getField(each.name), each.dataType).alias(each.name) for each in kind)
            return F.when(column.isNotNull(), F.struct(*inner))
        case ArrayType():
            return F.transform(column, lambda item: in_micros(item, kind.elementType))
        case MapType():
            return F.transform_values(column, lambda _, value: in_micros(value, kind.valueType))
    return column
