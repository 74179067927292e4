"""Changes of a table's rows: in which order they were made, as a column says it.

Must not know: Kafka, any particular format, sinks.

A change stands between two positions of its source's log. Of a change that the log has they are one; what was read from
the table itself, in a snapshot, is known to be older than the log from some position on, and no more.
"""

from __future__ import annotations

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

SEQUENCE = StructType(
    [
        StructField("generation", IntegerType()),  # a greater one is newer, whatever follows
        StructField("server", StringType()),  # whose positions these are; null is not known
        StructField("not_before", LongType()),
        StructField("not_after", LongType()),
        StructField("stream", StringType()),  # of one stream, what arrived later is the newer
        StructField("arrival", LongType()),
    ]
)
"""The column by which changes are ordered."""

FIRST, LAST = -(1 << 63), (1 << 63) - 1
"""The positions before and behind every other."""


def is_sequence(kind: object) -> bool:
    """Whether a column's type is that of ``SEQUENCE``, whatever it says of nulls."""
    return isinstance(kind, StructType) and [(f.name, f.dataType) for f in kind] == [
        (f.name, f.dataType) for f in SEQUENCE
    ]
