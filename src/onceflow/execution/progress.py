"""After an epoch: its log line, and its offsets in Kafka's groups for monitoring.

Must not know: the rules. It hears of an epoch when Spark has recorded it, so what it publishes never passes what is
committed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from onceflow.checkpoint.spark_files import lag as lag_of
from onceflow.connectors.contract import Source, SourceConnection
from onceflow.errors import OnceflowError
from onceflow.execution.driver import EpochReport
from onceflow.spark.internals import add_listener

log = logging.getLogger(__name__)

_LAST_WITHIN_S = 5.0


class Progress:
    """Hears of every epoch of one query.

    It is a listener of Spark's own interface, not PySpark's: PySpark (4.2) takes each event apart field by field, in
    calls to Java that search the class path for names that are no classes. At two epochs a second that was a sixth of
    the driver's work; the event's JSON is one call.

    Args:
        name: The job's name.
        reports: The driver's reports by epoch; one is taken out when its line is written.
        sources: The sources of the query's plan, as Spark's progress lists them; None for one that is not ours.
    """

    def __init__(self, name: str, reports: dict[int, EpochReport], sources: Sequence[Source | None]) -> None:
        self._name = name
        self._reports = reports
        self._sources = tuple(sources)
        self._connections: dict[Hashable, SourceConnection] = {}
        self._run_id: str | None = None
        self._heard_all = threading.Event()
        self._listening: Callable[[], object] | None = None

    def listen(self, session: SparkSession) -> None:
        """Begin to hear."""
        self._listening = add_listener(session, _Listener(self))

    def watch(self, run_id: str) -> None:
        """Say which query is meant: a session has one list of listeners for all of its queries."""
        self._run_id = run_id

    def hear(self, progress: Mapping[str, Any]) -> None:
        """Spark has recorded an epoch.

        Args:
            progress: ``StreamingQueryProgress.json``, read.
        """
        if self._run_id is not None and progress["runId"] != self._run_id:
            return
        report = self._reports.pop(progress["batchId"], None)
        if report is None:
            return  # an idle trigger: no epoch ran
        lag = sum(lag_of(source) for source in progress["sources"])
        took = progress["durationMs"].get("triggerExecution", 0)
        log.info("%s", line(report, progress["numInputRows"], took, lag))
        observed = progress.get("observedMetrics") or {}
        for source in self._sources:
            if source is not None and (count := source.malformed(observed)):
                log.warning("epoch %d: %d malformed records skipped (%r)", report.epoch, count, source)
        self._publish([json.dumps(source["endOffset"]) for source in progress["sources"]])

    def hear_end(self, run_id: str) -> None:
        """Spark delivers a query's end after all of its epochs."""
        if run_id == self._run_id:
            self._heard_all.set()

    def close(self, *, ended: bool) -> None:
        """Hear no more, and close connections.

        Args:
            ended: The query has ended by itself: what is on its way of its last epochs is waited for, for a moment.
        """
        if ended:
            self._heard_all.wait(_LAST_WITHIN_S)
        if self._listening is not None:
            with contextlib.suppress(Exception):  # the session may be gone
                self._listening()
        for connection in list(self._connections.values()):
            connection.close()

    def _publish(self, positions: Sequence[str]) -> None:
        for (system, group), (source, at) in to_publish(self._sources, positions).items():
            try:
                connection = self._connections.get(system) or source.connect()
                self._connections[system] = connection
                connection.publish(group, at)
            except OnceflowError as error:
                log.warning("offsets of group %s were not published: %s", group, error.what)


def to_publish(
    sources: Sequence[Source | None], positions: Sequence[str]
) -> dict[tuple[Hashable, str], tuple[Source, list[str]]]:
    """What each group is told, by system and group: a source by which it is reached, and the positions of all of its.

    Args:
        sources: The query's sources; None for one that is not ours.
        positions: Where each of them stands.
    """
    told: dict[tuple[Hashable, str], tuple[Source, list[str]]] = {}
    if len(sources) != len(positions):
        return told  # whose position is whose cannot be told
    for source, at in zip(sources, positions, strict=True):
        if source is not None and source.group is not None:
            told.setdefault((source.system, source.group), (source, []))[1].append(at)
    return told


def line(report: EpochReport, records_in: int, duration_ms: int, lag: int) -> str:
    """An epoch in one line."""
    phases = ", ".join(f"{name} {spent * 1000:.0f}" for name, spent in report.phases.items())
    return (
        f"epoch {report.epoch}: {records_in:,} in, {report.rows:,} out, {report.participants} participants, "
        f"{duration_ms:,} ms ({phases or 'nothing to do'}), lag {lag:,}"
    )


class _Listener:
    """What py4j shows to Java as Spark's listener."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._progress.hear(json.loads(event.progress().json()))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._progress.hear_end(event.runId().toString())

    class Java:
        """py4j's way to name the interface."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
