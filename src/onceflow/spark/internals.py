"""Every use of what Spark and PySpark keep private, in one place, and a check that all of it is there.

Must not know: what the answers are used for. PySpark has no public name for a plan's inside, for the JVM behind a
session or for a plan's partitions; without them a source could not be checked nor a missing task be noticed. So a
start asks the Spark that runs for each of them (``require``), and one that has changed is refused before anything is
written.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import pyspark
from py4j.clientserver import ClientServerConnection, PythonServer
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow.errors import ConfigurationError, SetupError
from onceflow.masking import shown
from onceflow.processes import children_with, kill_tree
from onceflow.spark import callbacks
from onceflow.spark.versions import FORMERLY, NEWEST, TESTED

try:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
except ImportError as lacking:
    raise ConfigurationError(
        f"PySpark {pyspark.__version__} is refused: it lacks StatefulProcessor, which came with Spark 4",
        harmless="always: nothing was started",
        cause=f"onceflow is tested with {', '.join(TESTED)}",
        action=f"pip install pyspark=={NEWEST}",
    ) from lacking

_CATALYST = "org.apache.spark.sql.catalyst."
_EXECUTION = "org.apache.spark.sql.execution."

EXPRESSION = f"{_CATALYST}expressions.Expression"
ZONED = f"{_CATALYST}expressions.TimeZoneAwareExpression"
AGGREGATE_FUNCTION = f"{_CATALYST}expressions.aggregate.AggregateFunction"
"""Classes that are asked for by ``is_a``: any expression, one that has a time zone, a function of an aggregation."""
_CLOCKS = ("CurrentTimestamp", "CurrentDate", "CurrentTime", "LocalTimestamp", "Now")
_KINDS: dict[tuple[str, str], bool] = {}
"""What was asked of Java's classes, which stay as they are."""
_STARTED_FOR = "_PYSPARK_DRIVER_CONN_INFO_PATH"  # PySpark's variable: the file in which its Java answers
_LAST_LOOK_S = 2.0
_STDERR = 2
_INCUBATOR = b"WARNING: Using incubator modules"

