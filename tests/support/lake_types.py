"""Tables of a lake with each type, and with partitions."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
from deltalake import DeltaTable, Schema
from pyiceberg import types as ice
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
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
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
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

from tests.support.lakes import DeltaWorld, IcebergWorld

UTC = dt.UTC


ZONED = [
    dt.datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=UTC),  # one that clocks in Berlin never show
    dt.datetime(1900, 1, 1, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]


TIMES = [each.replace(tzinfo=None) for each in [*ZONED, dt.datetime(1, 1, 1, tzinfo=UTC)]]


INNER = StructType([StructField("a", LongType()), StructField("b", ArrayType(StringType()))])


KINDS = [
    (BooleanType(), pa.bool_(), [True, False]),
    (ByteType(), pa.int8(), [-(2**7), 2**7 - 1]),
    (ShortType(), pa.int16(), [-(2**15), 2**15 - 1]),
    (IntegerType(), pa.int32(), [-(2**31), 2**31 - 1]),
    (LongType(), pa.int64(), [-(2**63), 2**63 - 1, 0]),
    (FloatType(), pa.float32(), [0.5, -0.0, math.inf, -math.inf]),
    (DoubleType(), pa.float64(), [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf]),
    (DecimalType(15, 2), pa.decimal128(15, 2), [Decimal("1234567890123.45"), Decimal("-0.01"), Decimal("0.10")]),
    (DecimalType(38, 18), pa.decimal128(38, 18), [Decimal("99999999999999999999.999999999999999999")]),
    (StringType(), pa.string(), ["", " a ", "null", "\\N", "\n", "é😀", "a\0b", "x" * 70_000]),
    (BinaryType(), pa.binary(), [b"", b"\0", bytes(range(256))]),
    (DateType(), pa.date32(), [dt.date(1, 1, 1), dt.date(1582, 10, 15), dt.date(9999, 12, 31)]),
    (TimestampType(), pa.timestamp("us", "Europe/Berlin"), ZONED),
    (TimestampNTZType(), pa.timestamp("us"), TIMES),
    (INNER, pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]), [{"a": None, "b": ["", None]}]),
    (ArrayType(LongType()), pa.list_(pa.int64()), [[], [1, None, 2]]),
    (MapType(StringType(), LongType()), pa.map_(pa.string(), pa.int64()), [[], [("", 1), ("b", None)]]),
    (ArrayType(INNER), pa.list_(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])), [[{"a": 1, "b": []}]]),
]


ROWS = IcebergSchema(
    ice.NestedField(1, "key", ice.StringType(), required=True),
    ice.NestedField(2, "amount", ice.LongType()),
    ice.NestedField(3, "day", ice.DateType()),
    ice.NestedField(4, "at", ice.TimestamptzType()),
    ice.NestedField(5, "price", ice.DecimalType(9, 2)),
    ice.NestedField(6, "bytes", ice.BinaryType()),
)


SPEC = [
    (1, BucketTransform(4)),
    (1, TruncateTransform(1)),
    (2, IdentityTransform()),
    (2, TruncateTransform(10)),
    (3, IdentityTransform()),
    (3, MonthTransform()),
    (3, YearTransform()),
    (4, DayTransform()),
    (4, HourTransform()),
    (5, IdentityTransform()),
    (5, BucketTransform(3)),
    (6, IdentityTransform()),
    (2, VoidTransform()),
]


BY_TWO = [(1, BucketTransform(4)), (4, DayTransform())]


class Partitioned(IcebergWorld):
    """A table that somebody made, partitioned by some transforms, of which some columns take no null."""

    def __init__(self, folder, by=BY_TWO, schema=ROWS):
        super().__init__(folder)
        spec = PartitionSpec(*(PartitionField(i, 1000 + n, t, f"p{n}") for n, (i, t) in enumerate(by)))
        self.catalog().create_namespace("bank")
        self.catalog().create_table("bank.payments", schema, partition_spec=spec)

    fields = StructType(
        [
            StructField("key", StringType()),
            StructField("amount", LongType()),
            StructField("day", DateType()),
            StructField("at", TimestampType()),
            StructField("price", DecimalType(9, 2)),
            StructField("bytes", BinaryType()),
        ]
    )

    def rows(self, keys):
        count = len(keys)
        at = [dt.datetime(1969 + i % 3, 12, 31, 23, i % 60, tzinfo=UTC) if i % 5 else None for i in range(count)]
        columns = {
            "key": pa.array(keys, pa.string()),
            "amount": pa.array([(i % 7) - 3 if i % 4 else None for i in range(count)], pa.int64()),
            "day": pa.array([each and each.date() for each in at], pa.date32()),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal(i % 3) / 4 - 1 for i in range(count)], pa.decimal128(9, 2)),
            "bytes": pa.array([bytes([i % 2]) for i in range(count)], pa.binary()),
        }
        return pa.RecordBatch.from_pydict(columns)

    def refused(self, keys):
        rows = self.rows(keys)
        return rows.set_column(0, "key", pa.array([*keys[:-1], None], pa.string()))


def made(world, fields, **how):
    """A table that somebody made."""
    DeltaTable.create(world.path, Schema.from_json(fields.json()), **how)
    return world


BY = StructType(
    [
        StructField("key", StringType()),
        StructField("day", DateType()),
        StructField("n", IntegerType()),
        StructField("yes", BooleanType()),
        StructField("price", DecimalType(9, 2)),
    ]
)


class PartitionedDelta(DeltaWorld):
    """A table that somebody made, partitioned by all but the key."""

    fields = BY

    def __init__(self, folder):
        super().__init__(folder)
        made(self, BY, partition_by=BY.names[1:])

    def rows(self, keys):
        count = range(len(keys))
        columns = {
            "key": pa.array(keys, pa.string()),
            "day": pa.array([dt.date(1960 + i % 3, 2, 3) if i % 2 else None for i in count], pa.date32()),
            "n": pa.array([i % 2 - 1 for i in count], pa.int32()),
            "yes": pa.array([i % 3 == 0 for i in count], pa.bool_()),
            "price": pa.array([Decimal(i % 2) / 2 for i in count], pa.decimal128(9, 2)),
        }
        return pa.RecordBatch.from_pydict(columns)


EACH = [
    (StringType(), pa.string(), ["", "a" * 33, "𠮷", "a" * 15 + "\ud7ffzz", "\U0010ffff" * 17]),
    (DoubleType(), pa.float64(), [-0.0, 1e-320, 1.5, math.inf, math.nan]),
    (FloatType(), pa.float32(), [0.0, 1.5, math.nan]),
    (DecimalType(20, 10), pa.decimal128(20, 10), [Decimal("-1.5"), Decimal("1E-10")]),
    (TimestampType(), pa.timestamp("us", "UTC"), ZONED),
    (BinaryType(), pa.binary(), [b"", b"\xff" * 20]),
    (BooleanType(), pa.bool_(), [True, False]),
    (LongType(), pa.int64(), [-(2**63), 2**63 - 1]),
    (DateType(), pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
]
