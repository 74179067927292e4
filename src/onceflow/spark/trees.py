"""A plan as a tree that is looked at once, in the form in which it is told: nothing of this process stands in it.

Must not know: what a state is, sinks, the journal. A ``KafkaSource`` is a leaf here, whatever its formats make of its
records. The clock stands still: Spark's optimizer would put the time at which it runs in the place of the question. And
a common table expression stands wherever it is referred to, as Spark runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from onceflow.spark import internals
from onceflow.spark.internals import elements
from onceflow.spark.plan import keeps_state, kind_of, nodes_of

REFERENCE = "CTERelationRef"
INNER = ("INNER", "CROSS")
_INSIDE = "_onceflow_barrier"
_COMMON, _DEFINED = "WithCTE", "CTERelationDef"
_MAKING = {"Project": "projectList", "Aggregate": "aggregateExpressions", "Window": "windowExpressions"}
"""Operators whose expressions make columns, and Spark's name for those expressions."""
_IN_PYTHON = ("BatchEvalPython", "ArrowEvalPython")
"""Operators in which Spark's optimizer has Python functions run."""


@dataclass(eq=False)
class PlanNode:
    """A node of a plan, with what is asked of it again and again.

    Attributes:
        java: It.
        kind: The name of its class.
        children: Those below it; of a reference to a common table expression that.
        columns: The ids of its output, in order.
        makes: The expressions that make columns here, by id.
        found: What columns were found to mean, by id.
    """

    java: Any
    kind: str
    children: list[PlanNode]
    columns: list[int]
    makes: dict[int, Any]
    found: dict[int, str] = field(default_factory=dict)

    @property
    def has_state(self) -> bool:
        """Whether Spark keeps state for it."""
        return bool(self.java.isStreaming()) and keeps_state(self.java)

    @property
    def family(self) -> str:
        """What it is to Spark's optimizer, to which SQL's DISTINCT is an aggregation."""
        return "Aggregate" if self.kind == "Distinct" else self.kind


def tree_of(plan: Any) -> PlanNode:
    """A plan as a tree; of one with common table expressions they stand where they are referred to."""
    return _tree(plan, {})


def _tree(java: Any, common: dict[int, PlanNode]) -> PlanNode:
    kind = kind_of(java)
    below = list(elements(java.children()))
    if kind == _COMMON:
        for defined in below[:-1]:
            common[defined.id()] = _tree(defined, common).children[0]
        return _tree(below[-1], common)
    children = [_tree(child, common) for child in below]
    if kind == REFERENCE and java.cteId() in common:
        children = [common[java.cteId()]]
    made = elements(getattr(java, _MAKING[kind])()) if kind in _MAKING else ()
    makes = {named.exprId().id(): named.child() for named in made if kind_of(named) == "Alias"}
    if kind in _IN_PYTHON:
        results, functions = elements(java.resultAttrs()), elements(java.udfs())
        makes = {result.exprId().id(): function for result, function in zip(results, functions, strict=True)}
    return PlanNode(java, kind, children, [column.exprId().id() for column in elements(java.output())], makes)


def all_of(node: PlanNode) -> Iterator[PlanNode]:
    """A node and those below it, in the order of the plan; one that is referred to twice comes twice."""
    yield node
    for child in node.children:
        yield from all_of(child)


def told_plan(plan: Any) -> Any:
    """An analyzed plan in the form in which it is told: sources without their inside, and a clock that stands still."""
    below = list(elements(plan.children()))
    if kind_of(plan) == "Project" and _is_inside(below[0]) and not _is_inside(plan):
        return internals.as_leaf(plan)
    children = [told_plan(child) for child in below]
    if any(new is not old for new, old in zip(children, below, strict=True)):
        plan = internals.with_children(plan, children)
    return internals.without_clock(plan)


def standing_alone(operator: Any, whole: Any) -> Any:
    """A part of a plan as a plan of its own, with the common table expressions that it may refer to.

    An inner join's condition is the same there as above it, so it does not stand there.
    """
    if kind_of(operator) == "Join" and operator.joinType().sql() in INNER:
        operator = internals.without_condition(operator)
    for defining in reversed([node for node in nodes_of(whole) if kind_of(node) == _COMMON]):
        *defined, _ = elements(defining.children())
        operator = internals.with_children(defining, [*defined, operator])
    return operator


def _is_inside(node: Any) -> bool:
    """Whether its columns are those inside of a ``KafkaSource``."""
    return any(column.name() == _INSIDE for column in elements(node.output()))