JAVA: Mapping[str, tuple[str, ...]] = {
    _CATALYST + "plans.logical.LogicalPlan": (
        *("children", "expressions", "isStreaming", "output", "productArity", "subqueries"),
    ),
    _CATALYST + "expressions.Expression": (
        *("children", "dataType", "deterministic", "origin", "prettyName", "productArity", "sql"),
    ),
    _CATALYST + "expressions.TimeZoneAwareExpression": ("timeZoneId",),
    _CATALYST + "expressions.Cast": ("needsTimeZone",),
    _CATALYST + "expressions.CurrentBatchTimestamp": (),
    _CATALYST + "expressions.OuterReference": ("e",),
    _CATALYST + "expressions.SubqueryExpression": ("plan",),
    _CATALYST + "expressions.With": ("child", "defs"),
    _CATALYST + "expressions.CommonExpressionRef": ("id",),
    _CATALYST + "expressions.aggregate.AggregateFunction": (),
    _CATALYST + "trees.TreePattern": ("CURRENT_LIKE",),
    _CATALYST + "trees.Origin": ("pysparkErrorContext",),
    _CATALYST + "expressions.Alias": ("exprId", "child"),
    _CATALYST + "expressions.GetStructField": ("extractFieldName",),
    _CATALYST + "expressions.aggregate.AggregateExpression": ("isDistinct", "resultId"),
    _CATALYST + "expressions.NamedLambdaVariable": ("name",),
    _CATALYST + "optimizer.Optimizer": (),
    _CATALYST + "expressions.AttributeReference": ("exprId", "metadata", "name"),
    _CATALYST + "expressions.Literal": ("value",),
    _CATALYST + "expressions.PythonUDF": ("func", "name"),
    _CATALYST + "expressions.SparkPartitionID": (),
    _CATALYST + "expressions.aggregate.First": (),
    _CATALYST + "expressions.aggregate.Last": (),
    _CATALYST + "expressions.aggregate.CollectList": (),
    _CATALYST + "plans.logical.Deduplicate": ("keys",),
    _CATALYST + "plans.logical.DeduplicateWithinWatermark": ("keys",),
    _CATALYST + "plans.logical.TransformWithStateInPySpark": (
        "timeMode",
        "functionExpr",
        "leftAttributes",
        "groupingAttributesLen",
    ),
    _CATALYST + "plans.logical.FlatMapGroupsInPandasWithState": ("timeout", "groupingAttributes", "stateType"),
    _CATALYST + "plans.logical.Aggregate": ("groupingExpressions", "aggregateExpressions"),
    _CATALYST + "plans.logical.Window": ("windowExpressions",),
    _CATALYST + "plans.logical.Join": ("joinType", "condition"),
    _CATALYST + "plans.logical.Generate": ("generator", "generatorOutput"),
    _CATALYST + "plans.logical.BatchEvalPython": ("resultAttrs", "udfs"),
    _CATALYST + "plans.logical.ArrowEvalPython": ("resultAttrs", "udfs"),
    _CATALYST + "plans.logical.Expand": ("projections",),
    _CATALYST + "plans.logical.CTERelationDef": ("id",),
    _CATALYST + "plans.logical.CTERelationRef": ("cteId",),
    "org.apache.spark.api.python.SimplePythonFunction": ("command",),
    _CATALYST + "analysis.UnsupportedOperationChecker": (),
    _CATALYST + "plans.logical.Project": ("projectList",),
    _CATALYST + "plans.logical.Filter": ("condition",),
    _CATALYST + "plans.logical.LocalLimit": (),
    "org.apache.spark.sql.classic.Dataset": (),
    "org.apache.spark.sql.classic.SparkSession": ("cloneSession", "sessionState"),
    "org.apache.spark.sql.classic.ExpressionUtils": (),
    _CATALYST + "streaming.StreamingRelationV2": ("sourceName", "extraOptions"),
    _EXECUTION + "streaming.runtime.StreamingRelation": ("sourceName",),
    _EXECUTION + "datasources.LogicalRelation": ("relation",),
    _EXECUTION + "QueryExecution": ("analyzed", "toRdd", "executedPlan"),
    _EXECUTION + "streaming.runtime.StreamExecution": ("lastExecution",),
    _EXECUTION + "streaming.runtime.StreamingQueryWrapper": ("streamingQuery",),
    _EXECUTION + "datasources.v2.MicroBatchScanExec": ("end", "inputPartitions"),
    _EXECUTION + "exchange.ShuffleExchangeExec": ("outputPartitioning",),
    _EXECUTION + "streaming.operators.stateful.WatermarkSupport": ("eventTimeWatermarkForLateEvents",),
    "org.apache.spark.sql.connector.read.streaming.Offset": ("json",),
    "org.apache.spark.rdd.RDD": ("getNumPartitions",),
    "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper": (),
}
"""Java's side: each class that is told by its name, with the methods that are called without arguments."""


def require(session: SparkSession) -> None:
    """Ask the running Spark for everything that is used of its inside.

    Raises:
        ConfigurationError: Something is not there; it says what, and in which version.
    """
    missing = [name for name, there in _python_side(session) if not there]
    if not missing:
        missing = list(_missing_in_java(session))
    if missing:
        raise ConfigurationError(
            f"this Spark is not what onceflow knows: it has no {', '.join(missing)}",
            cause=f"PySpark is {pyspark.__version__}; without these names sources and tasks could not be checked",
            action=f"install a PySpark that this version of onceflow was tested with: {', '.join(TESTED)}",
            missing=missing,
        )


def _python_side(session: SparkSession) -> list[tuple[str, bool]]:
    return [
        ("SparkContext._gateway", getattr(SparkContext, "_gateway", None) is not None),
        ("SparkSession._jvm", getattr(session, "_jvm", None) is not None),
        ("SparkSession._jsparkSession", getattr(session, "_jsparkSession", None) is not None),
        ("py4j's CallbackServer._create_connection", hasattr(PythonServer, "_create_connection")),
        ("py4j's ClientServerConnection._call_proxy", hasattr(ClientServerConnection, "_call_proxy")),
        ("StreamingQueryManager._jsqm", getattr(session.streams, "_jsqm", None) is not None),
    ]


