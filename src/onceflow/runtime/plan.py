"""Plans: what a streaming DataFrame may be, how several outputs become one query, and what tasks get of an epoch.

Must not know: the journal, any particular sink.

Several outputs share one epoch and one decision by being one query: a union of rows with columns for each sink, null in
the rows of the others. Each branch reads its source on its own.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from onceflow.errors import ConfigurationError, RefusedSettingError
from onceflow.sink.contract import Sink
from onceflow.sink.shard import DIGEST, output_column
from onceflow.source.formats import column_named
from onceflow.source.kafka import SOURCE_OPTION
from onceflow.twophase.layout import State

if TYPE_CHECKING:
    from pyspark.sql import Column

log = logging.getLogger(__name__)

_KAFKA = "kafka"
_RELATION = "StreamingRelationV2"
_PYTHON = "Python"
# Their result depends on the order of rows after a shuffle, though Spark calls them deterministic.
_ORDERED = frozenset({"First", "Last", "CollectList"})
# The task layout of an epoch is the same in every run; KafkaSource uses it.
_REPEATED = frozenset({"SparkPartitionID"})
_STATEFUL = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One streaming source of a plan: what stands at one of Spark's positions.

    One source that several outputs start from stands in the plan, and in ``offsets/N``, once for each of them.

    Attributes:
        outputs: Names of the sinks that get what it reads, in order.
        kind: Spark's name of the source: ``kafka``, ``rate``, ...
        options: Its options, with lower-case names.
        path: A fingerprint of all that lies between it and its output.
    """

    outputs: tuple[str, ...]
    kind: str
    options: Mapping[str, str]
    path: str

    @property
    def reads(self) -> str:
        """What is subscribed to, in words; of a source that is not ours with its brokers, which else nothing tells."""
        servers = self.options.get("kafka.bootstrap.servers", "")
        at = f" at {servers}" if servers and SOURCE_OPTION not in self.options else ""
        return self._subscribed() + at

    def _subscribed(self) -> str:
        if "subscribe" in self.options:
            names = sorted(name.strip() for name in self.options["subscribe"].split(","))
            return ("topic " if len(names) == 1 else "topics ") + ", ".join(names)
        if "subscribepattern" in self.options:
            return f"topics like {self.options['subscribepattern']}"
        return f"partitions {self.options['assign']}" if "assign" in self.options else f"source {self.kind}"


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
        found = []
        for outputs, frame in self._frames:
            for node, above in _with_path(_analyzed(frame)):
                if node.isStreaming() and not node.children().size():
                    kind, options = _source_of(node)
                    found.append(Leaf(outputs, kind, options, _fingerprint(above)))
        return found

    def states(self) -> list[State]:
        """The state operators, in the order of the plan."""
        found = []
        for outputs, frame in self._frames:
            for node in _nodes(_analyzed(frame)):
                if node.isStreaming() and _keeps_state(node):
                    below = [_said(each) for each in _nodes(node)]
                    found.append(State(outputs, _shape(node), _fingerprint(below)))
        return found

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


def kafka_sources(frame: DataFrame) -> Iterator[Mapping[str, str]]:
    """The options of every Kafka source in a streaming plan, with lower-case names."""
    for node in _nodes(_analyzed(frame)):
        if node.getClass().getSimpleName() == _RELATION and node.sourceName() == _KAFKA:
            yield _source_of(node)[1]


def _source_of(leaf: Any) -> tuple[str, dict[str, str]]:
    """A streaming leaf's source and options, without secrets' keys being of interest to anybody."""
    if leaf.getClass().getSimpleName() != _RELATION:
        return leaf.getClass().getSimpleName(), {}
    options = leaf.extraOptions().asCaseSensitiveMap()
    return str(leaf.sourceName()), {str(key).lower(): str(options[key]) for key in options}


