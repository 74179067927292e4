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
from pyspark.sql import DataFrame, SparkSession

from onceflow.spark.internals import Optimizer, analyzed_plan, elements
from onceflow.spark.plan import is_stateful, kind_of
from onceflow.spark.trees import INNER, Node, all_of, standing_alone, told_plan, tree_of
from onceflow.spark.variables import variables_of
from onceflow.spark.words import AGGREGATE, Words, attributes, conjuncts, names_of
from onceflow.twophase.layout import Kept

VOCABULARY = f"2 of Spark {pyspark.__version__}"
"""How what is kept is told: our form, and the Spark whose words they are. Those of two cannot be compared."""
_DEEPEST = 20_000
_EQUAL = ("EqualTo", "EqualNullSafe")
_WITH_KEYS, _EXPIRES = ("Deduplicate", "DeduplicateWithinWatermark"), "DeduplicateWithinWatermark"
_FUNCTION_WITH_STATE, _STATE_CLASS = "FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark"
_EVENT_TIME = "spark.watermarkDelayMs"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_ONLY_MOVED = {
    "spark.sql.constraintPropagation.enabled": "false",
    _EXCLUDED: "org.apache.spark.sql.catalyst.optimizer.PushExtraPredicateThroughJoin",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
}
"""Settings without which Spark makes further conditions of one that stays where it is."""


def kept_of(written: DataFrame, outputs: tuple[str, ...], mode: str) -> list[Kept]:
    """What each state operator keeps, in the order of the plan.

    Args:
        written: An output as the query has it, with all that its sinks take of it and nothing else.
        outputs: Names of the sinks that get it, in order.
        mode: Spark's output mode.
    """
    if not is_stateful(written):
        return []
    with _room_for_depth():
        return [
            _Operator(words, asked, runs).kept(outputs, mode, moved, narrowed)
            for words, asked, runs, moved, narrowed in _operators(written)
        ]


@contextmanager
def _room_for_depth() -> Iterator[None]:
    """Plans and expressions are as deep as the program has steps, and each takes several calls."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _operators(written: DataFrame) -> Iterator[tuple[Words, Node, Node, list[str], list[str]]]:
    """Each state operator as it was asked for and as it runs, with the conditions that Spark moved or made below it."""
    plan = told_plan(analyzed_plan(written))
    asked = tree_of(plan)
    words = Words(names_of(asked))
    whole = Optimizer(written.sparkSession)
    runs = tree_of(whole.optimized(plan))
    pairs = list(_pairs(asked, runs))
    passes = _Below(words, plan, whole)
    if not any(passes.may_be(user or spark, asked) for user, spark in pairs):
        yield from ((words, user or spark, spark, [], []) for user, spark in pairs)
        return
    moving = Optimizer(written.sparkSession, _only_moved(written.sparkSession))
    only = _Below(words, plan, moving)
    like = [node for node in all_of(tree_of(moving.optimized(plan))) if node.has_state]
    if [node.family for node in like] != [spark.family for _, spark in pairs]:
        only, like = passes, [spark for _, spark in pairs]
    for (user, spark), same in zip(pairs, like, strict=True):
        moved = only.between(user, same)
        yield words, user or spark, spark, sorted(moved), sorted(passes.between(user, spark) - moved)


def _only_moved(session: SparkSession) -> dict[str, str]:
    excluded = session.conf.get(_EXCLUDED, "") or ""
    return {**_ONLY_MOVED, _EXCLUDED: ",".join(filter(None, (excluded, _ONLY_MOVED[_EXCLUDED])))}


def _pairs(asked: Node, runs: Node) -> Iterator[tuple[Node | None, Node]]:
    """The state operators that run, each with the one that was asked for: None where Spark has made it by itself."""
    by_user = [node for node in all_of(asked) if node.has_state]
    by_spark = [node for node in all_of(runs) if node.has_state]
    if [node.family for node in by_user] == [node.family for node in by_spark]:
        yield from zip(by_user, by_spark, strict=True)
        return
    for spark in by_spark:
        alike = (user for user in by_user if user.family == spark.family and set(user.columns) & set(spark.columns))
        yield next(alike, None), spark


class _Below:
    """What rows must fulfil below a state operator.

    Args:
        words: How it is told.
        plan: The whole plan, as it was asked for.
        optimizer: Which conditions it moves counts.
    """

    def __init__(self, words: Words, plan: Any, optimizer: Optimizer) -> None:
        self._words, self._plan, self._optimizer = words, plan, optimizer

    def may_be(self, operator: Node, whole: Node) -> bool:
        """Whether anything stands beside or above an operator, or is its condition, that Spark could move below it."""
        below = {id(node) for child in operator.children for node in all_of(child)}
        return any(node.kind in ("Filter", "Join") and id(node) not in below for node in all_of(whole))

    def between(self, asked: Node | None, runs: Node) -> set[str]:
        """What stands below it in the plan that runs, and would not if nothing stood above it."""
        alone: set[str] = set()
        if asked is not None:
            plan = tree_of(self._optimizer.optimized(standing_alone(asked.java, self._plan)))
            alone = self._of(next((node for node in all_of(plan) if node.family == runs.family), plan))
        return self._of(runs) - alone

    def _of(self, operator: Node) -> set[str]:
        return {said for child in operator.children for said in self._words.of_rows(child)}


class _Operator:
    """A state operator in words.

    Args:
        words: How expressions are told.
        asked: It as it was asked for.
        runs: It as it runs.
    """

    def __init__(self, words: Words, asked: Node, runs: Node) -> None:
        self._words, self._written, self._runs = words, asked, runs

    def kept(self, outputs: tuple[str, ...], mode: str, moved: list[str], narrowed: list[str]) -> Kept:
        """What it keeps.

        Args:
            outputs: Names of the sinks that get what it gives, in order.
            mode: Spark's output mode.
            moved: Conditions from above that Spark has moved below it.
            narrowed: Conditions that Spark has made below it of such as it has left above.
        """
        operator, columns, names = self._told()
        if moved:
            operator += f", of rows with {' and '.join(moved)}"
        told = None if columns is None else tuple(columns)
        lacks = tuple(condition for condition in narrowed if condition not in self._never_null())
        return Kept(outputs, f"{operator}, output mode {mode}", told, tuple(names), lacks)

    def _told(self) -> tuple[str, list[str] | None, list[str]]:
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

        Of an inner join that is what must be equal in both sides, its key, wherever it was asked for; and what bounds
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
        return sorted(self._at_top(part) for part in [*self._equal(), *bounds])

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


def _is_of_both(condition: Any, sides: list[Node]) -> bool:
    """Whether a join's condition asks for columns of both sides."""
    columns = set(_ids(condition))
    return all(columns & set(side.columns) for side in sides)


def _is_key(condition: Any, sides: list[Node]) -> bool:
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


def _functions_of(aggregation: Node) -> Iterator[Any]:
    for named in elements(aggregation.java.aggregateExpressions()):
        yield from _aggregates(named)


def _aggregates(expression: Any) -> Iterator[Any]:
    if kind_of(expression) == AGGREGATE:
        yield expression
        return
    for child in elements(expression.children()):
        yield from _aggregates(child)