def _missing_in_java(session: SparkSession) -> Iterator[str]:
    jvm = java(session)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    nothing = gateway.new_array(jvm.java.lang.Class, 0)
    for name, methods in JAVA.items():
        try:
            found = jvm.java.lang.Class.forName(class_here(session, name), False, loader)
        except Exception:  # noqa: BLE001 - py4j wraps the ClassNotFoundException
            yield name
            continue
        for method in methods:
            try:
                found.getMethod(method, nothing)
            except Exception:  # noqa: BLE001 - py4j wraps the NoSuchMethodException
                yield f"{name}.{method}()"


def class_here(session: SparkSession, name: str) -> str:
    """What the running Spark calls a class of Java's that others call otherwise."""
    then = FORMERLY.get(name)
    if then is None:
        return name
    jvm = java(session)
    try:
        jvm.java.lang.Class.forName(name, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    except Exception:  # noqa: BLE001 - py4j wraps the ClassNotFoundException
        return then
    return name


def is_classic(session: object) -> bool:
    """Whether it is a session with a JVM of its own behind it, not Spark Connect."""
    return isinstance(session, SparkSession) and hasattr(session, "_jvm")


def java(session: SparkSession) -> Any:
    """The JVM behind a session, as py4j shows it."""
    jvm: Any = session._jvm  # noqa: SLF001
    return jvm


def jar_of(session: SparkSession, class_name: str) -> str:
    """The file name of the jar that a class of Java was loaded from; empty if that is not known."""
    jvm = java(session)
    try:
        found = jvm.java.lang.Class.forName(
            class_name, False, jvm.java.lang.Thread.currentThread().getContextClassLoader()
        )
        return str(found.getProtectionDomain().getCodeSource().getLocation().getPath()).rpartition("/")[2]
    except Exception:  # noqa: BLE001 - py4j wraps what Java raises
        return ""


def java_runs_already() -> bool:
    """Whether this process has started its Java."""
    return SparkContext._gateway is not None  # noqa: SLF001


def gateway() -> Any:
    """The way to this process's Java, which runs already, or was started for it by spark-submit."""
    if SparkContext._gateway is None:  # noqa: SLF001
        SparkContext._ensure_initialized()  # noqa: SLF001
    return SparkContext._gateway  # noqa: SLF001


def hadoop_settings() -> dict[str, str]:
    """What Spark gives to Hadoop's clients: its settings that begin with ``spark.hadoop.``, without that."""
    gateway()
    context = SparkContext._active_spark_context  # noqa: SLF001
    told = SparkConf() if context is None else context.getConf()
    mine = "spark.hadoop."
    return {name.removeprefix(mine): value for name, value in told.getAll() if name.startswith(mine)}


def is_there(session: Any, uri: str) -> str:
    """Why Hadoop's client does not find a file there, with the session's settings; "" where it does."""
    jvm = java(session)
    try:
        path = jvm.org.apache.hadoop.fs.Path(uri)
        settings = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        return "" if path.getFileSystem(settings).exists(path) else "it finds nothing there"
    except Py4JJavaError as error:
        return str(error.java_exception.toString()).partition("\n")[0]


def start_java(settings: Mapping[str, str]) -> None:
    """Start PySpark's Java as PySpark does, but out of the way of signals that are meant for Python.

    Ctrl-C goes to a process group, and a service's end to all of its processes at once. Python ends the job by it, for
    which Java must still be there. Java ends by itself when Python is gone, however that ended: its input does.

    Args:
        settings: The session's settings, of which some count only at Java's start. Those with a secret are left out,
            since all that Java is started with stands on its command line, which each user of the machine reads: they
            become properties of the running Java, as the others do by its own doing.

    Raises:
        SetupError: Java ended before PySpark could speak to it.
    """
    withheld = {name: value for name, value in settings.items() if shown(name, value) != value}
    conf = SparkConf(loadDefaults=False)
    conf.setAll([(name, value) for name, value in settings.items() if name not in withheld])
    said, says = os.pipe()
    threading.Thread(target=_hand_on, args=(said,), name="onceflow-java-says", daemon=True).start()
    how: dict[str, Any] = {"start_new_session": True, "stderr": says}
    try:
        gateway: Any = launch_gateway(conf, how)  # type: ignore[no-untyped-call]
    except BaseException as error:
        # Java, half started, would go on until it finds nobody there, and tell so at length.
        for pid in children_with(_STARTED_FOR, how.get("env", {}).get(_STARTED_FOR, "")):
            kill_tree(pid)
        if isinstance(error, PySparkRuntimeError) and "JAVA_GATEWAY_EXITED" in str(error):
            raise SetupError(
                "Spark's Java ended before anything could be asked of it",
                harmless="always: nothing was started",
                cause="its own words stand above. A Java of which modules were left out has no jdk.incubator.vector, "
                "which Spark asks for; else an option of spark.driver.extraJavaOptions or JAVA_TOOL_OPTIONS is refused",
                action="use a complete Java runtime, or take the option out",
            ) from error
        raise
    finally:
        os.close(says)
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
    for name, value in withheld.items():
        gateway.jvm.java.lang.System.setProperty(name, value)
    misc = gateway.jvm.sun.misc
    misc.Signal.handle(misc.Signal("TERM"), misc.SignalHandler.SIG_IGN)


def _hand_on(said: int) -> None:
    """Hand on what Java writes to standard error, until it has ended; but for the one line that no job is meant by.

    Spark's launcher asks Java for a module that MLlib alone can use, and Java warns of it before anybody can tell it
    not to.
    """
    with open(said, "rb") as lines:
        for line in lines:
            if not line.startswith(_INCUBATOR):
                with contextlib.suppress(OSError):  # a full disk under the log
                    os.write(_STDERR, line)


def java_ended(error: BaseException) -> int | None:
    """With what PySpark's Java ended (negative: by a signal), if that is what an error comes of; else None."""
    broken = isinstance(error, ConnectionError) or type(error) in (Py4JError, Py4JNetworkError)
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    if not broken or process is None:
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):  # its connections may break before it is gone
        return int(process.wait(_LAST_LOOK_S))
    return None


