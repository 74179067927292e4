"""Columns and expressions of a plan in words: down to the source's columns, and the same in every process.

Must not know: what a state is, sinks, the journal. Names on the way are no part of a meaning, nor are the numbers that
Spark gives to columns, its seeds, and the time of the day. A time zone is, where the result hangs on it. No value of a
program's that may be a secret stands in what is said.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onceflow.spark.internals import AGGREGATE_FUNCTION, ZONED, arguments_of, elements, is_a, with_numbers
from onceflow.spark.plan import in_sql, kind_of
from onceflow.spark.trees import REFERENCE, PlanNode, all_of, tree_of
from onceflow.twophase.layout import without_texts

_LONGEST, _LONG_TEXT = 2_000, 16
_WITH_SEED = {"Rand": 0, "Randn": 0, "Uniform": 2, "RandStr": 1}
"""Functions that get a number from Spark where none was given, and how many arguments stand before it."""
_OF_LAMBDA, _LAMBDA = "NamedLambdaVariable", "LambdaFunction"
_NUMBERED = re.compile(r"^(.*?)_\d+$")  # such variables are numbered through the process
_FIRST = 1_907_060_000
_PLACE = re.compile(r"\b190706\d{4}\b")
ATTRIBUTE, AGGREGATE = "AttributeReference", "AggregateExpression"
_FIELD, _LITERAL, _STRUCT, _CAST = "GetStructField", "Literal", "CreateNamedStruct", "Cast"
_CLOCK = "CurrentBatchTimestamp"
_SUBQUERIES = frozenset({"ScalarSubquery", "ListQuery", "Exists", "LateralSubquery"})
_PYTHON = "Python"
_SAID_BY_ROWS = frozenset({"Filter", "Join"})
SAY_NOTHING = frozenset({"Project", "SubqueryAlias", "View", REFERENCE, "ResolvedHint", "Union"})
_TIME = re.compile(r"\btimestamp\b")
_BY_TYPES = frozenset({
    "StructsToJson", "JsonToStructs", "StructsToCsv", "CsvToStructs", "StructsToXml", "XmlToStructs", "Sequence",
})  # fmt: skip
"""Functions that have a time zone, and need it for values of the type TIMESTAMP alone."""
_ADDED = "TimestampAddInterval"
_DAY_US = 86_400_000_000
_BESIDE: Mapping[str, str] = {
    "LikeAll": "patterns", "NotLikeAll": "patterns", "LikeAny": "patterns", "NotLikeAny": "patterns",
    "AtLeastNNonNulls": "n", "PivotFirst": "pivotColumnValues", "CsvToStructs": "schema", "VariantGet": "targetType",
}  # fmt: skip
"""Functions that are told something beside their children, by Spark's name for it, of which their SQL is silent."""
_FIELDS, _INVOKE, _XPATH = "UpdateFields", "Invoke", "XPath"


def names_of(plan: PlanNode) -> dict[int, str]:
    """The columns of a plan's sources by id, each by its name.

    Where there are several streams, by the stream's number, too; of a static table by that, and by the table's number
    where several have a column of the name. So a static table that is added makes no other column another one.
    """
    leaves = list({tuple(node.columns): node for node in all_of(plan) if not node.children}.values())
    streams = [leaf for leaf in leaves if leaf.java.isStreaming()]
    names: dict[int, str] = {}
    for number, leaf in enumerate(streams):
        behind = f" of source {number}" if len(streams) > 1 else ""
        names |= {key: f"{name}{behind}" for key, name in _columns(leaf)}
    tables: dict[str, int] = {}
    for leaf in leaves:
        if leaf not in streams:
            for key, name in _columns(leaf):
                tables[name] = number = tables.get(name, -1) + 1
                names[key] = f"{name} of static table{f' {number}' if number else ''}"
    return names


def _columns(node: PlanNode) -> Iterator[tuple[int, str]]:
    return ((column.exprId().id(), str(column.name())) for column in elements(node.java.output()))


