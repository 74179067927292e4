"""Every use of what Spark and PySpark keep private, in one place, and a check that all of it is there.

Must not know: what the answers are used for. PySpark has no public name for a plan's inside, for the JVM behind a
session or for an epoch's tasks; without them a source could not be checked nor a missing task be noticed. So a start
asks the Spark that runs for each of them (``require``), and one that has changed is refused before anything is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow.errors import ConfigurationError

_CATALYST = "org.apache.spark.sql.catalyst."
_EXECUTION = "org.apache.spark.sql.execution."

JAVA: Mapping[str, tuple[str, ...]] = {
    _CATALYST + "plans.logical.LogicalPlan": ("children", "expressions", "isStreaming", "subqueries"),
    _CATALYST + "expressions.Expression": ("children", "deterministic", "prettyName", "sql"),
    _CATALYST + "expressions.Alias": ("exprId", "child"),
    _CATALYST + "expressions.AttributeReference": ("exprId",),
    _CATALYST + "expressions.PythonUDF": ("name",),
    _CATALYST + "expressions.SparkPartitionID": (),
    _CATALYST + "expressions.aggregate.First": (),
    _CATALYST + "expressions.aggregate.Last": (),
    _CATALYST + "expressions.aggregate.CollectList": (),
    _CATALYST + "plans.logical.Project": ("projectList",),
    _CATALYST + "streaming.StreamingRelationV2": ("sourceName", "extraOptions"),
    _EXECUTION + "streaming.runtime.StreamingRelation": ("sourceName",),
    _EXECUTION + "datasources.LogicalRelation": ("relation",),
    _EXECUTION + "QueryExecution": ("analyzed", "toRdd", "executedPlan"),
    _EXECUTION + "streaming.runtime.StreamExecution": ("lastExecution",),
    _EXECUTION + "streaming.runtime.StreamingQueryWrapper": ("streamingQuery",),
    _EXECUTION + "datasources.v2.MicroBatchScanExec": ("inputPartitions",),
    _EXECUTION + "exchange.ShuffleExchangeExec": ("outputPartitioning",),
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
            action="install a PySpark that this version of onceflow was tested with (4.2)",
            missing=missing,
        )


def _python_side(session: SparkSession) -> list[tuple[str, bool]]:
    return [
        ("SparkContext._gateway", getattr(SparkContext, "_gateway", None) is not None),
        ("SparkSession._jvm", getattr(session, "_jvm", None) is not None),
        ("SparkSession._jsparkSession", getattr(session, "_jsparkSession", None) is not None),
        ("StreamingQueryManager._jsqm", getattr(session.streams, "_jsqm", None) is not None),
    ]


def _missing_in_java(session: SparkSession) -> Iterator[str]:
    jvm = java(session)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    nothing = gateway.new_array(jvm.java.lang.Class, 0)
    for name, methods in JAVA.items():
        try:
            found = jvm.java.lang.Class.forName(name, False, loader)
        except Exception:  # noqa: BLE001 - py4j wraps the ClassNotFoundException
            yield name
            continue
        for method in methods:
            try:
                found.getMethod(method, nothing)
            except Exception:  # noqa: BLE001 - py4j wraps the NoSuchMethodException
                yield f"{name}.{method}()"


def is_classic(session: object) -> bool:
    """Whether it is a session with a JVM of its own behind it, not Spark Connect."""
    return isinstance(session, SparkSession) and hasattr(session, "_jvm")


def java(session: SparkSession) -> Any:
    """The JVM behind a session, as py4j shows it."""
    jvm: Any = session._jvm  # noqa: SLF001
    return jvm


def java_runs_already() -> bool:
    """Whether this process has started its Java."""
    return SparkContext._gateway is not None  # noqa: SLF001


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


def task_count(frame: DataFrame) -> int:
    """How many tasks a run of the plan has."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())  # noqa: SLF001


def executed_plan(session: Any, query_id: str) -> Any:
    """Spark's physical plan of the epoch in work.

    Args:
        session: The SparkSession that the query was started in.
        query_id: The query's id.
    """
    query = session._jsparkSession.streams().get(query_id).streamingQuery()  # noqa: SLF001
    return query.lastExecution().executedPlan()


def scala_context(query: StreamingQuery) -> Any:
    """The SparkContext that runs a query: it still cancels jobs while PySpark's own waits for an answer."""
    return query._jsq.sparkSession().sparkContext()  # noqa: SLF001


def add_listener(session: SparkSession, listener: Any) -> Callable[[], object]:
    """Let Spark call a Python object (``PythonStreamingQueryListener``) for every event; what takes it off again."""
    ensure_callback_server_started(session.sparkContext._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001
    wrapped = java(session).org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(listener)
    manager: Any = session.streams._jsqm  # noqa: SLF001
    manager.addListener(wrapped)
    return lambda: manager.removeListener(wrapped)


def elements(seq: Any) -> Iterator[Any]:
    """The elements of a Scala Seq."""
    for i in range(seq.size()):
        yield seq.apply(i)