def quiet(session: SparkSession) -> None:
    """Let Spark's log tell errors only, and that an epoch waits for executors, which nothing else tells."""
    session.sparkContext.setLogLevel("ERROR")
    log4j = java(session).org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel("org.apache.spark.scheduler.TaskSchedulerImpl", log4j.Level.WARN)


def running_session() -> SparkSession | None:
    """This process's session, whichever thread asks; None where there is none or it was stopped.

    Java keeps the active session for each of its threads. PySpark's ``getActiveSession`` is None in every other thread
    of Python, and in the same one after its connection to Java was replaced: who believed that would take the user's
    session for one of his own, and stop it.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    made = SparkSession._instantiatedSession  # noqa: SLF001
    return None if made is None or made._sc._jsc is None else made  # noqa: SLF001


def application_ended() -> bool:
    """Whether Spark has ended this process's application by itself, as it does when its cluster has removed it."""
    context: Any = SparkContext._active_spark_context  # noqa: SLF001
    try:
        return context is not None and bool(context._jsc.sc().isStopped())  # noqa: SLF001
    except Exception:  # noqa: BLE001 - Java may be gone, which is another question
        return False


def end_java(within_s: float) -> tuple[str, int]:
    """End PySpark's Java and wait for it: its class path, and its exit code."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    class_path = str(gateway.jvm.java.lang.System.getProperty("java.class.path"))
    with contextlib.suppress(Exception):  # it does not answer any more
        gateway.jvm.java.lang.System.exit(0)
    return class_path, int(gateway.proc.wait(within_s))


def analyzed_plan(frame: DataFrame) -> Any:
    """A DataFrame's plan as the user wrote it, with every name resolved."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


class Optimizer:
    """Spark's optimizer, which takes out of a plan what nobody asks for, as Spark runs it.

    Args:
        session: The SparkSession whose settings count.
        settings: Others, for what is asked here alone.
    """

    def __init__(self, session: SparkSession, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        own: Any = session._jsparkSession  # noqa: SLF001
        self._asks: Any = own.cloneSession() if settings else own
        for name, value in settings.items():
            self._asks.conf().set(name, value)
        self._active = java(session).org.apache.spark.sql.classic.SparkSession

    def optimized(self, plan: Any) -> Any:
        """An analyzed plan as Spark would run it."""
        before = self._active.getActiveSession()
        self._active.setActiveSession(self._asks)
        try:
            return self._asks.sessionState().optimizer().execute(plan)
        finally:
            if before.isDefined():
                self._active.setActiveSession(before.get())
            else:
                self._active.clearActiveSession()


def call_site(expression: Any) -> str:
    """The line of the user's program that made an expression, as ``job.py:12``; "" where PySpark kept none."""
    kept = expression.origin().pysparkErrorContext()
    if not kept.isDefined():
        return ""
    path, _, number = str(kept.get().productElement(1)).partition("\n")[0].rpartition(":")
    return f"{PurePath(path).name}:{number}" if path else ""


def require_streaming(frame: DataFrame, mode: str) -> None:
    """Let Spark say whether it can run a plan as a stream, as it does when a query is started.

    Raises:
        AnalysisException: It cannot.
    """
    jvm = java(frame.sparkSession)
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(analyzed_plan(frame), getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode)())


