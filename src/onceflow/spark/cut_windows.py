"""Windows that began before a cut are held back: a part of what they gathered is in no state that is here.

Must not know: checkpoints, why there was a cut, sinks. A plan goes in, and one with filters comes out.

A job that takes the positions of another one and not its state reads on behind events of up to some time. A window that
began by then had gathered some of them, and would come out as if it had not. So its rows are left out below the
aggregation, where each row has its window. A session is not known there; above it Spark (4.2) moves a filter of its
beginning below all the same, and makes other sessions of what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.spark.internals import analyzed_plan, column_of, elements, frame_of, with_children
from onceflow.spark.plan import keeps_state, kind_of, nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WINDOW, _SESSION, _DELAY = "spark.timeWindow", "spark.sessionWindow", "spark.watermarkDelayMs"


@dataclass(frozen=True)
class HeldBack:
    """A frame without the windows that began before a cut.

    Attributes:
        frame: It.
        until_ms: Windows that began by then are left out: in milliseconds; None where none are.
        partial: Windows that cannot be held back, by the names of their columns.
        others: Other operators, whose state begins empty.
    """

    frame: DataFrame
    until_ms: int | None
    partial: tuple[str, ...]
    others: tuple[str, ...]


def hold_back(frame: DataFrame, watermark_ms: int) -> HeldBack:
    """Leave the windows out that began before a cut.

    Args:
        frame: A stream.
        watermark_ms: The watermark of the plan that had read all before the cut: the latest event's time, less the
            watermark's delay. Of several watermarks it is the least, and tells of no stream where it stood.
    """
    plan = analyzed_plan(frame)
    marks = {str(node.nodeId()) for node in nodes_of(plan) if kind_of(node) == "EventTimeWatermark"}
    work = _Work(frame, watermark_ms, one=len(marks) == 1)
    found = work.rebuilt(plan)
    held = frame if work.until_ms is None else frame_of(frame.sparkSession, found)
    return HeldBack(held, work.until_ms, tuple(dict.fromkeys(work.partial)), tuple(dict.fromkeys(work.others)))


@dataclass
class _Work:
    """One plan that is rebuilt.

    Attributes:
        frame: Of it.
        watermark_ms: As of ``hold_back``.
        one: It is the watermark of the whole plan.
        until_ms: As of ``HeldBack``.
        partial: Likewise.
        others: Likewise.
    """

    frame: DataFrame
    watermark_ms: int
    one: bool
    until_ms: int | None = None
    partial: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def rebuilt(self, node: Any) -> Any:
        """A plan with filters, or the same where it needs none."""
        children = list(elements(node.children()))
        now = [self.rebuilt(child) for child in children]
        if node.isStreaming() and keeps_state(node):
            windows = list(_windows(node)) if kind_of(node) == "Aggregate" else []
            if not windows:
                self.others.append(str(node.nodeName()))
            for window in windows:
                now = [self._since(now[0], window)]
        same = all(a is b for a, b in zip(children, now, strict=True))
        return node if same else with_children(node, now)

    def _since(self, plan: Any, window: Any) -> Any:
        """A plan without rows whose window began by the time of the latest event before the cut."""
        told = window.metadata()
        if not (self.one and told.contains(_WINDOW) and told.contains(_DELAY)):
            self.partial.append(str(window.name()))
            return plan
        seen = self.watermark_ms + int(told.getLong(_DELAY))
        self.until_ms = max(seen, self.until_ms or seen)
        begins = column_of(window).getField("start")
        return analyzed_plan(frame_of(self.frame.sparkSession, plan).where(begins > F.timestamp_millis(F.lit(seen))))


def _windows(node: Any) -> Iterator[Any]:
    """The windows of event time that an aggregation groups by."""
    for expression in elements(node.groupingExpressions()):
        for attribute in elements(expression.references().toSeq()):
            if attribute.metadata().contains(_WINDOW) or attribute.metadata().contains(_SESSION):
                yield attribute
