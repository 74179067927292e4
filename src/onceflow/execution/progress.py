"""After an epoch: its log line, and its offsets in Kafka's groups for monitoring.

Must not know: the rules. It hears of an epoch when Spark has recorded it, so what it publishes never passes what is
committed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from pyspark.sql import SparkSession

from onceflow.checkpoint.spark_files import lag as lag_of
from onceflow.checkpoint.spark_files import partition_lags
from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.connectors.source_contract import Malformed, Source, SourceConnection
from onceflow.errors import EpochTimedOutError, EpochTooLongError, OnceflowError, TimeoutTooShortError
from onceflow.execution.epoch_report import EpochReport
from onceflow.execution.failures import from_spark
from onceflow.execution.job_log import JobLog
from onceflow.execution.observer import NOBODY, Observer
from onceflow.spark.internals import add_listener

log = logging.getLogger(__name__)

IDLE_EVERY_S = 30.0
_LAST_WITHIN_S = 5.0
_ALL_OF = 10
"""When so many records and no other are malformed, it is said that this is no matter of records."""

_TOLD = 2  # failures to publish
_FAR_AHEAD = timedelta(hours=1)


class Progress:
    """Hears of every epoch of one query.

    It is a listener of Spark's own interface, not PySpark's: PySpark (4.2) takes each event apart field by field, in
    calls to Java that search the class path for names that are no classes. At two epochs a second that was a sixth of
    the driver's work; the event's JSON is one call.

    Args:
        name: The job's name.
        reports: The driver's reports by epoch; one is taken out when its line is written.
        sources: The sources of the query's plan, as Spark's progress lists them; None for one that is not ours.
        runs: Called when the first epoch is done, or there is none to do.
        now: A monotonic clock.
        planned: The newest epoch that an earlier start has planned: of it Spark knows what there was to read then.
        newest: The newest epoch that an earlier start has done.
        readings: How often the plan reads each of the sources; once where that is not said.
        keep: Given what each epoch was like.
        group: The group of sources that name none; None: nothing is published, for no source.
        observer: Told of each epoch.
    """

    def __init__(
        self,
        name: str,
        reports: dict[int, EpochReport],
        sources: Sequence[Source | None],
        runs: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
        *,
        planned: int = -1,
        newest: int | None = None,
        readings: Sequence[int] = (),
        keep: Callable[[EpochStatistics], None] = lambda _: None,
        group: str | None = None,
        observer: Observer = NOBODY,
    ) -> None:
        self._log = JobLog(log, name)
        self._reports = reports
        self._sources = tuple(sources)
        self._connections: dict[Hashable, SourceConnection] = {}
        self._runs = runs
        self._keep = keep
        self._group = group
        self._observer = observer
        self._refused: dict[tuple[Hashable, str], int] = {}
        self._now = now
        self._planned = planned
        self._told_at = -math.inf
        self._newest = newest
        self._readings = tuple(readings)
        self._run_id: str | None = None
        self._far_ahead = False
        self._has_dead_letters: set[str] = set()
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
        self._runs()
        self._newest, self._told_at = report.epoch, self._now()
        lags = None if report.epoch <= self._planned else lags_of(progress["sources"])
        lag = None if lags is None else sum(map(lag_of, progress["sources"]))
        took = progress["durationMs"].get("triggerExecution", 0)
        entry = statistics(report, progress, self._sources, lag, self._readings)
        self._log.info("%s", line(report, sum(entry.records_in.values()), took, lag))
        self._keep(entry)
        self._observer.recorded(entry, lags)
        self._tell_of_malformed(report.epoch, progress)
        if entry.late:
            self._log.warning("%s", left_out_late(entry))
        self._warn_of_far_ahead(report.epoch, progress)
        self._publish([json.dumps(source["endOffset"]) for source in progress["sources"]])

    def hear_idle(self, run_id: str) -> None:
        """Spark has looked and found nothing to read."""
        if run_id != self._run_id:
            return
        self._runs()
        self._observer.idle()
        if self._now() - self._told_at >= IDLE_EVERY_S:
            self._told_at = self._now()
            self._log.info("idle, %s, lag 0", "no epoch yet" if self._newest is None else f"epoch {self._newest}")

    def hear_end(self, run_id: str) -> None:
        """Spark delivers a query's end after all of its epochs."""
        if run_id == self._run_id:
            self._heard_all.set()

    def hear_failure(self, report: EpochReport, error: BaseException) -> None:
        """An epoch has failed, and the query with it."""
        entry = failed(report, error)
        self._keep(entry)
        self._observer.failed(entry)

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

    def _tell_of_malformed(self, epoch: int, progress: Mapping[str, Any]) -> None:
        """Records are malformed one by one; where all of them are, it is the schema that is wrong."""
        observed = progress.get("observedMetrics") or {}
        for source in self._sources:
            if source is None or not (left_out := source.malformed(observed)).records:
                continue
            # Dead letters were asked for: that there are any is said once as a warning.
            level = logging.INFO if source.describe() in self._has_dead_letters else logging.WARNING
            self._log.log(level, "%s", skipped(epoch, source, left_out))
            if source.dead_letter is not None:
                self._has_dead_letters.add(source.describe())
            if _ALL_OF <= left_out.read <= left_out.records:
                self._log.error(
                    "epoch %d: every one of the %d records of %s is malformed and %s. That is a wrong format or schema "
                    "rather than wrong records; they are not read again",
                    epoch,
                    left_out.read,
                    source.describe(),
                    _went(source, "was left out"),
                )

    def _warn_of_far_ahead(self, epoch: int, progress: Mapping[str, Any]) -> None:
        newest = far_ahead(progress)
        if newest is not None and not self._far_ahead:
            self._log.warning(
                "epoch %d: the newest event is of %s, more than %g h ahead of the epoch itself: the watermark follows "
                "it, and from now on Spark drops events before it as late",
                epoch,
                newest,
                _FAR_AHEAD.total_seconds() / 3600,
            )
        self._far_ahead = newest is not None

    def _publish(self, positions: Sequence[str]) -> None:
        """Tell groups where the job stands. No epoch hangs on it: one line tells of failures, until it works again.

        What may pass is told when it comes twice: the first commit to a new cluster makes Kafka's topic for offsets.
        """
        if self._group is None:
            return
        for where, (source, at) in to_publish(self._sources, positions, self._group).items():
            system, group = where
            try:
                connection = self._connections.get(system) or source.connect()
                self._connections[system] = connection
                connection.publish(group, at)
            except OnceflowError as error:
                self._observer.published(taken=False)
                before = self._refused.get(where, 0)
                self._refused[where] = before + (1 if error.retriable else _TOLD)
                if before < _TOLD <= self._refused[where]:
                    self._log.warning(
                        "offsets are not published to group %s, so it shows no lag; the job goes on without: %s; %s",
                        group,
                        error.what,
                        error.action,
                    )
            else:
                self._observer.published(taken=True)
                if self._refused.pop(where, 0) >= _TOLD:
                    self._log.info("offsets are published to group %s again", group)