def partition_count(frame: DataFrame) -> int:
    """How many partitions a plan has: each is a task of a run, where nothing puts them into groups."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())  # noqa: SLF001


def query_of(rows: DataFrame) -> str:
    """The id of the query that runs an epoch in this thread."""
    return str(rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))


def executed_plan(session: Any, query_id: str) -> Any:
    """Spark's physical plan of the epoch in work.

    Args:
        session: The SparkSession that the query was started in.
        query_id: The query's id.
    """
    query = session._jsparkSession.streams().get(query_id).streamingQuery()  # noqa: SLF001
    return query.lastExecution().executedPlan()


def can_repartition_state(session: Any) -> bool:
    """Whether this Spark can rewrite state in other partitions."""
    return hasattr(session, "_streamingCheckpointManager")


def repartition_state(session: Any, checkpoint: str, partitions: int) -> None:
    """Let Spark rewrite the state of a checkpoint in other partitions; it makes an epoch of it."""
    session._streamingCheckpointManager.repartition(checkpoint, partitions)  # noqa: SLF001


def scala_context(query: StreamingQuery) -> Any:
    """The SparkContext that runs a query: it still cancels jobs while PySpark's own waits for an answer."""
    return query._jsq.sparkSession().sparkContext()  # noqa: SLF001


def add_listener(session: SparkSession, listener: Any) -> Callable[[], object]:
    """Let Spark call a Python object (``PythonStreamingQueryListener``) for every event; what takes it off again."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    callbacks.guard(gateway._callback_server)  # noqa: SLF001
    wrapped = java(session).org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(listener)
    manager: Any = session.streams._jsqm  # noqa: SLF001
    manager.addListener(wrapped)
    return lambda: manager.removeListener(wrapped)


def frame_of(session: SparkSession, plan: Any) -> DataFrame:
    """A part of an analyzed plan as a DataFrame of its own, its columns those that they are in the whole."""
    made = java(session).org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)  # noqa: SLF001
    return DataFrame(made, session)


def empty(frame: DataFrame) -> DataFrame:
    """A frame without rows, from which Spark's optimizer takes all that is read for it.

    A filter that lets nothing pass is kept in a stream since Spark 4.0, with all that is below it.
    """
    sql = java(frame.sparkSession).org.apache.spark.sql
    nothing = sql.catalyst.expressions.Literal(0, sql.types.DataTypes.IntegerType)
    return frame_of(frame.sparkSession, sql.catalyst.plans.logical.LocalLimit(nothing, analyzed_plan(frame)))


def column_of(expression: Any) -> Column:
    """An expression of an analyzed plan as a column."""
    session = SparkSession.active()
    return Column(java(session).org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def with_children(expression: Any, children: list[Any]) -> Any:
    """An expression over other children."""
    jvm = java(SparkSession.active())
    return expression.withNewChildren(jvm.org.apache.spark.api.python.PythonUtils.toSeq(children))


def as_leaf(plan: Any) -> Any:
    """A part of a plan above one source as that source: what it gives, told by the same columns and ids.

    Its rows hang on its task, as those of a ``KafkaSource`` do: of a common table expression above it that is referred
    to twice Spark then makes one plan.
    """
    sql = java(SparkSession.active()).org.apache.spark.sql
    expressions = sql.catalyst.expressions
    leaf = plan
    while leaf.children().size():
        leaf = leaf.children().apply(0)
    read = leaf.output()
    made = _remade(leaf, lambda value: plan.output() if value == read else value)
    nothing = expressions.Literal(0, sql.types.DataTypes.IntegerType)
    barrier = expressions.GreaterThanOrEqual(expressions.SparkPartitionID(), nothing)
    return sql.catalyst.plans.logical.Filter(barrier, made)


def without_condition(join: Any) -> Any:
    """A join of all rows with all."""
    nothing = java(SparkSession.active()).scala.Option.empty()
    condition = join.condition()
    return _remade(join, lambda value: nothing if value == condition else value)


def without_clock(plan: Any) -> Any:
    """A node in whose own expressions a mark of Spark's, which nothing folds, stands where the clock is asked for."""
    asks = java(SparkSession.active()).org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if not any(expression.containsPattern(asks) for expression in elements(plan.expressions())):
        return plan
    return _remade(plan, lambda value: _without_clock(value, asks))


