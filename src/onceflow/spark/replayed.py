"""The first epoch of a query, where an earlier run has planned it: some connectors fail when that epoch is done.

Must not know: what an epoch does, sinks, the journal.

When an epoch is done Spark asks its sources how far they are behind. The Kafka connector of Spark 4.1 (SPARK-57438)
does not know where its topics end before it has planned an epoch itself, and takes that for an error: each start behind
a death would end once more. So a source is asked the same before, and one that fails is let look.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from onceflow.spark.internals import elements, executed_plan, java, query_of

log = logging.getLogger(__name__)

Run = Callable[[DataFrame, int], None]


def with_known_ends(session: SparkSession, run: Run) -> Run:
    """What runs epochs, as Spark calls it; before the first its sources know where their topics end.

    Args:
        session: The session that the query is started in.
        run: What runs an epoch.
    """
    looked = False

    def epoch(batch: DataFrame, number: int) -> None:
        nonlocal looked
        if not looked:
            looked = True
            try:
                _look(session, executed_plan(session, query_of(batch)))
            except Exception:  # Spark's private classes: most connectors need nothing of it
                log.debug("whether the sources know their ends could not be told", exc_info=True)
        run(batch, number)

    return epoch


def _look(session: SparkSession, plan: Any) -> None:
    jvm = java(session)
    everything = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.allAvailable()
    for scan in _scans(plan):
        source = scan.stream()
        try:
            source.metrics(jvm.java.util.Optional.of(scan.end()))
        except Py4JJavaError:
            log.debug("a source does not know where its topics end, and looks")
            with contextlib.suppress(Py4JJavaError):  # the broker may be away, which the epoch itself is told
                source.latestOffset(scan.start(), everything)


def _scans(node: Any) -> Iterator[Any]:
    if node.getClass().getSimpleName() == "MicroBatchScanExec":
        yield node
    for child in elements(node.children()):
        yield from _scans(child)