def lags_of(sources: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    """The lag of each partition that a source of an epoch reads; where several read it, of the one that is behind.

    Args:
        sources: The sources of ``StreamingQueryProgress``.
    """
    found: dict[tuple[str, str], int] = {}
    for source in sources:
        for place, behind in partition_lags(source).items():
            found[place] = max(behind, found.get(place, 0))
    return found


def lag_group(prefix: str, name: str) -> str:
    """The group that shows the lag of a job whose sources name none; also of jobs without rights on other prefixes.

    Args:
        prefix: First part of the job's transactional ids, which the rights on its groups begin with.
        name: The job's name.
    """
    return f"{prefix}-lag-{quote(name, safe='')}"


def to_publish(
    sources: Sequence[Source | None], positions: Sequence[str], own: str | None = None
) -> dict[tuple[Hashable, str], tuple[Source, list[str]]]:
    """What each group is told, by system and group: a source by which it is reached, and the positions of all of its.

    Args:
        sources: The query's sources; None for one that is not ours.
        positions: Where each of them stands.
        own: The group of sources that name none.
    """
    told: dict[tuple[Hashable, str], tuple[Source, list[str]]] = {}
    if len(sources) != len(positions):
        return told  # whose position is whose cannot be told
    for source, at in zip(sources, positions, strict=True):
        group = None if source is None else source.group or own
        if source is not None and group is not None:
            told.setdefault((source.system, group), (source, []))[1].append(at)
    return told


def far_ahead(progress: Mapping[str, Any]) -> str | None:
    """The time of an epoch's newest event, where the plan has a watermark and the time is not plausible.

    What a ``KafkaSource`` reads has been looked at; a time that the plan makes, or another source gives, has not.
    """
    newest = (progress.get("eventTime") or {}).get("max")
    if newest is None or newest.startswith("-"):
        return None
    if newest.startswith("+"):  # beyond the year 9999
        return str(newest)
    return (
        newest if datetime.fromisoformat(newest) > datetime.fromisoformat(progress["timestamp"]) + _FAR_AHEAD else None
    )


def skipped(epoch: int, source: Source, left_out: Malformed) -> str:
    """What an epoch left out of a source, in one line."""
    more = "; ..." if left_out.records > len(left_out.first) else ""
    where = f": {'; '.join(left_out.first)}{more}" if left_out.first else ""
    return (
        f"epoch {epoch}: {left_out.records:,} malformed records {_went(source, 'skipped')} ({source.describe()}){where}"
    )


def _went(source: Source, left_out: str) -> str:
    return left_out if source.dead_letter is None else f"went to sink {source.dead_letter.sink.name}"


def statistics(
    report: EpochReport,
    progress: Mapping[str, Any],
    sources: Sequence[Source | None],
    lag: int | None,
    readings: Sequence[int] = (),
) -> EpochStatistics:
    """What an epoch was like, of what the driver and Spark tell of it."""
    states = progress.get("stateOperators") or []
    return replace(
        _of(report, "COMPLETED"),
        triggered_at=progress["timestamp"],
        duration_ms=progress["durationMs"].get("triggerExecution"),
        records_in=records_in(progress["sources"], sources, readings),
        state_rows=sum(state["numRowsTotal"] for state in states) if states else None,
        state_bytes=sum(state["memoryUsedBytes"] for state in states) if states else None,
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        lag=lag,
        late=late_by_operator(states),
    )


_OPERATORS: Mapping[str, str] = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "aggregation of sessions",
    "symmetricHashJoin": "join",
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication",
}
"""Spark's names for what keeps state, in words; the others are called as there."""
_GATHERS = "aggregation"


