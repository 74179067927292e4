"""What a format makes of records, as a source has it."""

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it


def read(spark, reading, blobs, latest=None):
    """(malformed, reason, unknown, the columns) of each. Instants are microseconds: Python has no place for all."""
    frame = spark.createDataFrame([(None if v is None else bytearray(v),) for v in blobs], "value binary")
    frame = frame.select("value", reading.parsed(F.col("value")).alias("it"))
    unknown = reading.unknown(F.col("value"))
    return frame.select(
        reading.malformed(F.col("value"), F.col("it"), latest).alias("malformed"),
        reading.reason(F.col("value"), F.col("it"), latest).alias("reason"),
        (F.lit(None) if unknown is None else unknown).alias("unknown"),
        *(
            column.alias(f"f{at}" if reading.fields() is None else name)
            for at, (name, column) in enumerate(_named(reading))
        ),
    ).collect()


def _named(reading):
    columns = reading.columns(F.col("it"))
    fields = reading.fields()
    if fields is None:
        return [("value", columns[0])]
    is_time = [field.dataType.simpleString() == "timestamp" for field in fields]
    shown = [F.unix_micros(column) if time else column for column, time in zip(columns, is_time, strict=True)]
    return zip(fields.names, shown, strict=True)
