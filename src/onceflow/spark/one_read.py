"""One read for several outputs: branches that only select and filter what they start from become one pass over it.

Must not know: sinks, the journal, what a row is written to. Two frames that start from one ``load()`` are two reads of
the source to Spark, also in one union. Where their plans part by nothing but projections and filters, each row that
they start from gives at most one row to each of them; so one wide row can hold all, null where a branch has none.

Which positions a checkpoint has must not hang on that: a function in a branch may make it impossible with the next
edit. So the branches that are read along stay in the plan as they are, with a filter that lets nothing pass: Spark
numbers the sources of a plan before its optimizer takes what is empty out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.spark.internals import analyzed_plan, column_of, elements, empty, frame_of, with_children
from onceflow.spark.plan import is_stateful, kind_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PYTHON = "Python"
_OURS = "_onceflow_branch"


@dataclass(frozen=True, slots=True)
class Reads:
    """What to make one union of.

    Attributes:
        frames: One for each branch, in their order.
        together: Places of the branches that are read together, each group in order; none for one that is alone.
    """

    frames: tuple[DataFrame, ...]
    together: tuple[tuple[int, ...], ...]


def read_once(branches: Sequence[DataFrame], mode: str = "append") -> Reads:
    """The branches, with one pass in the place of the first of those that can share it.

    The pass has the columns of all that share it, and a row for each row that is in any of them; what is not a row of a
    branch is null in its columns. The others stay where they are, and are empty. So the order of the plan's sources is
    that of the branches.

    A branch shares a pass where nothing lies between it and what it has in common with another but projections and
    filters whose expressions give the same for the same row and are Spark's own: a Python function would be called for
    rows that a filter keeps from it.

    Args:
        branches: Frames of which no two have a column of the same name.
        mode: Spark's output mode. In update mode it takes no limit in a stream, of which ``empty`` is made, and each
            branch reads for itself.
    """
    if mode == "update":
        return Reads(tuple(branches), ())
    passes: list[_Pass] = []
    for number, frame in enumerate(branches):
        steps = _steps(frame)
        if not any(one.takes(number, steps) for one in passes):
            passes.append(_Pass({number: steps}))
    shared = [one for one in passes if len(one.members) > 1]
    frames = list(branches)
    for one in shared:
        first, *others = one.members
        frames[first] = one.together(branches[first])
        for number in others:
            frames[number] = empty(branches[number])
    return Reads(tuple(frames), tuple(tuple(one.members) for one in shared))


def _steps(frame: DataFrame) -> list[Any]:
    """A branch's plan from its top down to the first node that is no projection and no filter of the kind told above.

    The last node is what the branch starts from at the least; one that keeps state is shared with nobody.
    """
    node = analyzed_plan(frame)
    steps = [node]
    if is_stateful(frame):
        return steps
    while is_plain(node):
        node = node.children().apply(0)
        steps.append(node)
    return steps


def is_plain(node: Any) -> bool:
    """Whether a node of a plan is a projection or a filter of the kind told above."""
    if kind_of(node) not in ("Project", "Filter") or node.subqueries().size():
        return False
    if kind_of(node) == "Project":
        kinds = {kind_of(e) for e in elements(node.projectList())}
        if not kinds <= {"Alias", "AttributeReference"}:
            return False
    return all(e.deterministic() and not _has_python(e) for e in elements(node.expressions()))


def _has_python(expression: Any) -> bool:
    return kind_of(expression).startswith(_PYTHON) or any(map(_has_python, elements(expression.children())))


@dataclass
class _Pass:
    """Branches that have a node in common.

    Attributes:
        members: The steps of each, by its number among all branches.
        depths: For each, at which of its steps the common node stands.
    """

    members: dict[int, list[Any]]
    depths: dict[int, int] = field(default_factory=dict)

    def takes(self, number: int, steps: list[Any]) -> bool:
        """Take a branch in, if it has a node in common with all that are here."""
        all_steps = [*self.members.values(), steps]
        shortest = min(all_steps, key=len)
        for node in shortest:
            depths = [next((i for i, other in enumerate(each) if node.equals(other)), -1) for each in all_steps]
            if -1 not in depths:
                self.members[number] = steps
                self.depths = dict(zip(self.members, depths, strict=True))
                return True
        return False

    def together(self, frame: DataFrame) -> DataFrame:
        """One frame with the columns of all."""
        number, steps = next(iter(self.members.items()))
        wide = frame_of(frame.sparkSession, steps[self.depths[number]])
        branches = [Branch(number, wide) for number in self.members]
        for branch in branches:
            for node in reversed(self.members[branch.number][: self.depths[branch.number]]):
                wide = branch.passed_through(node, wide)
        conditions = [branch.condition for branch in branches if branch.condition is not None]
        if len(conditions) == len(branches):
            wide = wide.where(reduce(or_, conditions))
        columns = [column for branch in branches for column in branch.columns(self.members[branch.number][0])]
        return wide.select(*columns)


class Branch:
    """One branch while it is made a part of a wide frame, step by step from below.

    Args:
        number: Its number among all branches.
        wide: The frame that it starts from.
    """

    def __init__(self, number: int, wide: DataFrame) -> None:
        self.number = number
        self.condition: Column | None = None
        """True where a row has passed the branch's filters, else false; None before the first of them."""
        self._made = {attribute.exprId().id(): attribute for attribute in elements(analyzed_plan(wide).output())}

    def passed_through(self, node: Any, wide: DataFrame) -> DataFrame:
        """The wide frame with what a node makes, in columns of its own."""
        if kind_of(node) == "Filter":
            passes = F.coalesce(self._guarded(self._rebased(node.condition())), F.lit(False))
            wide, (attribute,) = self._with(wide, [passes])
            self.condition = column_of(attribute)
            return wide
        made = [named for named in elements(node.projectList()) if kind_of(named) == "Alias"]
        if not made:
            return wide
        wide, attributes = self._with(wide, [self._guarded(self._rebased(named.child())) for named in made])
        self._made |= {named.exprId().id(): attribute for named, attribute in zip(made, attributes, strict=True)}
        return wide

    def columns(self, top: Any) -> list[Column]:
        """The branch's own columns, null where a row did not pass its filters."""
        return [self._guarded(self._rebased(attribute)).alias(attribute.name()) for attribute in elements(top.output())]

    def _with(self, wide: DataFrame, columns: list[Column]) -> tuple[DataFrame, list[Any]]:
        """A frame with more columns, and what they are called with: never their names, which others may have."""
        wide = wide.select("*", *(column.alias(_OURS) for column in columns))
        return wide, list(elements(analyzed_plan(wide).output()))[-len(columns) :]

    def _guarded(self, expression: Any) -> Column:
        """Made only for rows that passed: what lies behind a filter may rely on it, and fail for others."""
        column = column_of(expression)
        return column if self.condition is None else F.when(self.condition, column)

    def _rebased(self, expression: Any) -> Any:
        """An expression over the wide frame's columns.

        Also what is taken from the common node as it is: what it is called with must say whether it may be null.
        """
        if kind_of(expression) == "AttributeReference":
            return self._made[expression.exprId().id()]
        children = list(elements(expression.children()))
        return with_children(expression, [self._rebased(child) for child in children]) if children else expression
