"""An output's columns by their names: what is left of them, and which of them a table does not have.

Must not know: any particular system.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import StructType


def without(fields: StructType, *names: str | None) -> StructType:
    """Those of these columns that none of these names is."""
    return StructType([field for field in fields.fields if field.name not in names])


def absent(fields: StructType, names: Iterable[str]) -> StructType:
    """Those of these columns that a table with these names does not have.

    None whose name is another one's but for its case: readers would take the two for one.
    """
    there = {name.casefold() for name in names}
    return StructType([field for field in fields.fields if field.name.casefold() not in there])
