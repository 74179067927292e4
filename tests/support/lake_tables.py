"""Tables of Iceberg and Delta that our sinks have filled, for readers that are not ours, and what is in them.

Each row is in a file of its own, so a reader that passes over files by their statistics or partitions passes over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.transforms import DayTransform
from pyspark.sql.types import LongType, StructField, StructType

from onceflow.testing.trial import Trial
from tests.support.lake_types import EACH, KINDS, SPEC, Partitioned, PartitionedDelta
from tests.support.lakes import DeltaWorld, IcebergWorld, LakeWorld

NOT_BY_DAY = [by for by in SPEC if not isinstance(by[1], DayTransform)]
_ALL = [*KINDS, *EACH]
_PARTITIONED = 24


@dataclass(frozen=True)
class Filled:
    """A table with its rows.

    Attributes:
        world: The table's.
        rows: What was written, as Spark hands it over; ``id`` numbers the rows.
    """

    world: LakeWorld
    rows: pa.Table

    @property
    def is_iceberg(self) -> bool:
        return isinstance(self.world, IcebergWorld)


def all_types(world: LakeWorld) -> Filled:
    """A column of each type that the docs name, with its values from edge to edge, and nulls."""
    kinds = [StructField(f"v{i}", kind) for i, (kind, _, _) in enumerate(_ALL)]
    world.fields = StructType([StructField("id", LongType()), *kinds])
    count = 1 + max(len(values) for _, _, values in _ALL)
    columns = [pa.array([*values, *[None] * (count - len(values))], arrow) for _, arrow, values in _ALL]
    rows = pa.table([pa.array(range(count), pa.int64()), *columns], names=world.fields.names)
    return _filled(world, rows)


def partitioned(world: Partitioned | PartitionedDelta) -> Filled:
    """A table that somebody made, in partitions of each kind."""
    rows = world.rows([f"k{i}" for i in range(_PARTITIONED)])
    return _filled(world, pa.table(rows))


MADE: dict[str, Callable[[Path], Filled]] = {
    "iceberg": lambda folder: all_types(IcebergWorld(folder)),
    "delta": lambda folder: all_types(DeltaWorld(folder)),
    "iceberg, partitioned": lambda folder: partitioned(Partitioned(folder, by=SPEC)),
    "iceberg, partitioned, but not by day": lambda folder: partitioned(Partitioned(folder, by=NOT_BY_DAY)),
    "delta, partitioned": lambda folder: partitioned(PartitionedDelta(folder)),
}


def _filled(world: LakeWorld, rows: pa.Table) -> Filled:
    with Trial(world) as t:
        start = t.start()
        reports = []
        for number in range(len(rows)):
            writer = start.open(number)
            writer.write(rows.slice(number, 1).to_batches()[0])
            reports.append(start.report(writer.prepare(), [str(number)], number))
        sealed = start.seal(reports)
        assert start.committer.check(sealed, start.run(), 0.0) is None
        t.commit(start, sealed)
    return Filled(world, rows)


def told(column: pa.ChunkedArray) -> list[Any]:
    """A column's values in a form in which -0.0 is not 0.0, NaN is NaN, and times of every year are there."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return [repr(value) for value in column.to_pylist()]


def plain(rows: pa.Table) -> Iterator[str]:
    """The columns whose values can be asked for."""
    for field in rows.schema:
        if not pa.types.is_nested(field.type):
            yield field.name
