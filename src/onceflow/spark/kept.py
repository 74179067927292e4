"""What stands in each column of a plan's state, by its meaning: the expression down to the source's columns.

Must not know: sinks, the journal, what an edit may change. Spark keeps state by position and compares types alone.
Which columns it keeps depends on all that stands above, since its optimizer takes out what nobody asks for. So the
columns are asked of the optimized plan, and what each of them stands for of the plan as the user wrote it: names on the
way are not part of it, nor is anything that another process or another day would say otherwise.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from onceflow.spark.internals import analyzed_plan, elements, optimized_plan, with_numbers
from onceflow.spark.plan import in_sql, is_stateful, keeps_state, kind_of
from onceflow.spark.variables import variables_of
from onceflow.twophase.layout import Kept

_LONGEST, _DEEPEST = 2_000, 20_000
_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_LONG_TEXT = 16
_CLOCK = re.compile(r"\b(?:current_(?:timestamp|date|time)|localtimestamp|now|curdate)\(", re.IGNORECASE)
_MOMENT = re.compile(r"\b(TIMESTAMP_NTZ|TIMESTAMP_LTZ|TIMESTAMP|DATE) '[^']*'")
_WITH_SEED = {"Rand": 0, "Randn": 0, "Uniform": 2, "RandStr": 1}
"""Functions that get a number from Spark where none was given, and how many arguments stand before it."""
_OURS = "_onceflow_barrier"
_REFERENCE = "CTERelationRef"
_OF_LAMBDA, _LAMBDA = "NamedLambdaVariable", "LambdaFunction"
_NUMBERED = re.compile(r"^(.*?)_\d+$")  # such variables are numbered through the process
_BOTH_SIDES, _EQUAL = ("INNER", "CROSS"), ("EqualTo", "EqualNullSafe")
_WITH_KEYS = ("Deduplicate", "DeduplicateWithinWatermark")
_FIRST = 1_907_060_000
_PLACE = re.compile(r"\b190706\d{4}\b")
_ATTRIBUTE, _ALIAS, _FIELD, _AGGREGATE = "AttributeReference", "Alias", "GetStructField", "AggregateExpression"
_LITERAL, _STRUCT = "Literal", "CreateNamedStruct"
_FUNCTION_WITH_STATE, _STATE_CLASS = "FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark"
_MAKING = {"Project": "projectList", "Aggregate": "aggregateExpressions", "Window": "windowExpressions"}
"""Operators whose expressions make columns, and Spark's name for those expressions."""


@dataclass(eq=False)
class _Node:
    """A node of a plan, with what is asked of it again and again.

    Attributes:
        java: It.
        kind: The name of its class.
        children: Those below it; of a reference to a common table expression that.
        columns: The ids of its output, in order.
        is_our_source: What a ``KafkaSource`` gives is made here, of what its formats read.
        makes: The expressions that make columns here, by id.
        found: What columns were found to mean, by id.
    """

    java: Any
    kind: str
    children: list[_Node]
    columns: list[int]
    is_our_source: bool
    makes: dict[int, Any]
    found: dict[int, str] = field(default_factory=dict)

    @property
    def has_state(self) -> bool:
        """Whether Spark keeps state for it."""
        return bool(self.java.isStreaming()) and keeps_state(self.java)


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
        return _kept_by_plans(written, outputs, mode)


