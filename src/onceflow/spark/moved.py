"""Conditions that Spark's optimizer puts below a state for what stands above it.

Must not know: what a state keeps beside rows, sinks, the journal. Rows that a condition above leaves out are left out
below then, before they are kept; and what was kept before has passed there. Such a condition is found by comparing: it
stands below the operator in the plan that runs, and would not if the operator stood alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from onceflow.spark.internals import Optimizer, analyzed_plan
from onceflow.spark.trees import PlanNode, all_of, standing_alone, told_plan, tree_of
from onceflow.spark.words import Words, names_of

_EXCLUDED = "spark.sql.optimizer.excludedRules"
_ONLY_MOVED = {
    "spark.sql.constraintPropagation.enabled": "false",
    _EXCLUDED: "org.apache.spark.sql.catalyst.optimizer.PushExtraPredicateThroughJoin",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
}
"""Settings without which Spark makes further conditions of one that stays where it is."""


@dataclass(frozen=True)
class Found:
    """A state operator of a plan.

    Attributes:
        asked: It as it was asked for; as it runs, where Spark has made it by itself.
        runs: It as it runs.
        words: How its expressions are told.
        moved: Conditions that Spark has moved below it.
        narrowed: Conditions that Spark has made below it of such as are asked elsewhere all the same.
    """

    asked: PlanNode
    runs: PlanNode
    words: Words
    moved: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()


def operators_of(written: DataFrame) -> list[Found]:
    """The state operators of an output, in the order of the plan."""
    plan = told_plan(analyzed_plan(written))
    asked = tree_of(plan)
    words = Words(names_of(asked))
    spark = _Optimized(words, plan, Optimizer(written.sparkSession))
    pairs = list(_pairs(asked, spark.operators))
    if not any(_may_move(user or runs, asked) for user, runs in pairs):
        return [Found(user or runs, runs, words) for user, runs in pairs]
    moves = _Optimized(words, plan, Optimizer(written.sparkSession, _only_moved(written.sparkSession)))
    if [node.family for node in moves.operators] != [node.family for node in spark.operators]:
        moves = spark
    found = []
    for (user, runs), same in zip(pairs, moves.operators, strict=True):
        moved = moves.below(user, same)
        made = spark.below(user, runs) - moved
        found.append(Found(user or runs, runs, words, tuple(sorted(moved)), tuple(sorted(made))))
    return found


def _only_moved(session: SparkSession) -> dict[str, str]:
    excluded = session.conf.get(_EXCLUDED, "") or ""
    return {**_ONLY_MOVED, _EXCLUDED: ",".join(filter(None, (excluded, _ONLY_MOVED[_EXCLUDED])))}


def _pairs(asked: PlanNode, by_spark: list[PlanNode]) -> Iterator[tuple[PlanNode | None, PlanNode]]:
    """The state operators that run, each with the one that was asked for: None where Spark has made it by itself."""
    by_user = _stateful(asked)
    if [node.family for node in by_user] == [node.family for node in by_spark]:
        yield from zip(by_user, by_spark, strict=True)
        return
    for runs in by_spark:
        alike = (user for user in by_user if user.family == runs.family and set(user.columns) & set(runs.columns))
        yield next(alike, None), runs


def _stateful(plan: PlanNode) -> list[PlanNode]:
    return [node for node in all_of(plan) if node.has_state]


def _may_move(operator: PlanNode, whole: PlanNode) -> bool:
    """Whether anything stands beside or above an operator, or is its condition, that Spark could move below it."""
    below = {id(node) for child in operator.children for node in all_of(child)}
    return any(node.kind in ("Filter", "Join") and id(node) not in below for node in all_of(whole))


class _Optimized:
    """A plan as an optimizer leaves it.

    Args:
        words: How it is told.
        plan: It, as it was asked for.
        optimizer: Which conditions it moves counts.
    """

    def __init__(self, words: Words, plan: Any, optimizer: Optimizer) -> None:
        self._words, self._plan, self._optimizer = words, plan, optimizer
        self.operators = _stateful(tree_of(optimizer.optimized(plan)))

    def below(self, asked: PlanNode | None, runs: PlanNode) -> set[str]:
        """What stands below an operator, and would not if nothing stood above it."""
        alone: set[str] = set()
        if asked is not None:
            plan = tree_of(self._optimizer.optimized(standing_alone(asked.java, self._plan)))
            alone = self._of(next((node for node in all_of(plan) if node.family == runs.family), plan))
        return self._of(runs) - alone

    def _of(self, operator: PlanNode) -> set[str]:
        return {said for child in operator.children for said in self._words.of_rows(child)}