def late_by_operator(states: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many rows each operator left out since the watermark had passed them, where it left out any.

    A join, a deduplication and a function with state count the rows that they were given. An aggregation is given what
    was gathered of them, by task and group: at least so many rows are late.

    Args:
        states: The state operators of ``StreamingQueryProgress``, from the top of the plan down.
    """
    names = [_OPERATORS.get(str(each["operatorName"]), str(each["operatorName"])) for each in states]
    found = {}
    for i, (name, each) in enumerate(zip(names, states, strict=True)):
        number = f" {names[: i + 1].count(name)}" if names.count(name) > 1 else ""
        if rows := each.get("numRowsDroppedByWatermark", 0):
            found[f"{name}{number}"] = int(rows)
    return found


def left_out_late(epoch: EpochStatistics) -> str:
    """What came too late for an epoch, in one line."""
    told = [
        f"{'at least ' if operator.startswith(_GATHERS) else ''}{rows:,} by the {operator}"
        for operator, rows in epoch.late.items()
    ]
    gathers = any(operator.startswith(_GATHERS) for operator in epoch.late)
    more = ", which gathers rows before it looks at their time" if gathers else ""
    return (
        f"epoch {epoch.epoch}: late rows are left out, {'; '.join(told)}{more}. The watermark had passed them: a "
        "longer delay of withWatermark, in SQL of WATERMARK FOR, waits for more"
    )


def records_in(
    told: Sequence[Mapping[str, Any]], sources: Sequence[Source | None], readings: Sequence[int] = ()
) -> dict[str, int]:
    """How many records each source has given to an epoch: each once, however often the plan reads it.

    Args:
        told: The sources of ``StreamingQueryProgress``; Spark counts a record once for each reading.
        sources: The same, as ours; None for one that is not.
        readings: How often the plan reads each.
    """
    rows: Counter[tuple[str, Hashable]] = Counter()
    times: Counter[tuple[str, Hashable]] = Counter()
    for i, source in enumerate(sources):
        # Sources of the same topics have the same records; of a join with itself Spark tells all rows of one side.
        key = (f"source {i}", None) if source is None else (source.describe(), source.system)
        rows[key] += told[i].get("numInputRows", 0) if i < len(told) else 0
        times[key] += readings[i] if i < len(readings) else 1
    found: Counter[str] = Counter()
    for (name, system), count in rows.items():
        found[name] += -(-count // times[name, system])
    return dict(found)


def failed(report: EpochReport, error: BaseException) -> EpochStatistics:
    """What an epoch that failed was like, as far as it came."""
    ours = from_spark(error)
    said = str(error).strip().splitlines()
    return replace(
        _of(report, "FAILED"),
        duration_ms=round((time.time() - report.began_at) * 1000),
        failure=type(ours or error).__name__,
        what=ours.what if ours is not None else said[0] if said else "",
        reason=next((reason for kind, reason in _REASONS.items() if isinstance(ours, kind)), "declined"),
    )


def _of(report: EpochReport, status: Literal["COMPLETED", "FAILED"]) -> EpochStatistics:
    return EpochStatistics(
        report.epoch,
        report.incarnation,
        status,
        datetime.fromtimestamp(report.began_at, UTC).isoformat(timespec="milliseconds"),
        phases_ms={name: round(spent * 1000, 1) for name, spent in report.phases.items()},
        rows_out=dict(report.rows),
        participants=report.participants,
    )


def line(report: EpochReport, records_in: int, duration_ms: int, lag: int | None) -> str:
    """An epoch in one line; without a lag where what is there to read was looked up before this start."""
    phases = ", ".join(f"{name} {spent * 1000:.0f}" for name, spent in report.phases.items())
    rows = sum(report.rows.values())
    return (
        f"epoch {report.epoch}: {records_in:,} in, {rows:,} out, {report.participants} participants, "
        f"{duration_ms:,} ms ({phases or 'nothing to do'}), lag {'not looked up' if lag is None else f'{lag:,}'}"
    )


_REASONS: Mapping[type[OnceflowError], str] = {
    EpochTimedOutError: "timed out",
    EpochTooLongError: "expired",
    TimeoutTooShortError: "expired",
}


class _Listener:
    """What py4j shows to Java as Spark's listener."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._progress.hear(json.loads(event.progress().json()))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - told every ten seconds while there is nothing to read
        self._progress.hear_idle(event.runId().toString())

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._progress.hear_end(event.runId().toString())

    class Java:
        """py4j's way to name the interface."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
