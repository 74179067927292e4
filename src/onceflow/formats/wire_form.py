"""Confluent's wire form: the byte 0 and a schema's id in four more (big-endian) stand before a record.

Must not know: what the record is, registries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

if TYPE_CHECKING:
    from pyspark.sql import Column

HEAD: Final = 5
"""Bytes that stand before a record."""
WITHOUT_ID: Final = "it does not begin with a schema's id, the byte 0 and four more"
"""Why a record without them is malformed."""


def head(schema_id: int) -> bytes:
    """What stands before a record of this schema."""
    return b"\0" + struct.pack(">I", schema_id)


def has_head(column: Column) -> Column:
    """Whether bytes begin like this; never null."""
    is_long = F.length(column) >= HEAD
    return F.coalesce(is_long & (F.substring(column, 1, 1) == F.lit(b"\0")), F.lit(False))


def is_one_of(column: Column, ids: Iterable[int]) -> Column:
    """Whether bytes begin with one of these ids; never null."""
    heads = [F.lit(head(each)) for each in sorted(ids)]
    return F.coalesce(F.substring(column, 1, HEAD).isin(heads), F.lit(False)) if heads else F.lit(False)


def id_in(column: Column) -> Column:
    """The id, of bytes that have one."""
    return F.conv(F.hex(F.substring(column, 2, 4)), 16, 10).cast("bigint")


def unknown_in(column: Column, registry: str, known: Iterable[int]) -> Column:
    """``RecordReading.unknown``: the registry's name and the id, where that is none of the known ones; else null."""
    strange = has_head(column) & ~is_one_of(column, known)
    return F.when(strange, F.concat(F.lit(f"{registry}/"), id_in(column).cast("string")))
