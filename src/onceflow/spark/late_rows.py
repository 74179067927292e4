"""Late rows: what the watermark makes an operator drop, as a stream that an output of the job can be.

Must not know: sinks, the journal, what an epoch is decided by. Spark drops such rows inside of the operator, and has no
output for them. They are found beside it: what the operator gets is read a second time, with the time up to which each
row is awaited, and once the epoch's plan is there, Spark's own number tells which of them the operator drops.

The stream has no watermark of its own: Spark would take the least of both, and a filter of the one could hold back the
other. Until a job gives it the watermark, it refuses to give a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.errors import ConfigurationError
from onceflow.options.arguments import checked
from onceflow.spark.internals import analyzed_plan, column_of, elements, frame_of, with_children
from onceflow.spark.marks import DELAY, MARK, marks_of
from onceflow.spark.one_read import Branch, is_plain
from onceflow.spark.plan import keeps_state, kind_of, nodes_of
from onceflow.spark.trees import REFERENCE

_UNTIL = "_onceflow_late_until"
_OPERATORS = {
    "Aggregate": "an aggregation by windows or event times",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
}
_DROP_LATE = frozenset({
    "StateStoreSaveExec", "SessionWindowStateStoreRestoreExec", "StreamingDeduplicateExec",
    "StreamingDeduplicateWithinWatermarkExec",
})  # fmt: skip
"""Spark's operators that drop rows of those kinds."""
_MERGED_BEFORE = "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition"
_EARLIEST_MS = -(2**63) // 1000 + 1


@checked
def late_rows(frame: DataFrame) -> DataFrame:
    """The rows that come behind the watermark, which the operator of a stream drops: an output of its own in a job.

    Its columns are those that the operator gets, above all of windows ``window`` or ``session_window``, a struct of
    ``start`` and ``end``. Rows of sliding windows come once for each window that they are too late for. The stream may
    be selected from and filtered, and no more; only a job gives its rows, which also has an output that comes of the
    operator.

    Of an aggregation these are more than Spark counts (``numRowsDroppedByWatermark``), which gathers rows before it
    looks at their time.

    Args:
        frame: A stream in which one operator keeps state: an aggregation by windows or by an event time,
            ``dropDuplicates`` by columns of which one is the event time, or ``dropDuplicatesWithinWatermark``, behind
            ``withWatermark``.

    Raises:
        ConfigurationError: Late rows of this stream cannot be had, and why.
    """
    plan = analyzed_plan(frame)
    operators = [node for node in nodes_of(plan) if node.isStreaming() and keeps_state(node)]
    if len(operators) != 1 or kind_of(operators[0]) not in _OPERATORS:
        raise _not_to_be_had(
            f"{' and '.join(str(node.nodeName()) for node in operators) or 'nothing'} in it keeps state",
            "one operator that keeps state, of " + ", ".join(_OPERATORS.values()) + ". What is put together of several "
            "is late for the first of them: give late_rows what comes out of that one",
        )
    (operator,) = operators
    (below,) = elements(operator.children())
    if any(kind_of(node) == REFERENCE for node in nodes_of(below)):
        raise _not_to_be_had("it reads a common table expression (WITH)", "a view, or a DataFrame, in its place")
    session = frame.sparkSession
    if kind_of(operator) == "Aggregate" and session.conf.get(_MERGED_BEFORE, "false") == "true":
        raise _not_to_be_had(f"{_MERGED_BEFORE} is true: sessions are put together before they are looked at", "false")
    gets = frame_of(session, _without_marks(below))
    found = _event_time(operator, below)
    time = column_of(found)
    if kind_of(found.dataType()) == "StructType":
        time = time.getField("end")
    rows = gets.select("*", F.unix_micros(time).alias(_UNTIL))
    outside = F.raise_error(F.lit("late rows are known in a job alone: onceflow.late_rows is an output there"))
    return rows.where(outside.isNull()).drop(_UNTIL)


def _event_time(operator: Any, below: Any) -> Any:
    """The column by which Spark tells what the operator drops.

    Raises:
        ConfigurationError: There is none, or Spark goes by something else as well.
    """
    match kind_of(operator):
        case "Aggregate":
            columns, what = operator.groupingExpressions(), "it groups by"
        case "Deduplicate":  # another time Spark takes out below it where nobody asks for it, and then drops nothing
            columns, what = operator.keys(), "it knows rows by"
        case _:
            columns, what = below.output(), "it gets"
    known = [each for each in elements(columns) if kind_of(each) == "AttributeReference"]
    times = [each for each in known if each.metadata().contains(DELAY)]
    if len(times) != 1:
        raise _not_to_be_had(
            f"{len(times) or 'no'} columns that {what} have a watermark",
            "withWatermark before it, and one event time or one window of it among those columns",
        )
    if None in marks_of(below, None):
        raise _not_to_be_had("a stream that it reads has no watermark", "withWatermark on each stream")
    kind = str(times[0].dataType().sql())
    if "TIMESTAMP_NTZ" in kind:
        raise _not_to_be_had(f"the event time is {kind}", "a TIMESTAMP (with the session's time zone)")
    return times[0]