@contextmanager
def _room_for_depth() -> Iterator[None]:
    """Plans and expressions are as deep as the program has steps, and each takes several calls."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _kept_by_plans(written: DataFrame, outputs: tuple[str, ...], mode: str) -> list[Kept]:
    asked, runs = _Trees().tree(analyzed_plan(written)), _Trees().tree(optimized_plan(written))
    names, moments = _names(runs) | _names(asked), _moments(asked)
    by_user = [node for node in _all(asked) if node.has_state]
    by_spark = [node for node in _all(runs) if node.has_state]
    if [_family(node) for node in by_user] != [_family(node) for node in by_spark]:
        by_user = by_spark  # Spark runs other operators than those that were asked for
    return [
        _Meanings(names, moments, (user, spark), tuple(_filters_above(user, asked))).of_operator(outputs, mode)
        for user, spark in zip(by_user, by_spark, strict=True)
    ]


class _Trees:
    """Plans, looked at once."""

    def __init__(self) -> None:
        self._common: dict[int, _Node] = {}

    def tree(self, java: Any) -> _Node:
        kind = kind_of(java)
        children = [self.tree(child) for child in elements(java.children())]
        if kind == "CTERelationDef":
            self._common[java.id()] = children[0]
        elif kind == _REFERENCE and java.cteId() in self._common:
            children = [self._common[java.cteId()]]
        made = elements(getattr(java, _MAKING[kind])()) if kind in _MAKING else ()
        makes = {named.exprId().id(): named.child() for named in made if kind_of(named) == _ALIAS}
        output = list(elements(java.output()))
        ours = kind == "Project" and _is_inside(elements(children[0].java.output())) and not _is_inside(output)
        return _Node(java, kind, children, [each.exprId().id() for each in output], ours, makes)


def _is_inside(columns: Iterable[Any]) -> bool:
    """Whether they are columns inside of a ``KafkaSource``."""
    return any(column.name() == _OURS for column in columns)


def _all(node: _Node) -> Iterator[_Node]:
    yield node
    if node.kind != _REFERENCE:
        for child in node.children:
            yield from _all(child)


def _holds(node: _Node, operator: _Node) -> bool:
    return node is operator or any(_holds(child, operator) for child in node.children)


def _filters_above(operator: _Node, node: _Node) -> Iterator[_Node]:
    """The filters between the top of a plan and an operator; none where it is no part of the plan."""
    if operator is node or not _holds(node, operator):
        return
    if node.kind == "Filter":
        yield node
    for child in node.children:
        yield from _filters_above(operator, child)


def _family(node: _Node) -> str:
    """SQL's DISTINCT is an aggregation to Spark's optimizer."""
    return "Aggregate" if node.kind == "Distinct" else node.kind


def _names(plan: _Node) -> dict[int, str]:
    """The columns of sources by id: by their names, and by the source's number where there are several."""
    names: dict[int, str] = {}
    leaves = [node for node in _all(plan) if not node.children]

    def name(node: _Node, behind: str) -> None:
        for column in elements(node.java.output()):
            names.setdefault(column.exprId().id(), f"{column.name()}{behind}")

    for node in _all(plan):
        if not node.children or node.is_our_source:
            leaf = next(each for each in _all(node) if not each.children)
            name(node, f" of source {leaves.index(leaf)}" if len(leaves) > 1 else "")
    return names


def _moments(asked: _Node) -> frozenset[str] | None:
    """The dates and times that a plan's text has, where it asks for the clock; None where it does not.

    Spark's optimizer puts the time at which it ran in the place of the question: another one in each process.
    """
    text = " ".join(expression.sql() for node in _all(asked) for expression in elements(node.java.expressions()))
    return frozenset(found[0] for found in _MOMENT.finditer(text)) if _CLOCK.search(text) else None


