"""Which of a DataFrame's types a column of an Iceberg table takes without loss, and which column is made for one.

Must not know: catalogs, files, epochs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pyiceberg import types as ice
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyspark.sql import types as sql

from onceflow.errors import ConfigurationError

_SAME: dict[type[sql.DataType], tuple[type[ice.IcebergType], ...]] = {
    sql.BooleanType: (ice.BooleanType,),
    sql.ByteType: (ice.IntegerType, ice.LongType),
    sql.ShortType: (ice.IntegerType, ice.LongType),
    sql.IntegerType: (ice.IntegerType, ice.LongType),
    sql.LongType: (ice.LongType,),
    sql.FloatType: (ice.FloatType, ice.DoubleType),
    sql.DoubleType: (ice.DoubleType,),
    sql.StringType: (ice.StringType,),
    sql.BinaryType: (ice.BinaryType,),
    sql.DateType: (ice.DateType,),
    sql.TimestampType: (ice.TimestamptzType,),
    sql.TimestampNTZType: (ice.TimestampType,),
}
"""For each of Spark's types the columns that take every value of it as it is; the first is made for it."""

_WRITABLE_VERSION = 2

_TRANSFORMS = (
    IdentityTransform,
    BucketTransform,
    TruncateTransform,
    YearTransform,
    MonthTransform,
    DayTransform,
    HourTransform,
    VoidTransform,
)


def type_for(kind: sql.DataType, column: str, ids: Iterator[int] | None = None) -> ice.IcebergType:
    """The type of a column that is made for values of this one. Ids of what is nested are the catalog's to give."""
    ids = ids or itertools.count(1)
    match kind:
        case sql.DecimalType():
            return ice.DecimalType(kind.precision, kind.scale)
        case sql.ArrayType():
            return ice.ListType(next(ids), type_for(kind.elementType, column, ids), element_required=False)
        case sql.MapType():
            key = type_for(kind.keyType, column, ids)
            return ice.MapType(next(ids), key, next(ids), type_for(kind.valueType, column, ids), value_required=False)
        case sql.StructType():
            inner = [(f.name, type_for(f.dataType, column, ids)) for f in kind.fields]
            return ice.StructType(*(ice.NestedField(next(ids), name, of, required=False) for name, of in inner))
        case _ if type(kind) in _SAME:
            return _SAME[type(kind)][0]()
    raise ConfigurationError(
        f"column {column}: Iceberg has no type for {kind.simpleString()}",
        action="cast it in the stream function, or leave it out",
    )


def misfit(kind: sql.DataType, column: ice.IcebergType) -> str | None:
    """Why values of a type would not be kept as they are in a column, or None."""
    match kind, column:
        case sql.DecimalType(), ice.DecimalType() if column.scale == kind.scale and column.precision >= kind.precision:
            return None
        case sql.ArrayType(), ice.ListType():
            if column.element_required and kind.containsNull:
                return "its elements take no null there"
            return misfit(kind.elementType, column.element_type)
        case sql.MapType(), ice.MapType():
            if column.value_required and kind.valueContainsNull:
                return "its values take no null there"
            return misfit(kind.keyType, column.key_type) or misfit(kind.valueType, column.value_type)
        case sql.StructType(), ice.StructType():
            return _misfit_of_structs(kind, column)
        case _ if isinstance(column, _SAME.get(type(kind), ())):
            return None
    return f"{kind.simpleString()} does not go into {column} as it is"


def _misfit_of_structs(kind: sql.StructType, column: ice.StructType) -> str | None:
    if kind.names != [field.name for field in column.fields]:
        return (
            f"it has the fields {', '.join(kind.names)}, and there are {', '.join(f.name for f in column.fields)} there"
        )
    for mine, theirs in zip(kind.fields, column.fields, strict=True):
        if theirs.required and mine.nullable:
            return f"field {mine.name} takes no null there"
        why = misfit(mine.dataType, theirs.field_type)
        if why:
            return f"field {mine.name}: {why}"
    return None


def unwritable_version(metadata: TableMetadata) -> str | None:
    """Why nothing can be committed to a table, as another engine has made it, or None."""
    if metadata.format_version <= _WRITABLE_VERSION:
        return None
    return f"its format version is {metadata.format_version}, and 1 and {_WRITABLE_VERSION} can be written"


def unwritable(metadata: TableMetadata) -> list[str]:
    """What else of a table nobody here can write rightly."""
    version = unwritable_version(metadata)
    troubles = [] if version is None else [version]
    if metadata.properties.get("write.format.default", "parquet").lower() != "parquet":
        troubles.append(f"it wants files of the format {metadata.properties['write.format.default']}")
    for field in metadata.spec().fields:
        why = _unpartitionable(field, metadata.schema())
        troubles += [f"it is partitioned by {field.name}: {why}"] if why else []
    return troubles


def _unpartitionable(field: PartitionField, schema: Schema) -> str | None:
    source = next((each for each in schema.fields if each.field_id == field.source_id), None)
    if source is None:
        return "of a column that is inside of another one, or is gone"
    if type(field.transform) not in _TRANSFORMS:
        return f"the transform {field.transform} is not known"
    if isinstance(source.field_type, ice.FloatType | ice.DoubleType):
        return f"values of {source.name} that are equal have several forms (0 and -0)"
    return None