def _without_marks(node: Any) -> Any:
    """A plan without its watermarks."""
    children = list(elements(node.children()))
    if kind_of(node) == MARK:
        return _without_marks(children[0])
    found = [_without_marks(child) for child in children]
    return node if all(a is b for a, b in zip(children, found, strict=True)) else with_children(node, found)


def _not_to_be_had(why: str, wanted: str) -> ConfigurationError:
    return ConfigurationError(
        f"the late rows of this stream cannot be had: {why}",
        harmless="always: nothing was started or changed",
        cause="late_rows(...) finds them where Spark drops them, beside one operator that keeps state",
        action=f"give it a stream with {wanted}; or leave late_rows away: late rows are counted all the same",
    )


def drops(frame: DataFrame, late: DataFrame) -> bool:
    """Whether a stream has the operator that drops these late rows: one that gets the same rows.

    Args:
        frame: A stream; what is held back of its windows does not count.
        late: What comes of ``late_rows``.
    """
    refusal = next(node for node in nodes_of(analyzed_plan(late)) if _is_refusal(node))
    gets = refusal.children().apply(0).children().apply(0)
    for node in nodes_of(analyzed_plan(frame)):
        if kind_of(node) in _OPERATORS and node.isStreaming() and keeps_state(node):
            (below,) = elements(node.children())
            held = list(elements(below.children())) if kind_of(below) == "Filter" else []
            if any(_without_marks(each).sameResult(gets) for each in (below, *held)):
                return True
    return False


def is_late(frame: DataFrame) -> bool:
    """Whether a stream comes of ``late_rows``."""
    return any(map(_is_refusal, nodes_of(analyzed_plan(frame))))


def _is_refusal(node: Any) -> bool:
    return kind_of(node) == "Filter" and [c.name() for c in elements(node.output())][-1:] == [_UNTIL]


def with_time(frame: DataFrame, name: str) -> DataFrame:
    """What comes of ``late_rows``, late or not, with the time up to which each row is awaited.

    Args:
        frame: It, selected from and filtered.
        name: Of the column with that time, a bigint, in microseconds; null where a filter leaves the row out.

    Raises:
        ConfigurationError: More was done with it.
    """
    node, steps = analyzed_plan(frame), []
    while not _is_refusal(node):
        if kind_of(node) == "SubqueryAlias":  # a name
            node = node.children().apply(0)
            continue
        if not is_plain(node):
            raise ConfigurationError(
                f"late rows went through {node.nodeName()} before they reach their sink",
                harmless="always: nothing was started or changed",
                cause="what late_rows(...) gives may be selected from and filtered, by Spark's own functions that "
                "give the same for the same row: which rows are late is known behind that",
                action="select and filter only; a second job can do more with what the first has written",
            )
        steps.append(node)
        node = node.children().apply(0)
    (below,) = elements(node.children())
    rows = frame_of(frame.sparkSession, below)
    until = column_of(list(elements(below.output()))[-1])
    branch = Branch(0, rows)
    for step in reversed(steps):
        rows = branch.passed_through(step, rows)
    if branch.condition is not None:  # as no filter: what it leaves out must not be asked of the source
        until = F.when(branch.condition, until)
    return rows.select(*branch.columns(steps[0]), until.alias(name))


def watermark_ms(plan: Any) -> int | None:
    """What Spark goes by in an epoch: rows up to this time are late, in milliseconds; None where nothing can be late.

    Spark takes the watermark of the epoch before, also in an epoch that runs again. Where one watermark is that of
    several operators, those further on have an earlier one.

    Args:
        plan: The epoch's physical plan.

    Raises:
        LookupError: No operator of the plan drops rows.
    """
    found = [each.eventTimeWatermarkForLateEvents() for each in _dropping(plan)]
    if not found:
        raise LookupError("no operator of the plan drops late rows")
    marks = [int(each.get()) for each in found if each.isDefined()]
    newest = max(marks, default=_EARLIEST_MS)
    return newest if newest > _EARLIEST_MS else None


def _dropping(node: Any) -> Iterator[Any]:
    if kind_of(node) in _DROP_LATE:
        yield node
    for child in elements(node.children()):
        yield from _dropping(child)


def late_alone(rows: DataFrame, late: Mapping[str, str], others: Iterable[str], until_ms: int | None) -> DataFrame:
    """An epoch's rows without those of ``late_rows`` that are not late.

    Args:
        rows: Those of all outputs: flat, with columns of each, null where a row is not for it.
        late: By the name that ``with_time`` was given: the column that is null where a row is not for that output.
        others: The columns that are null where a row is not for another output.
        until_ms: What ``watermark_ms`` has told.
    """
    for time, told in late.items():
        is_late = F.lit(False) if until_ms is None else F.col(time) <= until_ms * 1000
        rows = rows.withColumn(told, F.when(is_late, F.col(told)))
    some = reduce(or_, (F.col(told).isNotNull() for told in (*late.values(), *others)))
    return rows.where(some).drop(*late)