class _Meanings:
    """Columns and expressions in words.

    Args:
        names: The sources' columns.
        moments: See ``_moments``.
        operators: A state operator, as it was asked for and as it runs.
        filters: Those above it.
    """

    def __init__(
        self,
        names: dict[int, str],
        moments: frozenset[str] | None,
        operators: tuple[_Node, _Node],
        filters: tuple[_Node, ...],
    ) -> None:
        self._names, self._moments, self._operators, self._filters = names, moments, operators, filters
        self._arguments: dict[int, str] = {}

    def of_operator(self, outputs: tuple[str, ...], mode: str) -> Kept:
        """What it keeps."""
        asked, runs = self._operators
        operator, names = _family(asked), []
        columns: list[str] | None
        if operator == "Join":
            operator = f"{runs.java.joinType().sql()} join on {' and '.join(self._conditions())}"
            both = [column for side in runs.children for column in elements(side.java.output())]
            columns, names = [self._typed(column) for column in both], [column.name() for column in both]
        elif operator == "Aggregate":
            columns = [*map(self._typed, self._keys()), *self._functions()]
            if asked.kind == "Distinct":
                names = [key.name() for key in self._keys()]
        elif operator == _FUNCTION_WITH_STATE:
            operator += f", timeout {asked.java.timeout()}, by {self._each(elements(asked.java.groupingAttributes()))}"
            fields = asked.java.stateType().fields()
            columns, names = [f"{each.name()}: {each.dataType().sql()}" for each in fields], [f.name() for f in fields]
        elif operator == _STATE_CLASS:
            keys = list(elements(asked.java.leftAttributes()))[: asked.java.groupingAttributesLen()]
            operator += f", time mode {asked.java.timeMode()}, by {self._each(keys)}"
            variables = variables_of(asked.java)
            columns, names = None if variables is None else list(variables.values()), list(variables or ())
        elif operator in _WITH_KEYS:
            columns = [self._typed(key) for key in elements(runs.java.keys())]
        else:
            columns = [self._typed(each) for each in elements(asked.java.expressions())]
        if passed := self._passed():
            operator += f", of rows with {' and '.join(passed)}"
        return Kept(
            outputs, f"{operator}, output mode {mode}", None if columns is None else tuple(columns), tuple(names)
        )

    def _conditions(self) -> list[str]:
        """What a join asks; Spark makes a key of the state of what is asked above it, too, where both sides must be."""
        asked, runs = self._operators
        found = [each for whole in elements(asked.java.condition().toList()) for each in _conjuncts(whole)]
        if runs.java.joinType().sql() in _BOTH_SIDES:
            whole = elements(runs.java.condition().toList())
            found += [each for part in whole for each in _conjuncts(part) if _is_of_both(each, runs.children)]
        return list(dict.fromkeys(_short(self._at_top(each)) for each in found))

    def _passed(self) -> list[str]:
        """What filters above ask that is known below: Spark filters there, and lets all pass that is kept already."""
        asked, _ = self._operators
        return sorted(
            _short(self._words(condition, node.children))
            for node in self._filters
            for condition in _conjuncts(node.java.condition())
            if _is_known_below(asked, set(_columns_of(condition, node.children[0], asked)))
        )

    def _keys(self) -> list[Any]:
        """The keys of an aggregation, as they were asked for where the optimizer has left their number alone."""
        asked, runs = self._operators
        keys = list(elements(runs.java.groupingExpressions()))
        written = list(elements(asked.java.groupingExpressions())) if asked.kind == "Aggregate" else []
        return written if len(written) == len(keys) else keys

    def _functions(self) -> list[str]:
        """The functions of an aggregation that are left when what nobody asks for is taken out, in Spark's order."""
        asked, runs = self._operators
        found: dict[str, None] = {}
        for named in elements(runs.java.aggregateExpressions()):
            made = asked.makes.get(named.exprId().id()) if kind_of(named) == _ALIAS else None
            for function in _aggregates(named if made is None else made):
                found.setdefault(self._typed(function))
        return list(found)

    def _each(self, expressions: Iterable[Any]) -> str:
        return ", ".join(_short(self._at_top(e)) for e in expressions)

    def _typed(self, expression: Any) -> str:
        return f"{_short(self._at_top(expression))}: {expression.dataType().sql()}"

    def _at_top(self, expression: Any) -> str:
        """An expression over what the operator gets: as it was asked for, where the optimizer did not make it."""
        asked, runs = self._operators
        return self._words(expression, (*asked.children, *runs.children))

    def _words(self, expression: Any, below: Iterable[_Node]) -> str:
        kind = kind_of(expression)
        if kind == _ATTRIBUTE:
            key = expression.exprId().id()
            node = next((node for node in below if key in node.columns), None)
            return str(expression.name()) if node is None else self._column(key, node)
        if kind == _OF_LAMBDA:
            return self._arguments.get(expression.exprId().id()) or _NUMBERED.sub(r"\1", expression.name())
        children = list(elements(expression.children()))
        if kind in _WITH_SEED:
            children = children[: _WITH_SEED[kind]]
            return f"{expression.prettyName()}({', '.join(self._words(child, below) for child in children)})"
        if not children:
            return self._literal(expression) if kind == _LITERAL else in_sql(expression)
        if kind == _LAMBDA:
            self._name_arguments(children)
        if kind == _ALIAS:
            return self._words(children[0], below)
        if kind == _FIELD:
            return f"{self._words(children[0], below)}.{expression.extractFieldName()}"
        words = [self._words(child, below) for child in children]
        if kind == _AGGREGATE:
            return " where ".join(words) + (" distinct" if expression.isDistinct() else "")
        text = with_numbers(expression, [_FIRST + i for i in range(len(children))])
        made_of = [i for i, child in enumerate(children) if kind_of(child) != _LITERAL]
        if text is None or any(str(_FIRST + i) not in text for i in made_of):
            return f"{expression.prettyName()}({', '.join(words)})"
        for child, said in zip(children, words, strict=True):
            if kind_of(child) == _LITERAL:
                text = text.replace(str(child.sql()), said)
        return _PLACE.sub(lambda found: words[int(found[0]) - _FIRST], text)

    def _literal(self, literal: Any) -> str:
        """A value that the program says: a long text by its hash, since it may be a secret; no time of this process."""
        text = in_sql(literal)
        moments = self._moments
        if moments is not None:
            text = _MOMENT.sub(lambda found: found[0] if found[0] in moments else found[1], text)
        if _MOMENT.search(text) or text.startswith("INTERVAL "):
            return text
        return _TEXT.sub(lambda found: found[0] if len(found[1]) <= _LONG_TEXT else _hashed(found[1]), text)

    def _name_arguments(self, function: list[Any]) -> None:
        """Give the arguments of a lambda function names that no function inside of it has."""
        body, *arguments = function
        inside = _depth(body)
        for argument in arguments:
            name = _NUMBERED.sub(r"\1", argument.name())
            self._arguments[argument.exprId().id()] = f"{name}_{inside}" if inside else name

    def _column(self, key: int, node: _Node) -> str:
        """A column of a node's output."""
        if key not in node.found:
            node.found[key] = _short(self._found(key, node))
        return node.found[key]

    def _found(self, key: int, node: _Node) -> str:
        if node.kind in ("Union", _REFERENCE):
            place = node.columns.index(key)
            return " or ".join(dict.fromkeys(self._column(each.columns[place], each) for each in node.children))
        if key in self._names:
            return self._names[key]
        if node.kind == "Expand":  # each row becomes several: of windows that overlap, of a ROLLUP
            place = node.columns.index(key)
            made_of = [row.apply(place) for row in elements(node.java.projections())]
            if kind_of(made_of[0]) != _STRUCT:
                return " or ".join(dict.fromkeys(self._words(each, node.children) for each in made_of))
            # Windows: two of them tell length and step, and there may be thousands.
            first = " or ".join(self._words(each, node.children) for each in made_of[:2])
            return f"one of {len(made_of)}: {first}"
        if key in node.makes:
            return self._words(node.makes[key], node.children)
        for child in node.children:
            if key in child.columns:
                return self._column(key, child)
        name = next(column.name() for column in elements(node.java.output()) if column.exprId().id() == key)
        made = f" {self._words(node.java.generator(), node.children)}" if node.kind == "Generate" else ""
        return f"{name} of {node.kind}{made}"


