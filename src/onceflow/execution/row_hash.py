"""What a row says, in 32 bytes that Spark makes: a task makes keyed digests of them (``twophase/keyed.py``).

Must not know: sinks, receipts, keys. docs/audit.md has the definition with test vectors; the auditor makes the same of
what it reads, with code of its own.

The hash that runs are compared by (XXH64) is fast, and anybody finds another row with the same one. So each row is also
told as one message, from which its values can be read back, and its SHA-256 crosses to the task. The key stands in no
plan: Spark shows plans.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructType,
    VarcharType,
)


def sha256_of(values: Sequence[tuple[Column, DataType]], destination: str = "") -> Column:
    """SHA-256 of a row's message: its values as netstrings one behind the other, ``-`` for null.

    Args:
        values: The row's, with their types.
        destination: What stands before them, "" for nothing.
    """
    told = [_netstring(F.lit(destination.encode()))] if destination else []
    told += [F.when(value.isNull(), F.lit(b"-")).otherwise(_netstring(_octets(value, kind))) for value, kind in values]
    return F.unhex(F.sha2(F.concat(*told), 256))


def _netstring(octets: Column) -> Column:
    return F.concat(F.octet_length(octets).cast("string").cast("binary"), F.lit(b":"), octets, F.lit(b","))


def _octets(value: Column, kind: DataType) -> Column:
    """What a value is in bytes, of which no two values of its type have the same."""
    if isinstance(kind, StringType | VarcharType | CharType | BinaryType):
        return value.cast("binary")
    if isinstance(kind, ArrayType | MapType | StructType):
        return F.to_json(value).cast("binary")
    if isinstance(kind, DecimalType) and kind.precision > 18:
        return F.format_string("%s", value).cast("binary")
    # XXH64 of eight bytes or fewer is one to one, and the same for an auditor whatever a database makes of the type.
    return F.xxhash64(value).cast("string").cast("binary")