def _with_path(node: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Every node with what lies above it, in the order in which Spark numbers sources."""
    yield node, above
    for child in _all(node.children()):
        yield from _with_path(child, (*above, _said(node)))


def _said(node: Any) -> str:
    """A node in words that are the same for the same code in every process."""
    kind = str(node.getClass().getSimpleName())
    if kind == _RELATION:
        return kind
    words = [_sql(e) for e in _all(node.expressions())]
    return f"{kind} {words}"


def _sql(expression: Any) -> str:
    text: str = str(expression.sql())
    # Arguments of lambda functions are numbered through the process.
    return re.sub(r"\b([A-Za-z]+)_\d+\b", r"\1", text) if "lambda" in text else text


def _shape(node: Any) -> str:
    """What a state operator keeps: its kind, and its keys and functions, keys as they are made below it."""
    made: dict[int, str] = {}
    for below in _nodes(node):
        if below.getClass().getSimpleName() == "Project":
            for named in _all(below.projectList()):
                if named.getClass().getSimpleName() == "Alias":
                    made.setdefault(named.exprId().id(), _sql(named.child()))

    def words(expression: Any) -> str:
        if expression.getClass().getSimpleName() == "AttributeReference":
            return str(made.get(expression.exprId().id(), _sql(expression)))
        return _sql(expression)

    return f"{node.getClass().getSimpleName()}({', '.join(words(e) for e in _all(node.expressions()))})"


def _fingerprint(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


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


def unrepeatable(frame: DataFrame) -> list[str]:
    """What may give other rows when the same epoch runs again, by name; Python functions as ``Python function f``.

    Expressions that Spark calls non-deterministic (``rand``, ``uuid``, a function made ``asNondeterministic``),
    aggregates that depend on the order of rows, and every Python function, since Spark takes each for deterministic
    unless told otherwise and cannot look into it. Not ``current_timestamp``: Spark keeps an epoch's time in
    ``offsets/N``. The analyzed plan is looked at, as the user wrote it.
    """
    found = (name for node in _nodes(_analyzed(frame)) for e in _all(node.expressions()) for name in _culprits(e))
    return sorted(set(found))


def keys_repeat(culprits: Iterable[str]) -> bool:
    """Whether nothing in a plan can send a row to another partition of a shuffle when it runs again.

    What depends on the order of rows after a shuffle does not move rows; all else that may give other rows might.

    Args:
        culprits: What ``unrepeatable`` found.
    """
    return set(culprits) <= {"first()", "last()", "collect_list()"}


def is_stateful(frame: DataFrame) -> bool:
    """Whether a streaming plan keeps state between epochs, by its analyzed plan."""
    return any(node.isStreaming() and _keeps_state(node) for node in _nodes(_analyzed(frame)))


def warn_of_unrepeatable(frame: DataFrame) -> None:
    """Say once what a plan that may give other rows in a second run means for recovery.

    A stateful plan runs again whenever the driver died between the decision and Spark's ``commits/N``: common, so a
    warning. A stateless one is compared only when an epoch was committed in part and the rest expired: rare, so
    a line of information.
    """
    names = unrepeatable(frame)
    if not names:
        return
    if is_stateful(frame):
        log.warning(
            "the plan keeps state and uses %s. If the driver dies between an epoch's decision and Spark's record of "
            "it, the state is built again by a second run; should that give other rows, the job stops with "
            "NotDeterministicError and asks (onceflow txn resolve). Harmless if each gives the same for the same rows",
            ", ".join(names),
        )
    else:
        log.info(
            "the plan uses %s. Only if an epoch is committed in part when its other transactions expire are its rows "
            "compared with a second run; should they differ, the job stops with NotDeterministicError",
            ", ".join(names),
        )


def _culprits(expression: Any) -> Iterator[str]:
    """The innermost expressions to blame."""
    children = list(_all(expression.children()))
    for child in children:
        yield from _culprits(child)
    kind = expression.getClass().getSimpleName()
    innermost = not expression.deterministic() and all(child.deterministic() for child in children)
    if kind.startswith(_PYTHON):
        yield f"Python function {expression.name()}"
    elif kind in _ORDERED or (innermost and kind not in _REPEATED):
        yield f"{expression.prettyName().lower()}()"


def _keeps_state(node: Any) -> bool:
    kind = node.getClass().getSimpleName()
    return kind in _STATEFUL or (kind == "Join" and all(child.isStreaming() for child in _all(node.children())))


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - a plan has no Python side


def _all(seq: Any) -> Iterator[Any]:
    """The elements of a Scala Seq."""
    for i in range(seq.size()):
        yield seq.apply(i)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _all(plan.children()):
        yield from _nodes(child)


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
