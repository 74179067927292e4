"""Reading Spark's plans: their sources, their state, and what may give other rows in a second run.

Must not know: sinks, the journal. Private classes of Spark are told by their names here, so each question fails closed:
a leaf of an unknown class is refused, an operator of an unknown class is taken for one that keeps state.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from onceflow.errors import ConfigurationError, RefusedSettingError
from onceflow.spark.internals import analyzed_plan, call_site, elements, require_streaming
from onceflow.spark.sentences import no_stream
from onceflow.spark.versions import TODAY
from onceflow.twophase.layout import StateOperator, without_texts

log = logging.getLogger(__name__)

_KAFKA = "kafka"
_RELATION = "StreamingRelationV2"
_RELATION_V1 = "StreamingRelation"
_V2_OFF = "spark.sql.streaming.disabledV2MicroBatchReaders"
_KAFKA_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"

# What each streaming source means for an epoch that has to be read twice; one that is in neither is refused.
_READABLE_AGAIN: Mapping[str, str] = {
    _KAFKA: "its records are there for as long as the topic keeps them",
    "rate": "its rows follow from the epoch's offsets",
    "rate-micro-batch": "its rows follow from the epoch's offsets",
    "FileSource": "Spark writes down which files an epoch read; they must stay as they were",
}
_GONE_WHEN_READ: Mapping[str, str] = {
    "TextSocketV2": "a socket's rows cannot be read twice",
    "socket": "a socket's rows cannot be read twice",
    "memory": "rows in memory are gone with the driver",
}
# Static sides: what is in the program, or computed; and what may have changed when an epoch is run again.
_IN_THE_PROGRAM = frozenset({"LocalRelation", "OneRowRelation", "Range", "ResolvedInlineTable"})
_OUTSIDE: Mapping[str, str] = {
    "LogicalRelation": "a static table",
    "HiveTableRelation": "a static table",
    "DataSourceV2Relation": "a static table",
    "LogicalRDD": "a static RDD or DataFrame from Python",
    "ExternalRDD": "a static RDD",
    "InMemoryRelation": "a cached DataFrame",
}
# State in a class of the user's; and in a function, with a timeout.
_PROTOBUF = "protobuf>=6.33.5,<7"  # what PySpark 4.2 was generated for
_STATE_CLASS, _STATE_FUNCTION = "TransformWithStateInPySpark", "FlatMapGroupsInPandasWithState"
_BY_THE_CLOCK = "ProcessingTime"
_CHECKED_BY_SPARK = "spark.sql.streaming.unsupportedOperationCheck"
_REFERENCE = "CTERelationRef"
_PYTHON = "Python"
OWN = "onceflow$"
"""Functions of ours whose names begin so give the same in every run. No ``def`` of a user's makes such a name."""