class Words:
    """Columns and expressions in words.

    Args:
        names: The sources' columns.
    """

    def __init__(self, names: dict[int, str]) -> None:
        self._names = names
        self._arguments: dict[int, str] = {}
        self._common: dict[int, str] = {}

    def of(self, expression: Any, below: Iterable[PlanNode]) -> str:
        """An expression over the columns of the nodes below it."""
        return short(self._of(expression, tuple(below)))

    def of_rows(self, node: PlanNode) -> Iterator[str]:
        """What rows have to fulfil to pass a plan, from a node downwards."""
        for each in all_of(node):
            if each.kind in _SAID_BY_ROWS:
                kind = f"{each.java.joinType().sql()} join on " if each.kind == "Join" else ""
                condition = each.java.condition()
                wholes = elements(condition.toList()) if each.kind == "Join" else (condition,)
                yield from (kind + self.of(part, each.children) for whole in wholes for part in conjuncts(whole))

    def _of(self, expression: Any, below: tuple[PlanNode, ...]) -> str:
        kind = kind_of(expression)
        match kind:
            case "AttributeReference":
                key = expression.exprId().id()
                node = next((node for node in below if key in node.columns), None)
                return str(expression.name()) if node is None else self._column(key, node)
            case "Alias":
                return self._of(expression.child(), below)
            case "OuterReference":
                return self._of(expression.e(), below)
            case "NamedLambdaVariable":
                return self._arguments.get(expression.exprId().id()) or _NUMBERED.sub(r"\1", expression.name())
            case "Literal":
                return _literal(expression)
            case "InSet":
                return f"{self._of(expression.child(), below)} in {_hashed(_sorted(expression.hset()))}"
            case "CommonExpressionRef":
                return self._common.get(expression.id().id(), "a common expression")
            case "With":
                for defined in elements(expression.defs()):
                    self._common[defined.id().id()] = self._of(defined.child(), below)
                return self._of(expression.child(), below)
        text = self._subquery(expression, below) if kind in _SUBQUERIES else self._call(expression, below)
        said = [f"with {each}" for each in _settings(expression)]
        return " ".join([text, *said, *_zone(expression)])

    def _call(self, expression: Any, below: tuple[PlanNode, ...]) -> str:
        """A function, an operator, a name of one."""
        kind = kind_of(expression)
        children = list(elements(expression.children()))
        if kind == _CLOCK:
            return f"current_{expression.dataType().sql().lower()}()"
        if kind in _WITH_SEED:
            children = children[: _WITH_SEED[kind]]
            return f"{expression.prettyName()}({', '.join(self._of(child, below) for child in children)})"
        if not children:
            return in_sql(expression)
        if kind == _LAMBDA:
            self._name_arguments(children)
        if kind == _FIELD:
            return f"{self._of(children[0], below)}.{expression.extractFieldName()}"
        words = [self._of(child, below) for child in children]
        if kind == AGGREGATE:
            return " where ".join(words) + (" distinct" if expression.isDistinct() else "")
        return _put_together(expression, children, words)

    def _subquery(self, expression: Any, below: tuple[PlanNode, ...]) -> str:
        """What a query inside of an expression gives: its column, of which rows, and all else that it does."""
        plan = tree_of(expression.plan())
        inside = Words(self._names | names_of(plan))
        said = [inside._found(key, plan, below) for key in plan.columns]
        for node in all_of(plan):
            if node.children and node.kind not in SAY_NOTHING:
                around = (*node.children, *below)
                told = ", ".join(inside.of(each, around) for each in elements(node.java.expressions()))
                said.append(f"{named(node)}({told})")
        said += [self._of(child, below) for child in elements(expression.children())]
        return f"{expression.prettyName()}({', '.join(said)})"

    def _name_arguments(self, function: list[Any]) -> None:
        """Give the arguments of a lambda function names that no function inside of it has."""
        body, *arguments = function
        inside = _depth(body)
        for argument in arguments:
            name = _NUMBERED.sub(r"\1", argument.name())
            self._arguments[argument.exprId().id()] = f"{name}_{inside}" if inside else name

    def _column(self, key: int, node: PlanNode) -> str:
        """A column of a node's output."""
        if key not in node.found:
            node.found[key] = short(self._found(key, node))
        return node.found[key]

    def _found(self, key: int, node: PlanNode, around: tuple[PlanNode, ...] = ()) -> str:
        below = (*node.children, *around)
        if node.kind in ("Union", REFERENCE):
            place = node.columns.index(key)
            told = [self._column(each.columns[place], each) for each in node.children]
            # Where they are not all the same, which of them it is that two have alike is a part of the meaning.
            return told[0] if len(set(told)) == 1 else " or ".join(told)
        if key in self._names:
            return self._names[key]
        if node.kind == "Expand":  # each row becomes several: of windows that overlap, of a ROLLUP
            place = node.columns.index(key)
            made_of = [row.apply(place) for row in elements(node.java.projections())]
            if kind_of(made_of[0]) != _STRUCT:
                return " or ".join(dict.fromkeys(self._of(each, below) for each in made_of))
            # Windows: two of them tell length and step, and there may be thousands.
            first = " or ".join(self._of(each, below) for each in made_of[:2])
            return f"one of {len(made_of)}: {first}"
        if key in node.makes:
            return self._of(node.makes[key], below)
        for child in node.children:
            if key in child.columns:
                return self._column(key, child)
        if node.kind == "Generate":
            given = [column.exprId().id() for column in elements(node.java.generatorOutput())]
            return f"column {given.index(key)} of {self._of(node.java.generator(), below)}"
        return f"{next(name for column, name in _columns(node) if column == key)} of {node.kind}"


def named(node: PlanNode) -> str:
    """What a node is, with what decides which rows pass it beside its expressions."""
    if node.kind == "Join":
        return f"{node.java.joinType().sql()} join"
    return "outer Generate" if node.kind == "Generate" and node.java.outer() else node.kind


