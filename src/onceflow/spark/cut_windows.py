"""Windows that began before a cut are held back: a part of what they gathered is in no state that is here.

Must not know: checkpoints, why there was a cut, sinks. A plan goes in, and one with filters comes out.

A job that takes the positions of another one and not its state reads on behind events of up to some time. A window that
began by then had gathered some of them, and would come out as if it had not. So its rows are left out below the
aggregation, where each row has its window. A session is not known there; above it Spark (4.2) moves a filter of its
beginning below all the same, and makes other sessions of what is left. Windows of windows lack what is held back below
them: of these all are held back that began before the last of those ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.spark.internals import Optimizer, analyzed_plan, column_of, elements, frame_of, with_children
from onceflow.spark.marks import one_mark
from onceflow.spark.plan import keeps_state, kind_of, nodes_of
from onceflow.twophase.layout import Cut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MAKING = {"Project": "projectList", "Aggregate": "aggregateExpressions"}
_WINDOW, _SESSION, _DELAY = "spark.timeWindow", "spark.sessionWindow", "spark.watermarkDelayMs"


@dataclass(frozen=True)
class HeldBack:
    """A frame without the windows that began before a cut.

    Attributes:
        frame: It.
        holds: Windows are left out.
        until_ms: Those that began by then, in milliseconds: of windows of windows some are later than the cut.
        partial: Windows that cannot be held back, by the names of their columns.
        others: Other operators, whose state begins empty.
        wider: What rows had to fulfil before the cut, and need not here: then no window can be held back.
    """

    frame: DataFrame
    holds: bool
    until_ms: int
    partial: tuple[str, ...]
    others: tuple[str, ...]
    wider: tuple[str, ...] = ()


def hold_back(frame: DataFrame, cut: Cut) -> HeldBack:
    """Leave the windows out that began before a cut.

    Args:
        frame: A stream.
        cut: Where it lies: of rows that the frame counts and that were left out before it, nobody knows how far they
            were read.
    """
    wider = _wider(frame, cut)
    work = _Work(frame, 0 if wider else cut.at_ms)
    found, _ = work.rebuilt(analyzed_plan(frame))
    held, until_us = (frame_of(frame.sparkSession, found) if work.cuts else frame), max(work.cuts.values(), default=0)
    partial, others = (tuple(dict.fromkeys(names)) for names in (work.partial, work.others))
    return HeldBack(held, bool(work.cuts), until_us // 1000, partial, others, wider)


def _wider(frame: DataFrame, cut: Cut) -> tuple[str, ...]:
    """What rows had to fulfil before a cut, and need not behind it."""
    mark = one_mark(frame) if cut.rows else None
    return tuple(asked for asked in cut.rows if mark is None or asked not in mark.rows)


@dataclass
class _Work:
    """One plan that is rebuilt.

    Attributes:
        frame: Of it.
        cut_ms: Where the cut lies, in milliseconds; 0 where nobody knows it.
        cuts: Of windows that are held back, by the ids of their columns: up to which beginning, in microseconds.
        partial: As of ``HeldBack``.
        others: Likewise.
    """

    frame: DataFrame
    cut_ms: int
    cuts: dict[int, int] = field(default_factory=dict)
    partial: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def rebuilt(self, node: Any) -> tuple[Any, int | None]:
        """A plan with filters, or the same where it needs none; and up to which time it lacks rows, in microseconds.

        The time is None where it is not known. It is that of the watermark alone: of another nobody knows how far it
        was read.
        """
        children = list(elements(node.children()))
        done = [self.rebuilt(child) for child in children]
        now = [plan for plan, _ in done]
        every = [lacks for _, lacks in done] or [self.cut_ms * 1000 + 999 if self.cut_ms else None]
        lacks = None if None in every else max(filter(None, every))
        if node.isStreaming() and keeps_state(node):
            windows = list(_windows(node)) if kind_of(node) == "Aggregate" else []
            if not windows:
                self.others.append(str(node.nodeName()))
            for window in windows:
                key, made = _made_by(children[0], window.exprId().id())
                # One that is gathered again lacks nothing more than before.
                cut = self.cuts.get(key, lacks)
                if cut is None or not all(map(window.metadata().contains, (_WINDOW, _DELAY))):
                    self.partial.append(str(window.name()))
                    continue
                self.cuts[key] = cut
                later = column_of(window).getField("start") > F.timestamp_micros(F.lit(cut))
                now = [analyzed_plan(frame_of(self.frame.sparkSession, now[0]).where(later))]
                lacks = None if lacks is None or made is None else max(lacks, self._last(made, cut))
        same = all(a is b for a, b in zip(children, now, strict=True))
        return node if same else with_children(node, now), lacks

    def _last(self, made: Any, at_us: int) -> int:
        """The last moment of the windows that began by a time: what gathers windows takes it for the window's."""
        session = self.frame.sparkSession
        one = session.range(1)
        (at,) = elements(analyzed_plan(one.select(F.timestamp_micros(F.lit(at_us)).alias("at"))).projectList())
        ends = F.unix_micros(column_of(_with(made, at.child()))["end"]).alias("ends")
        (end,) = elements(Optimizer(session).optimized(analyzed_plan(one.select(ends))).projectList())
        return int(end.child().value()) - 1


def _made_by(plan: Any, key: int) -> tuple[int, Any]:
    """Under which id the windows of a column were made, and by which expression; None where that is not known.

    Of windows that overlap, of which a row gets several, it is that of the last: Spark tells them from the last on.
    """
    for node in nodes_of(plan):
        kind, output = kind_of(node), [column.exprId().id() for column in elements(node.output())]
        if kind == "Union" and key in output:
            break  # each of its plans may have other ones
        if kind == "Expand" and key in output:
            return key, node.projections().apply(0).apply(output.index(key))
        for named in elements(getattr(node, _MAKING[kind])()) if kind in _MAKING else ():
            if kind_of(named) == "Alias" and named.exprId().id() == key:
                if kind_of(named.child()) != "AttributeReference":
                    return key, named.child()
                key = named.child().exprId().id()
    return key, None


def _with(expression: Any, time: Any) -> Any:
    """An expression of a row's time, over this one."""
    if kind_of(expression) == "AttributeReference":
        return time
    children = [_with(child, time) for child in elements(expression.children())]
    return with_children(expression, children) if children else expression


def _windows(node: Any) -> Iterator[Any]:
    """The windows of event time that an aggregation groups by."""
    for expression in elements(node.groupingExpressions()):
        for attribute in elements(expression.references().toSeq()):
            if attribute.metadata().contains(_WINDOW) or attribute.metadata().contains(_SESSION):
                yield attribute
