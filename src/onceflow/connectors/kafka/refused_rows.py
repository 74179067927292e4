"""Which rows a topic does not take, told by the row alone: as an expression of Spark, before a task has them.

Must not know: clients, writers, where such rows go. What a broker refuses all the same ends its epoch (``refusals``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

if TYPE_CHECKING:
    from pyspark.sql import Column

_AROUND = 512
"""So many bytes a batch and a record have around key, value and headers, at the most."""
_AROUND_A_HEADER = 10


def reason(record: Mapping[str, Column], of: Mapping[str, Any]) -> Column:
    """Why a record is not taken, a string; null where it is.

    Args:
        record: What is written of it, by name: ``value``, and those of ``key``, ``headers``, ``partition`` and
            ``timestamp`` that it has.
        of: ``bytes``, that a batch may have; ``partitions``, how many there are; ``keyed``, whether each has a key.
    """
    size = F.lit(0)
    for name in ("value", "key"):
        if name in record:
            size += _bytes(record[name])
    if "headers" in record:
        size += F.coalesce(F.aggregate(record["headers"], F.lit(0), _with_header), F.lit(0))
    most = of["bytes"] - _AROUND
    whys = F.when(size > most, F.lit(f"it has more than {most} bytes, and the topic takes {of['bytes']} in a batch"))
    if of["keyed"]:
        key = record.get("key", F.lit(None))
        whys = whys.when(key.isNull(), F.lit("it has no key, and the topic is compacted"))
    if "partition" in record:
        there = record["partition"].between(0, of["partitions"] - 1)
        whys = whys.when(~there, F.lit(f"it is for a partition that is not there: the topic has {of['partitions']}"))
    if "timestamp" in record:
        whys = whys.when(
            record["timestamp"] == 0, F.lit("its time is 1970-01-01T00:00:00Z, which no client of ours writes")
        )
    return whys


def _bytes(value: Column) -> Column:
    return F.coalesce(F.octet_length(value), F.lit(0))


def _with_header(total: Column, header: Column) -> Column:
    return total + _bytes(header["key"]) + _bytes(header["value"]) + _AROUND_A_HEADER
