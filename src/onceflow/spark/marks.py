"""The one watermark that all state of a plan goes by: its delay, and which rows have moved it, in words.

Must not know: checkpoints, what is done with it, sinks. A watermark tells how far a stream was read, but only of the
rows that came by: those of other sources did not move it, nor those that a condition below it leaves out. Spark moves
conditions below it for what stands above, so they are asked of the optimized plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from onceflow.spark.internals import Optimizer, analyzed_plan, elements
from onceflow.spark.kept import VOCABULARY, room_for_depth
from onceflow.spark.plan import keeps_state, kind_of, nodes_of, read_below
from onceflow.spark.trees import REFERENCE, PlanNode, all_of, told_plan, tree_of
from onceflow.spark.words import SAY_NOTHING, Words, conjuncts, named, names_of
from onceflow.twophase.layout import Watermark

MARK, DELAY = "EventTimeWatermark", "spark.watermarkDelayMs"


def one_mark(frame: DataFrame) -> Watermark | None:
    """The one watermark that all state of a plan goes by; None where there is none such.

    Of several Spark takes the least, which tells of no stream how far it was read; and it tells nothing of a stream
    that has none. One that stands in several places has moved by the least of them, so each must have seen the same.
    """
    plan = analyzed_plan(frame)
    nodes = list(nodes_of(plan))
    marks = {str(node.nodeId()): node for node in nodes if kind_of(node) == MARK}
    states = (node for node in nodes if node.isStreaming() and keeps_state(node))
    if len(marks) != 1 or any(None in marks_of(node, None) for node in states):
        return None
    (mark,) = marks.values()
    delays = [a.metadata().getLong(DELAY) for a in elements(mark.output()) if a.metadata().contains(DELAY)]
    with room_for_depth():
        runs = tree_of(Optimizer(frame.sparkSession).optimized(told_plan(plan)))
        words = Words(names_of(runs))
        seen = {_seen(node, words) for node in all_of(runs) if node.kind == MARK}
    read = (f"of {each}" for each in sorted(read_below(mark)))
    return Watermark(int(max(delays)), (*read, *seen.pop())) if len(seen) == 1 else None


def marks_of(node: Any, above: Any) -> Iterator[Any]:
    """For each stream that a plan reads, the watermark that it goes by first; what is given where it has none."""
    children = list(elements(node.children()))
    below = node if kind_of(node) == MARK else above
    if not children and node.isStreaming():
        yield below
    for child in children:
        yield from marks_of(child, below)


def _seen(mark: PlanNode, words: Words) -> tuple[str, ...]:
    time = words.of(mark.java.eventTime(), mark.children)
    return (f"told by {VOCABULARY}", f"by {time}", *sorted(set(_fulfilled(mark.children[0], words))))


def _fulfilled(node: PlanNode, words: Words) -> Iterator[str]:
    """What rows had to fulfil to come out of a node; of several that are put together, as one for all."""
    if node.kind == "Filter":
        yield from (words.of(part, node.children) for part in conjuncts(node.java.condition()))
    elif node.children and node.kind not in SAY_NOTHING:
        yield f"{named(node)}({', '.join(words.of(each, node.children) for each in elements(node.java.expressions()))})"
    sides = [sorted(set(_fulfilled(child, words))) for child in node.children]
    if len(sides) < 2 or node.kind == REFERENCE:
        yield from (said for side in sides for said in side)
    elif any(sides) or node.kind == "Union":
        yield f"{named(node)} of {' or of '.join('(' + ' and '.join(side) + ')' for side in sides)}"
