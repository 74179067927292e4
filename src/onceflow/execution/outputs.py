"""Outputs: what a stream function may return, how several outputs become one query, and what tasks get of an epoch.

Must not know: the journal, any particular sink.

Several outputs share one epoch and one decision by being one query: a union of rows with columns for each sink, null in
the rows of the others. Each branch reads its source on its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from onceflow.connectors.contract import Sink
from onceflow.connectors.formats import column_named
from onceflow.errors import ConfigurationError
from onceflow.execution.task import DIGEST, output_column
from onceflow.spark.plan import Leaf, leaves_of, states_of
from onceflow.twophase.layout import State

if TYPE_CHECKING:
    from pyspark.sql import Column


class Outputs:
    """What a stream function returned, as one query.

    Args:
        result: One DataFrame, whose rows all sinks get; or ``{sink: DataFrame}``.
        sinks: The sinks of the job, for one DataFrame.

    Raises:
        ConfigurationError: It is no streaming DataFrame, or the sinks do not fit.
    """

    def __init__(self, result: object, sinks: Sequence[Sink]) -> None:
        if isinstance(result, DataFrame):
            if not sinks:
                raise ConfigurationError(
                    "the stream has no sink", action="name one with sinks=[...], or return {sink: DataFrame}"
                )
            by_sink = dict.fromkeys(sinks, result)
        elif isinstance(result, Mapping) and result:
            by_sink = dict(result)
        else:
            raise ConfigurationError(
                f"the stream function returned {type(result).__name__}",
                action="return one streaming DataFrame, or {sink: DataFrame}",
            )
        for sink, frame in by_sink.items():
            if not isinstance(sink, Sink) or not isinstance(frame, DataFrame) or not frame.isStreaming:
                raise ConfigurationError(
                    f"output {getattr(sink, 'name', sink)!r} is no streaming DataFrame for a sink",
                    cause=f"got {type(frame).__name__} for {type(sink).__name__}",
                    action="start from KafkaSource(...).load(spark) or spark.readStream",
                )
        self.sinks: tuple[Sink, ...] = tuple(by_sink)
        names = [sink.name for sink in self.sinks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"two sinks are named {', '.join(twice)}", action="give one of them another name=")
        # In the order of the sinks' names: then the order in which a dict names them moves no position.
        distinct = {id(frame): frame for frame in by_sink.values()}
        named = {key: tuple(sorted(s.name for s, f in by_sink.items() if id(f) == key)) for key in distinct}
        self._frames = [(named[key], distinct[key]) for key in sorted(distinct, key=lambda key: named[key])]
        self.query = self._encoded(list(by_sink.values()))
        """The one streaming DataFrame to start: what ``sink.shard.Task`` gets of each row."""

    def leaves(self) -> list[Leaf]:
        """The streaming sources, in the order of the lines of Spark's ``offsets/N``."""
        return [leaf for outputs, frame in self._frames for leaf in leaves_of(frame, outputs)]

    def states(self) -> list[State]:
        """The state operators, in the order of the plan."""
        return [state for outputs, frame in self._frames for state in states_of(frame, outputs)]

    def _encoded(self, frames: list[DataFrame]) -> DataFrame:
        """One branch for each different frame: the columns of its own sinks, null for the others'."""
        distinct = [frame for _, frame in self._frames]
        branches = [self._encode(one, [i for i, frame in enumerate(frames) if frame is one]) for one in distinct]
        if len(branches) == 1:
            return branches[0]
        types = {field.name: field.dataType for branch in branches for field in branch.schema}
        full = [
            branch.select(
                *(column_named(name) if name in branch.columns else _null(name, kind) for name, kind in types.items())
            )
            for branch in branches
        ]
        return reduce(DataFrame.unionByName, full)

    def _encode(self, frame: DataFrame, indexes: Sequence[int]) -> DataFrame:
        # Flat, and in two steps: Spark makes one projection of both, and hands the fields of a struct to Arrow one
        # object at a time.
        columns = {i: self.sinks[i].columns(frame.columns) for i in indexes}
        fields = {i: self._fields(i, frame, columns[i]) for i in indexes}
        rows = frame.select(*(column for i in indexes for column in columns[i]))
        rows = rows.toDF(*(output_column(i, field.name) for i in indexes for field in fields[i]))
        digests = (_digest(i, fields[i], self.sinks[i].destination) for i in indexes)
        return rows.select("*", *digests)

    def _fields(self, index: int, frame: DataFrame, columns: Sequence[Column]) -> list[StructField]:
        try:
            return frame.select(*columns).schema.fields
        except AnalysisException as error:
            raise ConfigurationError(
                f"sink {self.sinks[index].name} cannot write its output: {str(error).splitlines()[0]}",
                cause=f"the output has {', '.join(f'{name} {kind}' for name, kind in frame.dtypes)}",
                action="give each column a name of its own (of which Spark ignores the case), and a type that the sink "
                "takes for what it is named for",
            ) from error


def _digest(i: int, fields: Sequence[StructField], destination: str) -> Column:
    """The hash of destination and fields, each with its null flag: xxhash64 alone passes over nulls."""
    hashed: list[Column] = [F.lit(destination)]
    for field in fields:
        value = column_named(output_column(i, field.name))
        nested = isinstance(field.dataType, ArrayType | MapType | StructType)
        hashed += [F.to_json(value) if nested else value, value.isNull()]
    return F.xxhash64(*hashed).alias(output_column(i, DIGEST))


def _null(name: str, kind: DataType) -> Column:
    return F.lit(None).cast(kind).alias(name)