def _without_clock(value: Any, asks: Any) -> Any:
    jvm = java(SparkSession.active())
    if isinstance(value, JavaObject) and is_a(value, "scala.collection.Seq"):
        made = [_without_clock(each, asks) for each in elements(value)]
        return jvm.org.apache.spark.api.python.PythonUtils.toSeq(made)
    if isinstance(value, JavaObject) and is_a(value, "scala.Some"):
        return jvm.scala.Some(_without_clock(value.get(), asks))
    if not isinstance(value, JavaObject) or not is_a(value, EXPRESSION) or not value.containsPattern(asks):
        return value
    children = list(elements(value.children()))
    if any(child.containsPattern(asks) for child in children) or not _is_clock(value):
        return with_children(value, [_without_clock(child, asks) for child in children])
    zone = value.timeZoneId() if is_a(value, ZONED) else jvm.scala.Some("UTC")  # a moment has none
    return jvm.org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp(0, value.dataType(), zone)


def _is_clock(expression: Any) -> bool:
    return str(expression.getClass().getSimpleName()) in _CLOCKS


def _remade(node: Any, change: Callable[[Any], Any]) -> Any:
    """A node made of other arguments."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    made = gateway.new_array(gateway.jvm.java.lang.Object, node.productArity())
    for i in range(node.productArity()):
        made[i] = change(node.productElement(i))
    return node.makeCopy(made)


def is_a(value: Any, name: str) -> bool:
    """Whether an object of Java's is of a class."""
    own = value.getClass()
    key = str(own.getName()), name
    if key not in _KINDS:
        jvm = java(SparkSession.active())
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        _KINDS[key] = bool(jvm.java.lang.Class.forName(name, False, loader).isAssignableFrom(own))
    return _KINDS[key]


def arguments_of(expression: Any) -> list[Any]:
    """What an expression is made of beside its children, as far as these are values of Python's, or options."""
    found = []
    for i in range(expression.productArity()):
        value = expression.productElement(i)
        if isinstance(value, JavaObject) and is_a(value, "scala.collection.Map"):
            value = {str(pair._1()): str(pair._2()) for pair in elements(value.toSeq())}  # noqa: SLF001
        if not isinstance(value, JavaObject):
            found.append(value)
    return found


def state_class(node: Any) -> StatefulProcessor:
    """A copy of the object of a plan's ``transformWithState``, as PySpark has pickled it for the tasks."""
    kind = java(SparkSession.active()).scala.reflect.ClassTag.Byte()
    command = bytes(node.functionExpr().func().command().toArray(kind))
    function, _ = CloudPickleSerializer().loads(command)  # type: ignore[no-untyped-call]
    found: StatefulProcessor = function.__self__._stateful_processor  # noqa: SLF001
    return found


def with_numbers(expression: Any, numbers: Sequence[int]) -> str | None:
    """An expression in SQL, a number in the place of each child that is no literal; None where it takes none."""
    sql = java(SparkSession.active()).org.apache.spark.sql
    children = [
        child
        if str(child.getClass().getSimpleName()) == "Literal"
        else sql.catalyst.expressions.Literal(number, sql.types.DataTypes.IntegerType)
        for number, child in zip(numbers, elements(expression.children()), strict=True)
    ]
    try:
        return str(with_children(expression, children).sql())
    except Py4JJavaError:
        return None


def elements(seq: Any) -> Iterator[Any]:
    """The elements of a Scala Seq."""
    for i in range(seq.size()):
        yield seq.apply(i)