def conjuncts(condition: Any) -> Iterator[Any]:
    """The parts of a condition all of which must hold."""
    if kind_of(condition) != "And":
        yield condition
        return
    for child in elements(condition.children()):
        yield from conjuncts(child)


def attributes(expression: Any) -> Iterator[Any]:
    """The columns that an expression is made of."""
    if kind_of(expression) == ATTRIBUTE:
        yield expression
    for child in elements(expression.children()):
        yield from attributes(child)


def short(text: str) -> str:
    """A text that others are made of, not longer than can be read; what was cut off is told apart by its hash."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _put_together(expression: Any, children: list[Any], words: list[str]) -> str:
    """An expression in SQL, with words in the place of its children."""
    text = with_numbers(expression, [_FIRST + i for i in range(len(children))])
    made_of = [i for i, child in enumerate(children) if kind_of(child) != _LITERAL]
    if text is None or any(str(_FIRST + i) not in text for i in made_of):
        return f"{expression.prettyName()}({', '.join(words)})"
    for child, said in zip(children, words, strict=True):
        if kind_of(child) == _LITERAL:
            text = text.replace(str(child.sql()), said)
    return _PLACE.sub(lambda found: words[int(found[0]) - _FIRST], text)


def _literal(literal: Any) -> str:
    """A value that the program says: a long text by its hash, since it may be a secret; a time without a zone."""
    kind = kind_of(literal.dataType())
    if kind == "ObjectType":
        return kind_of(literal.value())
    text = str(literal.sql())  # not of ``in_sql``: in a value of the program's a number is no number of Spark's
    if text.startswith("INTERVAL ") or kind in ("DateType", "TimestampNTZType"):
        return text
    if literal.value() is not None and _TIME.search(literal.dataType().catalogString()):
        return f"{literal.dataType().sql()} {literal.value()}"
    return without_texts(text, _LONG_TEXT)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def _sorted(values: Any) -> str:
    return " ".join(sorted(str(value) for value in elements(values.toSeq())))


def _beside(value: Any) -> str:
    """A number, a type, or values in their order."""
    if isinstance(value, int):
        return str(value)
    if is_a(value, "scala.collection.Seq"):
        return " ".join(map(str, elements(value)))
    return str(value.sql())


def _settings(expression: Any) -> Iterator[str]:
    """What an expression is told beside its children: its SQL does not say it.

    That is options, how exact a function is, of an aggregate whether it passes over nulls, and what has a name of its
    own. Elsewhere a flag says whether an error is raised, whole numbers are Spark's own, and a type is that of the
    column, or of one that nobody asks for.
    """
    kind = kind_of(expression)
    if kind.startswith(_PYTHON):
        return  # known by its name
    if kind in _BESIDE:
        yield _hashed(_beside(getattr(expression, _BESIDE[kind])()))
    elif kind == _FIELDS:
        yield ", ".join(f"{kind_of(each)} {each.name()}" for each in elements(expression.fieldOps()))
    elif kind == _INVOKE and kind_of(expression.targetObject()) == _LITERAL:
        evaluator = expression.targetObject().value()
        if kind_of(evaluator).startswith(_XPATH):
            yield _hashed(str(evaluator.toString()))
    aggregate = is_a(expression, AGGREGATE_FUNCTION)
    for value in arguments_of(expression):
        if isinstance(value, dict) and value:
            yield f"options {_hashed(str(sorted(value.items())))}"
        elif value and (isinstance(value, float) or (aggregate and isinstance(value, bool))):
            yield str(value).lower()


def _zone_of(expression: Any) -> str:
    if not is_a(expression, ZONED):
        return ""
    zone = expression.timeZoneId()
    return str(zone.get()) if zone.isDefined() else ""


def _zone(expression: Any) -> list[str]:
    """The time zone, where the result hangs on it."""
    zone, kind = _zone_of(expression), kind_of(expression)
    if not zone:
        return []
    children = list(elements(expression.children()))
    if kind == _CAST:
        hangs = bool(expression.needsTimeZone())
    elif kind == _CLOCK:
        hangs = kind_of(expression.dataType()) != "TimestampType"
    elif kind == _ADDED:
        hangs = not _is_within_a_day(children[1])
    elif kind in _BY_TYPES:
        hangs = any(_TIME.search(each.dataType().catalogString()) for each in (expression, *children))
    else:
        hangs = True
    return [f"in {zone}"] if hangs else []


def _is_within_a_day(interval: Any) -> bool:
    """Whether it has hours and less alone: a day may have 23 hours, by the zone."""
    if kind_of(interval) == "UnaryMinus":
        interval = next(elements(interval.children()))
    if kind_of(interval) != _LITERAL or kind_of(interval.dataType()) != "DayTimeIntervalType":
        return False
    return abs(int(interval.value())) < _DAY_US


def _depth(expression: Any) -> int:
    """How many lambda functions stand inside of each other."""
    inside = max(map(_depth, elements(expression.children())), default=0)
    return inside + (kind_of(expression) == _LAMBDA)