# Their result depends on the order of rows after a shuffle, though Spark calls most of them deterministic.
_ORDERED = frozenset({
    "First", "Last", "CollectList", "CollectSet", "ListAgg", "MaxBy", "MinBy", "Mode", "ApproximatePercentile",
    "HistogramNumeric", "StddevPop", "StddevSamp", "VariancePop", "VarianceSamp", "Skewness", "Kurtosis", "Corr",
    "CovPopulation", "CovSample",
})  # fmt: skip
# Sums of these types depend on the order, too: the last digit of a sum of doubles.
_SUMS = frozenset({"Sum", "Average"})
_FLOATING = frozenset({"float", "double"})
# Operators that let the first row pass and drop others: which is the first, is their order after a shuffle.
_FIRST_OF_A_KEY = frozenset({"Deduplicate", "DeduplicateWithinWatermark"})
_FIRST_OF_ALL = "GlobalLimit"
_BY_ORDER = "(order of rows)"
# Tasks are not numbered the same in every run, so a plan that asks for its task's number may give other rows. Our own
# source asks, and only compares the number with itself in the same task; its columns are told by their name.
_TASKS_NUMBER = "spark_partition_id()"
_OURS = "_onceflow_"
EVERY_ROW = "spark_partition_id() >= 0"
"""A condition that each row fulfils, and that Spark moves no filter past: it may hang on the task."""
_EVERY_ROW = f"({EVERY_ROW})".lower()
# Operators that keep nothing from one epoch to the next. Whatever is not here is taken for one that does: its place
# and its keys are compared at the next start, and a plan that may give other rows is warned of. Not Except and
# Intersect: Spark makes an aggregation of each, which remembers what it has seen.
_STATELESS = frozenset({
    "AppendColumns", "ArrowEvalPython", "AttachDistributedSequence", "BatchEvalPython", "CTERelationDef",
    "CollectMetrics", "DataFrameDropColumns", "DeserializeToObject", "EventTimeWatermark", "Expand", "Filter",
    "FlatMapCoGroupsInPandas", "Generate", "LateralJoin", "LocalLimit", "MapElements",
    "MapInArrow", "MapInPandas", "MapPartitions", "MapPartitionsInR", "MapPartitionsInRWithArrow", "ParsedStatement",
    "Pivot", "Project", "PythonMapInArrow", "RebalancePartitions", "Repartition", "RepartitionByExpression",
    "ResolvedHint", "Sample", "ScriptTransformation", "SerializeFromObject", "Sort", "SubqueryAlias", "TypedFilter",
    "Union", "Unpivot", "UnresolvedHint", "UpdateEventTimeWatermarkColumn", "View", "Window", "WithCTE",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaf:
    """One streaming source of a plan: what stands at one of Spark's positions.

    One source that several outputs start from stands in the plan, and in ``offsets/N``, once for each of them.

    Attributes:
        outputs: Names of the sinks that get what it reads, in order.
        kind: Spark's name of the source: ``kafka``, ``rate``, ...
        options: Its options, with lower-case names.
        path: A fingerprint of all that lies between it and its output.
        is_read: Its output does not read along with another one.
    """

    outputs: tuple[str, ...]
    kind: str
    options: Mapping[str, str]
    path: str
    is_read: bool = True

    @property
    def reads_where(self) -> str:
        """What is subscribed to and at which brokers, in words: all that tells a source that is not ours."""
        servers = self.options.get("kafka.bootstrap.servers", "")
        return self.reads + (f" at {servers}" if servers else "")

    @property
    def begins(self) -> str:
        """Where it begins to read when there is no checkpoint, in words."""
        if self.kind != _KAFKA:
            return f"{self.reads} from its beginning"
        if time := self.options.get("startingtimestamp"):
            return f"{self.reads} from {datetime.fromtimestamp(int(time) / 1000, UTC).isoformat(' ')} on"
        if "startingoffsetsbytimestamp" in self.options:
            return f"{self.reads} from the times given for its partitions on"
        offsets = self.options.get("startingoffsets", "latest").strip().lower()  # Spark's own word where none is said
        return f"{self.reads} from {offsets if offsets in ('earliest', 'latest') else 'the offsets given'}"

    @property
    def reads(self) -> str:
        """What is subscribed to, in words."""
        if "subscribe" in self.options:
            names = sorted(name.strip() for name in self.options["subscribe"].split(","))
            return ("topic " if len(names) == 1 else "topics ") + ", ".join(names)
        if "subscribepattern" in self.options:
            return f"topics like {self.options['subscribepattern']}"
        return f"partitions {self.options['assign']}" if "assign" in self.options else f"source {self.kind}"


def leaves_of(frame: DataFrame, outputs: tuple[str, ...]) -> list[Leaf]:
    """The streaming sources of one output's plan, in the order in which Spark numbers them.

    Args:
        frame: The output.
        outputs: Names of the sinks that get it, in order.
    """
    return [
        Leaf(outputs, *_source_of(node), _fingerprint(above))
        for node, above in _with_path(analyzed_plan(frame))
        if node.isStreaming() and not node.children().size() and kind_of(node) != _REFERENCE
    ]


def states_of(frame: DataFrame, outputs: tuple[str, ...]) -> list[StateOperator]:
    """The state operators of one output's plan, in its order."""
    return [
        StateOperator(outputs, without_texts(_shape(node)), _fingerprint([_said(each) for each in nodes_of(node)]))
        for node in nodes_of(analyzed_plan(frame))
        if node.isStreaming() and keeps_state(node)
    ]


def kafka_sources(frame: DataFrame) -> Iterator[Mapping[str, str]]:
    """The options of every Kafka source in a streaming plan, with lower-case names."""
    for node in _leaves(frame):
        if node.isStreaming() and _source_of(node)[0] == _KAFKA:
            yield _source_of(node)[1]


def _leaves(frame: DataFrame) -> Iterator[Any]:
    return (node for node in nodes_of(analyzed_plan(frame)) if not node.children().size())


def _source_of(leaf: Any) -> tuple[str, dict[str, str]]:
    """A streaming leaf's source and options, without secrets' keys being of interest to anybody."""
    kind = kind_of(leaf)
    if kind == _RELATION_V1:
        return str(leaf.sourceName()).partition("[")[0], {}
    if kind != _RELATION:
        return kind, {}
    options = leaf.extraOptions().asCaseSensitiveMap()
    return str(leaf.sourceName()), {str(key).lower(): str(options[key]) for key in options}


def read_below(node: Any) -> set[str]:
    """What the streaming sources below a node read, in words, each topic for itself."""
    found = (each for each in nodes_of(node) if each.isStreaming() and not each.children().size())
    leaves = [Leaf((), *_source_of(leaf), "") for leaf in found if kind_of(leaf) != _REFERENCE]
    topics = {name.strip() for leaf in leaves for name in leaf.options.get("subscribe", "").split(",")}
    others = {leaf.reads for leaf in leaves if "subscribe" not in leaf.options}
    return {f"topic {name}" for name in topics if name} | others


def kind_of(node: Any) -> str:
    """The name of a node's class, or of an expression's, as it is today."""
    name = str(node.getClass().getSimpleName())
    return TODAY.get(name, name)


def require_readable_again(frame: DataFrame) -> None:
    """Refuse a plan with a source that is not known to give the same rows when an epoch is read twice.

    Raises:
        RefusedSettingError: Naming the source.
    """
    disabled = str(frame.sparkSession.conf.get(_V2_OFF, ""))
    for leaf in _leaves(frame):
        kind = kind_of(leaf)
        if kind == _REFERENCE:
            continue  # what it refers to stands in the plan as well
        if leaf.isStreaming():
            source = _source_of(leaf)[0]
            known = kind in (_RELATION, _RELATION_V1) and source in _READABLE_AGAIN
            if source.lower().startswith(_KAFKA) and (kind != _RELATION or _KAFKA_PROVIDER in disabled):
                raise RefusedSettingError(
                    "the plan reads Kafka through Spark's older reader, whose sources cannot be told apart or checked",
                    cause=f"{_V2_OFF} is {disabled or 'not set'}",
                    action=f"take {_KAFKA_PROVIDER} out of {_V2_OFF}",
                )
            if not known:
                raise _not_again(source, _GONE_WHEN_READ.get(source, "it is not known to onceflow"))
        elif kind not in _IN_THE_PROGRAM and kind not in _OUTSIDE:
            raise _not_again(kind, "it is not known to onceflow")
        elif kind in ("LogicalRelation", "DataSourceV2Relation") and "kafka" in _static(leaf).lower():
            raise _not_again(
                "a static read of Kafka",
                "where it ends is asked anew in every run, and whether it reads what is aborted later is not shown",
            )


def _not_again(source: str, why: str) -> RefusedSettingError:
    return RefusedSettingError(
        f"the plan reads {source}: {why}",
        harmless="never, where an epoch has to be read twice: other rows would come, or none",
        cause="an exactly-once or idempotent sink needs sources that give the same rows again: "
        + ", ".join(sorted({*_READABLE_AGAIN})),
        action="read it through a Kafka topic, or from files; or give all sinks guarantee='at-least-once'",
        source=source,
    )


def _static(leaf: Any) -> str:
    """What a static relation reads, by the name of its Java class."""
    if kind_of(leaf) == "LogicalRelation":
        return str(leaf.relation().getClass().getSimpleName())
    return str(leaf.table().getClass().getSimpleName()) if kind_of(leaf) == "DataSourceV2Relation" else kind_of(leaf)


def _with_path(node: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Every node with what lies above it, in the order in which Spark numbers sources."""
    yield node, above
    for child in elements(node.children()):
        yield from _with_path(child, (*above, _said(node)))


def _said(node: Any) -> str:
    """A node in words that are the same for the same code in every process."""
    kind = str(node.getClass().getSimpleName())
    if kind == _RELATION:
        return kind
    words = [in_sql(e) for e in elements(node.expressions())]
    return f"{kind} {words}"


def in_sql(expression: Any) -> str:
    """An expression in words that are the same in every process."""
    text: str = str(expression.sql())
    # Arguments of lambda functions are numbered through the process.
    return re.sub(r"\b([A-Za-z]+)_\d+\b", r"\1", text) if "lambda" in text else text


def _shape(node: Any) -> str:
    """What a state operator keeps: its kind, and its keys and functions, keys as they are made below it."""
    made: dict[int, str] = {}
    for below in nodes_of(node):
        if below.getClass().getSimpleName() == "Project":
            for named in elements(below.projectList()):
                if named.getClass().getSimpleName() == "Alias":
                    made.setdefault(named.exprId().id(), in_sql(named.child()))

    def words(expression: Any) -> str:
        if expression.getClass().getSimpleName() == "AttributeReference":
            return str(made.get(expression.exprId().id(), in_sql(expression)))
        return in_sql(expression)

    return f"{node.getClass().getSimpleName()}({', '.join(words(e) for e in elements(node.expressions()))})"


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


def require_streamable(frame: DataFrame, mode: str) -> None:
    """Refuse a plan that Spark would refuse when the query is started: by then an older driver is ended for it.

    Raises:
        ConfigurationError: Why, and what to do.
    """
    if frame.sparkSession.conf.get(_CHECKED_BY_SPARK, "true") != "true":
        return
    try:
        require_streaming(frame, mode.capitalize())
    except AnalysisException as error:
        raise no_stream(str(error), mode) from None


def require_protobuf(frame: DataFrame) -> None:
    """Refuse a plan with a state class where Python cannot speak with Spark's state: its tasks would fail, late.

    Raises:
        ConfigurationError: What is missing, and what to install.
    """
    if not has_state_class(frame):
        return
    try:
        importlib.import_module("pyspark.sql.streaming.proto.StateMessage_pb2")
    except Exception as error:  # noqa: BLE001 - it is not there, or says with an error of its own that it is too old
        raise ConfigurationError(
            "the plan has a state class (transformWithState), and the package protobuf is missing here, or is not one "
            "that this PySpark takes",
            harmless="always: nothing was started or changed",
            cause=f"PySpark speaks with its state by protobuf, and does not install it: {str(error).splitlines()[0]}",
            action=f"install it, here and on all executors: pip install '{_PROTOBUF}'",
        ) from None


def has_state_class(frame: DataFrame) -> bool:
    """Whether the plan keeps state in a class of the user's."""
    return any(kind_of(node) == _STATE_CLASS for node in nodes_of(analyzed_plan(frame)))


def goes_by_the_clock(frame: DataFrame) -> bool:
    """Whether the plan has timers, timeouts or a TTL by processing time: for them Spark runs epochs without records."""
    for node in nodes_of(analyzed_plan(frame)):
        kind = kind_of(node)
        if kind == _STATE_CLASS and _BY_THE_CLOCK in str(node.timeMode().toString()):
            return True
        if kind == _STATE_FUNCTION and _BY_THE_CLOCK in str(node.timeout().toString()):
            return True
    return False


def tell_of_mode(frame: DataFrame, mode: str) -> None:
    """Say once what readers of an output see of a plan that keeps state, where it is not each row once and for all."""
    if mode == "update" and is_stateful(frame):
        log.info(
            'output_mode="update": an epoch writes each group that it changed as a row of its own, once. Readers see '
            "several rows of a group, of which the last counts; a sink's key= tells which belong together"
        )
    elif mode == "complete":
        log.info(
            'output_mode="complete": each epoch writes all groups again, once, also those that it did not change. '
            "Readers see every group as often as there are epochs, and the last row counts"
        )


def unrepeatable(frame: DataFrame) -> list[str]:
    """What may give other rows when the same epoch runs again, by name; Python functions as ``Python function f``.

    Expressions that Spark calls non-deterministic (``rand``, ``uuid``, a function made ``asNondeterministic``),
    aggregates that depend on the order of rows, floating point's sums among them, operators that let the first of
    several rows pass, and every Python function, since Spark takes each for deterministic unless told otherwise and
    cannot look into it. Not ``current_timestamp``: Spark keeps an epoch's time in ``offsets/N``. The analyzed plan is
    looked at, as the user wrote it.
    """
    return sorted({name for name, _ in _suspects(frame)})


def _suspects(frame: DataFrame) -> Iterator[tuple[str, str]]:
    """Each of them with the line of the program that asks for it, "" where Spark does not know it."""
    for node in nodes_of(analyzed_plan(frame)):
        kind = kind_of(node)
        for e in elements(node.expressions()):
            ours = _OURS in in_sql(e) or in_sql(e).lower() == _EVERY_ROW
            yield from (each for each in _culprits(e) if each[0] != _TASKS_NUMBER or not ours)
        if kind in _FIRST_OF_A_KEY:
            keys = {key.exprId().id(): str(key.name()) for key in elements(node.keys())}
            # Rows that are the same in all columns are one, whichever of them passes.
            if any(column.exprId().id() not in keys for column in elements(node.output())):
                yield f"dropDuplicates of {', '.join(keys.values())} {_BY_ORDER}", ""
        elif kind == _FIRST_OF_ALL and node.isStreaming():
            yield f"limit {_BY_ORDER}", ""
        elif not node.children().size() and not node.isStreaming() and kind in _OUTSIDE:
            yield _OUTSIDE[kind], ""


def keys_repeat(culprits: Iterable[str]) -> bool:
    """Whether nothing in a plan can send a row to another partition of a shuffle when it runs again.

    What depends on the order of rows after a shuffle does not move rows; all else that may give other rows might.

    Args:
        culprits: What ``unrepeatable`` found.
    """
    return all(_BY_ORDER in name for name in culprits)


def is_stateful(frame: DataFrame) -> bool:
    """Whether a streaming plan keeps state between epochs, by its analyzed plan.

    Asked before the plan runs, for the warning below; ``states_of`` asks the same for the layout. To the safe side: an
    operator of an unknown class counts as one that keeps state. What has to be done for a decided epoch is not asked
    here but of ``SparkCheckpoint.is_stateful``, which tells what Spark itself has kept and needs no plan: a start that
    finishes an epoch has none, nor has an operator. So where the two differ, recovery is right all the same.
    """
    return any(node.isStreaming() and keeps_state(node) for node in nodes_of(analyzed_plan(frame)))


_OF_STATIC = (
    ": write a changed table to a new path and start the job with it, rather than over the files that are read. Where "
    "that is so, fixed_tables=True says it"
)


def warn_of_unrepeatable(frame: DataFrame, *, fixed_tables: bool = False) -> None:
    """Say once what a plan that may give other rows in a second run means for recovery.

    Args:
        frame: The plan.
        fixed_tables: The user has said that its static tables stay as they are.

    A stateful plan runs again whenever the driver died between the decision and Spark's ``commits/N``: common, so a
    warning. A stateless one is compared only when an epoch was committed in part and the rest expired: rare, so
    a line of information.
    """
    lines: dict[str, set[str]] = {}
    fixed = set(_OUTSIDE.values()) if fixed_tables else set()
    for name, line in _suspects(frame):
        if name in fixed:
            continue
        lines.setdefault(name, set()).update([line] if line else [])
    names = [f"{name} at {', '.join(sorted(at))}" if at else name for name, at in sorted(lines.items())]
    if not names:
        return
    if is_stateful(frame):
        log.warning(
            "the plan keeps state and uses %s. If the driver dies between an epoch's decision and Spark's record of "
            "it, the state is built again by a second run; should that give other rows, the job stops with "
            "NotDeterministicError and asks (onceflow txn resolve). Harmless if each gives the same for the same "
            "rows%s",
            ", ".join(names),
            _OF_STATIC if any("static" in name for name in names) else "",
        )
    else:
        log.info(
            "the plan uses %s. Only if an epoch is committed in part when its other transactions expire are its rows "
            "compared with a second run; should they differ, the job stops with NotDeterministicError",
            ", ".join(names),
        )


def _culprits(expression: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[str, str]]:
    """The innermost expressions to blame, each with the nearest line of the program that is known."""
    children = list(elements(expression.children()))
    for child in children:
        yield from _culprits(child, (expression, *above))
    name = _blamed(expression, children)
    if name:
        yield name, next(filter(None, map(call_site, (expression, *above))), "")


def _blamed(expression: Any, children: Sequence[Any]) -> str:
    """What an expression is blamed for, by itself; "" for nothing."""
    kind = kind_of(expression)
    if kind.startswith(_PYTHON):
        name = str(expression.name())
        return "" if name.startswith(OWN) else f"Python function {name}"
    name = f"{str(expression.prettyName()).lower()}()"
    if kind in _ORDERED:
        return f"{name} {_BY_ORDER}"
    if kind in _SUMS:
        summed = str(children[0].dataType().typeName())
        return f"{name} of {summed} {_BY_ORDER}" if summed in _FLOATING else ""
    innermost = not expression.deterministic() and all(child.deterministic() for child in children)
    return name if innermost else ""


def keeps_state(node: Any) -> bool:
    """Whether a node of a streaming plan keeps something from one epoch to the next."""
    kind = kind_of(node)
    if kind == "Join":
        return all(child.isStreaming() for child in elements(node.children()))
    return kind not in _STATELESS and bool(node.children().size())


def nodes_of(plan: Any) -> Iterator[Any]:
    """Every node of a plan; the plans inside of subqueries' expressions as well."""
    yield plan
    for child in elements(plan.children()):
        yield from nodes_of(child)
    for inside in elements(plan.subqueries()):
        yield from nodes_of(inside)
