"""What stands in each column of a plan's state, by its meaning: the expression down to the source's columns.

Must not know: sinks, the journal, what an edit may change. Spark keeps state by position and compares types alone.
Which columns it keeps depends on all that stands above, since its optimizer takes out what nobody asks for; and which
rows, since it moves conditions from above a state below it. So columns and conditions are asked of the optimized plan,
and what each column stands for of the plan as the user wrote it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyspark
from pyspark.sql import DataFrame

from onceflow.spark.internals import elements
from onceflow.spark.moved import Found, operators_of
from onceflow.spark.plan import is_stateful, kind_of
from onceflow.spark.trees import INNER, PlanNode
from onceflow.spark.variables import variables_of
from onceflow.spark.words import AGGREGATE, attributes, conjuncts
from onceflow.twophase.layout import Kept

VOCABULARY = f"4 of Spark {pyspark.__version__}"
"""How what is kept is told: our form, and the Spark whose words they are. Those of two cannot be compared."""
_DEEPEST = 20_000
_EQUAL = ("EqualTo", "EqualNullSafe")
_WITH_KEYS, _EXPIRES = ("Deduplicate", "DeduplicateWithinWatermark"), "DeduplicateWithinWatermark"
_OF_PYTHON = ("FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark")
_EVENT_TIME = "spark.watermarkDelayMs"


def kept_of(written: DataFrame, outputs: tuple[str, ...], mode: str) -> list[Kept]:
    """What each state operator keeps, in the order of the plan.

    Args:
        written: An output as the query has it, with all that its sinks take of it and nothing else.
        outputs: Names of the sinks that get it, in order.
        mode: Spark's output mode.
    """
    if not is_stateful(written):
        return []
    with room_for_depth():
        return [_Operator(found).kept(outputs, mode) for found in operators_of(written)]


@contextmanager
def room_for_depth() -> Iterator[None]:
    """Plans and expressions are as deep as the program has steps, and each takes several calls."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class _Operator:
    """A state operator in words."""

    def __init__(self, found: Found) -> None:
        self._found, self._words, self._written, self._runs = found, found.words, found.asked, found.runs

    def kept(self, outputs: tuple[str, ...], mode: str) -> Kept:
        """What it keeps.

        Args:
            outputs: Names of the sinks that get what it gives, in order.
            mode: Spark's output mode.
        """
        operator, columns, names = self._said()
        if self._found.moved:
            operator += f", of rows with {' and '.join(self._found.moved)}"
        told = None if columns is None else tuple(columns)
        lacks = tuple(condition for condition in self._found.narrowed if condition not in self._never_null())
        return Kept(outputs, f"{operator}, output mode {mode}", told, tuple(names), lacks, tuple(self._given()))

    def _said(self) -> tuple[str, list[str] | None, list[str]]:
        """The operator, what its columns mean, and what Spark's files call them where that says which they are."""
        match self._written.family:
            case "Join":
                return self._join()
            case "Aggregate":
                keys = self._keys()
                names = [key.name() for key in keys] if self._written.kind == "Distinct" else []
                return "Aggregate", [*map(self._typed, keys), *self._functions()], names
            case "FlatMapGroupsInPandasWithState":
                return self._function()
            case "TransformWithStateInPySpark":
                return self._class()
            case kind if kind in _WITH_KEYS:
                times = self._event_times() if kind == _EXPIRES else []
                by = f", by event time {', '.join(times)}" if times else ""
                return kind + by, [self._typed(key) for key in elements(self._runs.java.keys())], []
            case kind:
                return kind, [self._typed(each) for each in elements(self._written.java.expressions())], []

    def _join(self) -> tuple[str, list[str], list[str]]:
        kind = self._runs.java.joinType().sql()
        both = [column for side in self._runs.children for column in elements(side.java.output())]
        told = f"{kind} join on {' and '.join(dict.fromkeys(self._conditions(kind)))}"
        return told, [self._typed(column) for column in both], [column.name() for column in both]

    def _conditions(self, kind: str) -> list[str]:
        """What a join's state hangs on.

        Of an inner join that is what must be equal in both sides, its key, in the order in which Spark compares it, by
        place and type alone: what is asked above comes before what is asked in the condition. And it is what bounds
        their times, which says when a row is forgotten. What one side must fulfil is asked below. Any other condition
        of both sides is asked when a row meets another, as a filter above would ask it.
        """
        if kind not in INNER:
            return [self._at_top(part) for part in self._parts(self._written.java.condition())]
        times = set(self._time_columns())
        bounds = [
            part
            for part in self._parts(self._runs.java.condition())
            if _is_of_both(part, self._runs.children) and times & set(_ids(part))
        ]
        return [*map(self._at_top, self._equal()), *sorted(map(self._at_top, bounds))]

    def _equal(self) -> list[Any]:
        """What an inner join asks to be equal in both of its sides, in its condition or above it."""
        if self._runs.kind != "Join" or self._runs.java.joinType().sql() not in INNER:
            return []
        return [part for part in self._parts(self._runs.java.condition()) if _is_key(part, self._runs.children)]

    def _never_null(self) -> set[str]:
        """Conditions that no row fulfils less for: a row without a key meets none."""
        sides = [side for part in self._equal() for side in elements(part.children())]
        return {f"({self._at_top(side)} IS NOT NULL)" for side in sides}

    def _parts(self, condition: Any) -> list[Any]:
        return [part for whole in elements(condition.toList()) for part in conjuncts(whole)]

    def _time_columns(self) -> list[int]:
        return [column.exprId().id() for column in self._timed()]

    def _event_times(self) -> list[str]:
        return [self._at_top(column) for column in self._timed()]

    def _timed(self) -> list[Any]:
        """The columns below it that a watermark goes by."""
        below = [column for child in self._written.children for column in elements(child.java.output())]
        return [column for column in below if column.metadata().contains(_EVENT_TIME)]

    def _function(self) -> tuple[str, list[str], list[str]]:
        java = self._written.java
        by = self._each(elements(java.groupingAttributes()))
        told = f"{self._written.kind}, timeout {java.timeout()}, by {by}"
        fields = list(java.stateType().fields())
        return told, [f"{each.name()}: {each.dataType().sql()}" for each in fields], [each.name() for each in fields]

    def _class(self) -> tuple[str, list[str] | None, list[str]]:
        java = self._written.java
        keys = list(elements(java.leftAttributes()))[: java.groupingAttributesLen()]
        told = f"{self._written.kind}, time mode {java.timeMode()}, by {self._each(keys)}"
        variables = variables_of(java)
        return told, None if variables is None else list(variables.values()), list(variables or ())

    def _given(self) -> Iterator[tuple[str, str]]:
        """What a function of the user's is given of each row, by its name; nothing of what Spark keeps by itself."""
        if self._written.family in _OF_PYTHON:
            for column in elements(self._written.children[0].java.output()):
                yield str(column.name()), self._typed(column)

    def _keys(self) -> list[Any]:
        """The keys of an aggregation, as they were asked for where the optimizer has left their number alone."""
        keys = list(elements(self._runs.java.groupingExpressions()))
        asked = self._written
        written = list(elements(asked.java.groupingExpressions())) if asked.kind == "Aggregate" else []
        return written if len(written) == len(keys) else keys

    def _functions(self) -> list[str]:
        """The functions of an aggregation that are left when what nobody asks for is taken out, in Spark's order."""
        written: dict[int, Any] = {}
        if self._written.kind == "Aggregate":
            written = {each.resultId().id(): each for each in _functions_of(self._written)}
        left = (written.get(each.resultId().id(), each) for each in _functions_of(self._runs))
        return list(dict.fromkeys(map(self._typed, left)))

    def _each(self, expressions: Iterable[Any]) -> str:
        return ", ".join(self._at_top(each) for each in expressions)

    def _typed(self, expression: Any) -> str:
        return f"{self._at_top(expression)}: {expression.dataType().sql()}"

    def _at_top(self, expression: Any) -> str:
        """An expression over what the operator gets: as it was asked for, where the optimizer did not make it."""
        return self._words.of(expression, (*self._written.children, *self._runs.children))


def _is_of_both(condition: Any, sides: list[PlanNode]) -> bool:
    """Whether a join's condition asks for columns of both sides."""
    columns = set(_ids(condition))
    return all(columns & set(side.columns) for side in sides)


def _is_key(condition: Any, sides: list[PlanNode]) -> bool:
    """Whether a join's condition asks that what one side has is equal to what the other has."""
    if kind_of(condition) not in _EQUAL:
        return False
    columns = [set(_ids(each)) for each in elements(condition.children())]
    return any(
        all(of and of.issubset(side.columns) for of, side in zip(columns, order, strict=True))
        for order in (sides, sides[::-1])
    )


def _ids(expression: Any) -> list[int]:
    return [column.exprId().id() for column in attributes(expression)]


def _functions_of(aggregation: PlanNode) -> Iterator[Any]:
    for named in elements(aggregation.java.aggregateExpressions()):
        yield from _aggregates(named)


def _aggregates(expression: Any) -> Iterator[Any]:
    if kind_of(expression) == AGGREGATE:
        yield expression
        return
    for child in elements(expression.children()):
        yield from _aggregates(child)
