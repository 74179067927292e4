"""How times are written, as far as no Spark is needed to tell."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    DateType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from onceflow.formats.times import as_written


@pytest.mark.parametrize(("unit", "written"), [("iso-8601", StringType()), ("epoch-millis", LongType())])
def test_only_instants_are_asked_for_as_they_are_written(unit, written):
    """Wherever in the schema; whatever else stands there, its names and what may be null stay."""

    def schema(time):
        inner = StructType([StructField("at", time, nullable=False), StructField("day", DateType())])
        return StructType(
            [
                StructField("a.b", time, metadata={"of": "it"}),
                StructField("list", ArrayType(inner, containsNull=False)),
                StructField("map", MapType(StringType(), ArrayType(time), valueContainsNull=False)),
                StructField("ntz", TimestampNTZType()),
            ]
        )

    assert as_written(schema(TimestampType()), unit) == schema(written)
