"""Plans: what a streaming DataFrame may be, how several outputs become one query, and what tasks get of an epoch.

Must not know: the journal, any particular sink.

Several outputs share one epoch and one decision by being one query: a union of rows with one struct column for each
sink, null in the rows of the others. Each branch reads its source on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import ArrayType, MapType, StructType

from onceflow.errors import ConfigurationError, RefusedSettingError
from onceflow.sink.contract import Sink
from onceflow.sink.shard import DIGEST

if TYPE_CHECKING:
    from pyspark.sql import Column

_KAFKA = "kafka"
_RELATION = "StreamingRelationV2"


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
        self.query = self._encoded(list(by_sink.values()))
        """The one streaming DataFrame to start: what ``sink.shard.Task`` gets of each row."""

    def _encoded(self, frames: list[DataFrame]) -> DataFrame:
        """One branch for each different frame: the structs of its own sinks, null for the others'."""
        distinct = list({id(frame): frame for frame in frames}.values())
        own = [[i for i, frame in enumerate(frames) if frame is one] for one in distinct]
        branches = [self._encode(frame, indexes) for frame, indexes in zip(distinct, own, strict=True)]
        types = {
            i: branch.schema[_tag(i)].dataType for branch, indexes in zip(branches, own, strict=True) for i in indexes
        }
        query: DataFrame | None = None
        for branch, indexes in zip(branches, own, strict=True):
            full = branch.select(
                *(
                    F.col(_tag(i)) if i in indexes else F.lit(None).cast(types[i]).alias(_tag(i))
                    for i in range(len(frames))
                )
            )
            query = full if query is None else query.unionByName(full)
        if query is None:
            raise AssertionError("there is at least one frame")
        return query

    def _encode(self, frame: DataFrame, indexes: Sequence[int]) -> DataFrame:
        structs = frame.select(*(F.struct(*self.sinks[i].columns(frame.columns)).alias(_tag(i)) for i in indexes))
        return structs.select(*(_with_digest(structs, _tag(i)) for i in indexes))


def kafka_sources(frame: DataFrame) -> Iterator[Mapping[str, str]]:
    """The options of every Kafka source in a streaming plan, with lower-case names."""
    for node in _nodes(frame._jdf.queryExecution().analyzed()):  # noqa: SLF001 - a plan has no Python side
        if node.getClass().getSimpleName() == _RELATION and node.sourceName() == _KAFKA:
            options = node.extraOptions().asCaseSensitiveMap()
            yield {str(key).lower(): str(options[key]) for key in options}


def require_read_committed(frame: DataFrame) -> None:
    """Refuse a plan that could read what is aborted later, or could skip lost records in silence.

    Raises:
        RefusedSettingError: Naming the topics and the option.
    """
    for options in kafka_sources(frame):
        topics = options.get("subscribe") or options.get("subscribepattern") or options.get("assign") or "?"
        isolation = options.get("kafka.isolation.level", "read_uncommitted")
        if isolation != "read_committed":
            raise RefusedSettingError(
                f"the Kafka source of {topics} reads {isolation}: an exactly-once sink would keep rows that their "
                f"producer aborts",
                cause=f"kafka.isolation.level is {isolation} (Spark's default is read_uncommitted)",
                action="use KafkaSource, or .option('kafka.isolation.level', 'read_committed')",
                topics=topics,
            )
        if options.get("failondataloss", "true").lower() == "false":
            raise RefusedSettingError(
                f"the Kafka source of {topics} has failOnDataLoss=false: lost records would be skipped in silence",
                cause="failOnDataLoss is false",
                action="remove the option",
                topics=topics,
            )


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for i in range(children.size()):
        yield from _nodes(children.apply(i))


def _with_digest(frame: DataFrame, tag: str) -> Column:
    """The struct with the hash of its fields, each with its null flag: xxhash64 alone passes over nulls."""
    struct = frame.schema[tag].dataType
    if not isinstance(struct, StructType):
        raise TypeError(f"{tag} is no struct")
    hashed: list[Column] = []
    for field in struct.fields:
        value = F.col(tag)[field.name]
        nested = isinstance(field.dataType, ArrayType | MapType | StructType)
        hashed += [F.to_json(value) if nested else value, value.isNull()]
    return F.col(tag).withField(DIGEST, F.xxhash64(*hashed)).alias(tag)


def _tag(i: int) -> str:
    return f"output_{i}"
