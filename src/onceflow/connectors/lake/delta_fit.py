"""Which of a DataFrame's types a column of a Delta table takes without loss, and which tables can be written rightly.

Must not know: stores, files, epochs.
"""

from __future__ import annotations

import json

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import types as sql

_WIDER: dict[type[sql.DataType], tuple[type[sql.DataType], ...]] = {
    sql.ByteType: (sql.ShortType, sql.IntegerType, sql.LongType),
    sql.ShortType: (sql.IntegerType, sql.LongType),
    sql.IntegerType: (sql.LongType,),
    sql.FloatType: (sql.DoubleType,),
}

_ARROW: dict[type[sql.DataType], pa.DataType] = {
    sql.BooleanType: pa.bool_(),
    sql.ByteType: pa.int8(),
    sql.ShortType: pa.int16(),
    sql.IntegerType: pa.int32(),
    sql.LongType: pa.int64(),
    sql.FloatType: pa.float32(),
    sql.DoubleType: pa.float64(),
    sql.StringType: pa.string(),
    sql.BinaryType: pa.binary(),
    sql.DateType: pa.date32(),
    sql.TimestampType: pa.timestamp("us", "UTC"),
    sql.TimestampNTZType: pa.timestamp("us"),
}

_BY = (
    sql.BooleanType,
    sql.ByteType,
    sql.ShortType,
    sql.IntegerType,
    sql.LongType,
    sql.StringType,
    sql.DateType,
    sql.DecimalType,
)
"""What partitions' values may be of. Those of times and of fractions have several forms, those of bytes none."""

_UNDERSTOOD = {
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns",
    "deletionVectors", "timestampNtz", "v2Checkpoint",
}  # fmt: skip
"""Writers' features that ask nothing of a blind append, or that are asked for by column or setting below.

deltalake writes no table that has others, such as clustering.
"""

_OF_COLUMNS = ("delta.invariants", "delta.generationExpression", "delta.identity")


def misfit(kind: sql.DataType, column: sql.DataType) -> str | None:
    """Why values of a type would not be kept as they are in a column, or None."""
    match kind, column:
        case sql.DecimalType(), sql.DecimalType() if column.scale == kind.scale and column.precision >= kind.precision:
            return None
        case sql.ArrayType(), sql.ArrayType():
            if kind.containsNull and not column.containsNull:
                return "its elements take no null there"
            return misfit(kind.elementType, column.elementType)
        case sql.MapType(), sql.MapType():
            if kind.valueContainsNull and not column.valueContainsNull:
                return "its values take no null there"
            return misfit(kind.keyType, column.keyType) or misfit(kind.valueType, column.valueType)
        case sql.StructType(), sql.StructType():
            return _misfit_of_structs(kind, column)
        case _ if type(kind) in _ARROW and type(column) in (type(kind), *_WIDER.get(type(kind), ())):
            return None
    return f"{kind.simpleString()} does not go into {column.simpleString()} as it is"


def _misfit_of_structs(kind: sql.StructType, column: sql.StructType) -> str | None:
    if kind.names != column.names:
        return f"{column.simpleString()} has other fields, or another order"
    for mine, theirs in zip(kind.fields, column.fields, strict=True):
        if mine.nullable and not theirs.nullable:
            return f"field {mine.name} takes no null there"
        why = misfit(mine.dataType, theirs.dataType)
        if why:
            return f"field {mine.name}: {why}"
    return None


def columns_of(table: DeltaTable) -> sql.StructType:
    """A table's columns: Delta writes them as Spark does."""
    return sql.StructType.fromJson(json.loads(table.schema().to_json()))


def unmakeable(fields: sql.StructType) -> list[str]:
    """Columns that Delta has no type for, or that deltalake makes no table with."""
    return [
        f"column {f.name}: there is no type for {f.dataType.simpleString()}"
        for f in fields.fields
        if misfit(f.dataType, f.dataType) is not None
    ] + [
        f"column {f.name}: deltalake makes no table with a timestamp_ntz inside of a map; Spark does"
        for f in fields.fields
        if _has_ntz(f.dataType, within_map=False)
    ]


def _has_ntz(kind: sql.DataType, *, within_map: bool) -> bool:
    """Whether a type has a time without a zone inside of a map."""
    match kind:
        case sql.TimestampNTZType():
            return within_map
        case sql.MapType():
            return _has_ntz(kind.keyType, within_map=True) or _has_ntz(kind.valueType, within_map=True)
        case sql.ArrayType():
            return _has_ntz(kind.elementType, within_map=within_map)
        case sql.StructType():
            return any(_has_ntz(f.dataType, within_map=within_map) for f in kind.fields)
    return False


def unwritable(table: DeltaTable) -> list[str]:
    """What of a table nobody here can write rightly."""
    protocol, metadata = table.protocol(), table.metadata()
    wants, schema = metadata.configuration, columns_of(table)
    features = set(protocol.writer_features or ())
    troubles = [f"it has the feature {name}" for name in sorted(features - _UNDERSTOOD)]
    troubles += [f"it has a constraint ({name})" for name in sorted(wants) if name.startswith("delta.constraints.")]
    if wants.get("delta.columnMapping.mode", "none") != "none":
        troubles.append("its columns have other names in files (delta.columnMapping.mode)")
    if "delta.setTransactionRetentionDuration" in wants:
        troubles.append("it forgets which epochs it has (delta.setTransactionRetentionDuration)")
    for column in schema.fields:
        rules = [name for name in column.metadata if name.startswith(_OF_COLUMNS)]
        troubles += [f"column {column.name} has a rule of its own ({', '.join(rules)})"] if rules else []
        if column.name in metadata.partition_columns and not isinstance(column.dataType, _BY):
            troubles.append(f"it is partitioned by {column.name}, of type {column.dataType.simpleString()}")
    return troubles


def arrow_of(fields: sql.StructType) -> pa.Schema:
    """Columns of these types, as files have them."""
    return pa.schema([pa.field(f.name, _arrow(f.dataType), f.nullable) for f in fields.fields])


def _arrow(kind: sql.DataType) -> pa.DataType:
    match kind:
        case sql.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case sql.ArrayType():
            return pa.list_(pa.field("element", _arrow(kind.elementType), kind.containsNull))
        case sql.MapType():
            value = pa.field("value", _arrow(kind.valueType), kind.valueContainsNull)
            return pa.map_(pa.field("key", _arrow(kind.keyType), nullable=False), value)
        case sql.StructType():
            return pa.struct([pa.field(f.name, _arrow(f.dataType), f.nullable) for f in kind.fields])
    return _ARROW[type(kind)]
