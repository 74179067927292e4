"""Values in Arrow's columns that are no value of their type to most who read them; told by column, never by value.

Must not know: sinks, tables, where the values go. It runs in Spark's workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_S, END_S = -62_135_596_800, 253_402_300_800
"""The years 1 to 9999, in seconds since 1970: what SQL, Python and most readers can hold; the end is behind them."""

_DAY_S = 86_400
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def trouble(name: str, column: pa.Array) -> str | None:
    """What is wrong with a value of a column, also inside of it; None where nothing is.

    Spark's texts may hold any bytes, and its dates and times millions of years.
    """
    import pyarrow as pa  # noqa: PLC0415 - only in a worker

    for leaf in _leaves(column):
        if pa.types.is_string(leaf.type) or pa.types.is_large_string(leaf.type):
            try:
                leaf.validate(full=True)
            except pa.ArrowInvalid:
                return f"column {name} ({column.type}) has a text that is not UTF-8"
        elif (pa.types.is_date(leaf.type) or pa.types.is_timestamp(leaf.type)) and _is_outside(leaf):
            what = "date" if pa.types.is_date(leaf.type) else "time"
            return f"column {name} ({column.type}) has a {what} outside of the years 1 to 9999"
    return None


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    import pyarrow as pa  # noqa: PLC0415 - only in a worker

    if pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from _leaves(field)
    elif pa.types.is_map(column.type):
        first, end = (column.offsets[place].as_py() or 0 for place in (0, -1))
        for inner in (column.keys, column.items):
            yield from _leaves(inner.slice(first, end - first))
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        yield from _leaves(column.flatten())
    else:
        yield column


def _is_outside(column: pa.Array) -> bool:
    import pyarrow as pa  # noqa: PLC0415 - only in a worker
    import pyarrow.compute as pc  # noqa: PLC0415

    if pa.types.is_date(column.type):
        numbers, first, end = column.cast(pa.date32()).cast(pa.int32()), FIRST_S // _DAY_S, END_S // _DAY_S
    else:
        unit = _PER_SECOND[column.type.unit]
        numbers, first, end = column.cast(pa.int64()), FIRST_S * unit, END_S * unit
    found = pc.min_max(numbers).as_py()
    return found["min"] is not None and (found["min"] < first or found["max"] >= end)