def _hashed(text: str) -> str:
    return f"'… {hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}'"


def _depth(expression: Any) -> int:
    """How many lambda functions stand inside of each other."""
    inside = max(map(_depth, elements(expression.children())), default=0)
    return inside + (kind_of(expression) == _LAMBDA)


def _conjuncts(condition: Any) -> Iterator[Any]:
    if kind_of(condition) != "And":
        yield condition
        return
    for child in elements(condition.children()):
        yield from _conjuncts(child)


def _is_of_both(condition: Any, sides: list[_Node]) -> bool:
    """Whether a join's condition asks that what one side has is equal to what the other has."""
    if kind_of(condition) not in _EQUAL:
        return False
    columns = [set(_attributes(each)) for each in elements(condition.children())]
    return any(
        all(of and of.issubset(side.columns) for of, side in zip(columns, order, strict=True))
        for order in (sides, sides[::-1])
    )


def _attributes(expression: Any) -> Iterator[int]:
    if kind_of(expression) == _ATTRIBUTE:
        yield expression.exprId().id()
    for child in elements(expression.children()):
        yield from _attributes(child)


def _columns_of(expression: Any, node: _Node, operator: _Node) -> Iterator[int]:
    """Which of an operator's columns an expression above is made of."""
    if kind_of(expression) != _ATTRIBUTE:
        for child in elements(expression.children()):
            yield from _columns_of(child, node, operator)
        return
    key = expression.exprId().id()
    while node is not operator:
        if node.kind in ("Union", _REFERENCE):
            below = next(child for child in node.children if _holds(child, operator))
            node, key = below, below.columns[node.columns.index(key)]
            continue
        if key in node.makes:
            yield from _columns_of(node.makes[key], node.children[0], operator)
            return
        found = next((child for child in node.children if key in child.columns), None)
        if found is None:
            return
        node = found
    yield key


def _is_known_below(operator: _Node, columns: set[int]) -> bool:
    """Whether they are keys of an aggregation, or of one side of a join."""
    if not columns:
        return False
    if operator.kind == "Join":
        return any(columns.issubset(side.columns) for side in operator.children)
    made = [operator.makes[key] for key in columns if key in operator.makes]
    return _family(operator) == "Aggregate" and not any(any(_aggregates(each)) for each in made)


def _short(text: str) -> str:
    """A text that others are made of, not longer than can be read; what was cut off is told apart by its hash."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _aggregates(expression: Any) -> Iterator[Any]:
    if kind_of(expression) == _AGGREGATE:
        yield expression
        return
    for child in elements(expression.children()):
        yield from _aggregates(child)
