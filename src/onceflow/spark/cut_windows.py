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
        holds: Windows are left out.
        partial: Windows that cannot be held back, by the names of their columns.
        others: Other operators, whose state begins empty.
    """

    frame: DataFrame
    holds: bool
    partial: tuple[str, ...]
    others: tuple[str, ...]


def hold_back(frame: DataFrame, cut_ms: int) -> HeldBack:
    """Leave the windows out that began before a cut.

    Args:
        frame: A stream.
        cut_ms: The time of the latest event before the cut, 0 where nobody knows it.
    """
    work = _Work(frame, cut_ms)
    found = work.rebuilt(analyzed_plan(frame))
    held = frame_of(frame.sparkSession, found) if work.holds else frame
    return HeldBack(held, work.holds, tuple(dict.fromkeys(work.partial)), tuple(dict.fromkeys(work.others)))


def one_delay(frame: DataFrame) -> int | None:
    """The delay, in milliseconds, of the one watermark that all state of a plan goes by; None where there is none.

    Of several Spark takes the least, which tells of no stream how far it was read; and it tells nothing of a stream
    that has none.
    """
    nodes = list(nodes_of(analyzed_plan(frame)))
    marks = {str(node.nodeId()): node for node in nodes if kind_of(node) == "EventTimeWatermark"}
    states = (node for node in nodes if node.isStreaming() and keeps_state(node))
    if len(marks) != 1 or any(None in _marks(node, None) for node in states):
        return None
    (mark,) = marks.values()
    delays = [a.metadata().getLong(_DELAY) for a in elements(mark.output()) if a.metadata().contains(_DELAY)]
    return int(max(delays))


def _marks(node: Any, above: Any) -> Iterator[Any]:
    """For each stream that is read, the watermark that it goes by first."""
    children = list(elements(node.children()))
    below = node if kind_of(node) == "EventTimeWatermark" else above
    if not children and node.isStreaming():
        yield below
    for child in children:
        yield from _marks(child, below)


@dataclass
class _Work:
    """One plan that is rebuilt.

    Attributes:
        frame: Of it.
        cut_ms: As of ``hold_back``.
        holds: As of ``HeldBack``.
        partial: Likewise.
        others: Likewise.
    """

    frame: DataFrame
    cut_ms: int
    holds: bool = False
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
        """A plan without rows whose window began by the cut."""
        if not (self.cut_ms and window.metadata().contains(_WINDOW)):
            self.partial.append(str(window.name()))
            return plan
        self.holds = True
        begins = column_of(window).getField("start")
        later = begins > F.timestamp_millis(F.lit(self.cut_ms))
        return analyzed_plan(frame_of(self.frame.sparkSession, plan).where(later))


def _windows(node: Any) -> Iterator[Any]:
    """The windows of event time that an aggregation groups by."""
    for expression in elements(node.groupingExpressions()):
        for attribute in elements(expression.references().toSeq()):
            if attribute.metadata().contains(_WINDOW) or attribute.metadata().contains(_SESSION):
                yield attribute
