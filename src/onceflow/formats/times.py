"""Times in records: how they are written, read, and when one is not plausible.

Must not know: Kafka, topics, sources, sinks, how the rest of a record is written.

Spark's ``from_json`` reads a number as seconds, multiplies it without looking whether it still fits (so microseconds
become years of either sign, and some numbers a time of today), and reads a time without a date as of the machine's
today, which is another day when the epoch is read again. So it is asked for what is written, and that is read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from onceflow.formats.arrow_values import END_S, FIRST_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column

_PER_SECOND = {"epoch-seconds": 1, "epoch-millis": 1_000, "epoch-micros": 1_000_000}
FORMATS = ("iso-8601", *_PER_SECOND)
"""What ``timestamp_format`` may be."""
AS_TIMES = "times"
"""What was parsed has its times already."""

_DATED = r"^\s*[+-]?\d{4,6}-\d{1,2}-\d{1,2}"


def as_written(kind: StructType, timestamp_format: str) -> StructType:
    """A schema with the type in which a time is written in the place of each ``timestamp``."""
    found = _replaced(kind, StringType() if timestamp_format == "iso-8601" else LongType())
    assert isinstance(found, StructType)  # noqa: S101 - for mypy
    return found


def _replaced(kind: DataType, written: DataType) -> DataType:
    match kind:
        case TimestampType():
            return written
        case StructType():
            fields = (StructField(f.name, _replaced(f.dataType, written), f.nullable, f.metadata) for f in kind.fields)
            return StructType(list(fields))
        case ArrayType():
            return ArrayType(_replaced(kind.elementType, written), kind.containsNull)
        case MapType():
            return MapType(kind.keyType, _replaced(kind.valueType, written), kind.valueContainsNull)
        case _:
            return kind


def times_read(column: Column, kind: DataType, timestamp_format: str) -> Column:
    """What was parsed as ``as_written`` says, as the type that was meant; null where it is no time."""
    if not _has(kind, TimestampType):
        return column
    match kind:
        case StructType():
            fields = (
                times_read(column.getField(field.name), field.dataType, timestamp_format).alias(field.name)
                for field in kind
            )
            return F.when(column.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(column, lambda item: times_read(item, kind.elementType, timestamp_format))
        case MapType():
            return F.transform_values(column, lambda _, value: times_read(value, kind.valueType, timestamp_format))
        case _:
            return _time(column, timestamp_format)


def times_wrong(column: Column, kind: DataType, timestamp_format: str, latest: Column | None) -> Iterator[Column]:
    """Two conditions, never null, for what has times: one cannot be read; one is not plausible.

    Args:
        column: What was parsed as ``as_written`` says.
        kind: The type that was meant.
        timestamp_format: One of ``FORMATS``, or ``AS_TIMES``.
        latest: The latest time that is plausible, None for any.
    """

    def unreadable(written: Column, of: DataType) -> Column:
        if not isinstance(of, TimestampType):
            return F.lit(False)
        return written.isNotNull() & _time(written, timestamp_format).isNull()

    def implausible(written: Column, of: DataType) -> Column:
        if isinstance(of, DateType):  # no event's time: what is due, or ends, lies ahead
            outside = ~written.between(_day("0001-01-01"), _day("9999-12-31"))
        else:
            time = _time(written, timestamp_format) if isinstance(of, TimestampType) else written.cast("timestamp")
            outside = (time < _second(FIRST_S)) | (time >= _second(END_S))
            if latest is not None:
                outside |= time > latest
        return F.coalesce(outside, F.lit(False))

    if _has(kind, TimestampType, TimestampNTZType, DateType):
        yield _anywhere(column, kind, unreadable)
        yield _anywhere(column, kind, implausible)


def _anywhere(column: Column, kind: DataType, holds: Callable[[Column, DataType], Column]) -> Column:
    """Whether something holds of a time anywhere inside."""
    match kind:
        case StructType():
            found = F.lit(False)
            for field in kind:
                if _has(field.dataType, TimestampType, TimestampNTZType, DateType):
                    found |= _anywhere(column.getField(field.name), field.dataType, holds)
            return found
        case ArrayType():
            return F.coalesce(F.exists(column, lambda item: _anywhere(item, kind.elementType, holds)), F.lit(False))
        case MapType():
            values = F.map_values(column)
            return F.coalesce(F.exists(values, lambda item: _anywhere(item, kind.valueType, holds)), F.lit(False))
        case _:
            return holds(column, kind)


def _time(written: Column, timestamp_format: str) -> Column:
    """A time, or null where it is none."""
    if timestamp_format == AS_TIMES:
        return written
    if timestamp_format == "iso-8601":
        # Spark would take a year or a time of day alone, too, and fill in the rest; of a time of day, from the clock.
        return F.when(written.rlike(_DATED), written.try_cast("timestamp"))
    scale = _PER_SECOND[timestamp_format]
    fits = written.between(FIRST_S * 2 * scale, END_S * 2 * scale)
    return F.when(fits, F.timestamp_micros(written * (1_000_000 // scale)))


def within(time: Column, first_s: int = FIRST_S, end_s: int = END_S) -> Column:
    """A time, or null where it is outside of what a system has, in seconds since 1970; the end is behind the last."""
    return F.when((time >= _second(first_s)) & (time < _second(end_s)), time)


def _second(at: int) -> Column:
    return F.timestamp_seconds(F.lit(at))


def _day(text: str) -> Column:
    return F.lit(text).cast("date")


def _has(kind: DataType, *times: type[DataType]) -> bool:
    """Whether a type has one of these inside."""
    match kind:
        case StructType():
            return any(_has(field.dataType, *times) for field in kind)
        case ArrayType():
            return _has(kind.elementType, *times)
        case MapType():
            return _has(kind.valueType, *times)
        case _:
            return isinstance(kind, times)
