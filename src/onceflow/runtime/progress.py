"""After an epoch: its log line, and its offsets in Kafka's groups for monitoring.

Must not know: the rules. It hears of an epoch when Spark has recorded it, so what it publishes never passes what is
committed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from onceflow.errors import OnceflowError
from onceflow.kafka.client import KafkaClient
from onceflow.kafka.offsets import write_offsets
from onceflow.runtime.driver import EpochReport
from onceflow.source import offsets
from onceflow.source.kafka import KafkaSource, malformed_counts

log = logging.getLogger(__name__)


class Progress(StreamingQueryListener):
    """Hears of every epoch of one query.

    Args:
        name: The job's name.
        reports: The driver's reports by epoch; one is taken out when its line is written.
        sources: The KafkaSources of the query's plan, in no order.
    """

    def __init__(self, name: str, reports: dict[int, EpochReport], sources: list[KafkaSource]) -> None:
        super().__init__()
        self._name = name
        self._reports = reports
        self._published = [source for source in sources if source.group is not None]
        self._clients: dict[int, KafkaClient] = {}
        self._run_id: str | None = None

    def watch(self, run_id: str) -> None:
        """Say which query is meant: a session has one list of listeners for all of its queries."""
        self._run_id = run_id

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Spark has recorded an epoch."""
        progress = event.progress
        if self._run_id is not None and str(progress.runId) != self._run_id:
            return
        report = self._reports.pop(progress.batchId, None)
        if report is None:
            return  # an idle trigger: no epoch ran
        positions = [_position(source) for source in progress.sources]
        lag = sum(sum(offsets.lag(at, latest).values()) for at, latest in positions)
        log.info("%s", line(report, progress.numInputRows, progress.batchDuration, lag))
        for source, count in malformed_counts(_observed(progress)).items():
            if count:
                log.warning("epoch %d: %d malformed records skipped (source %s)", report.epoch, count, source)
        self._publish([at for at, _ in positions])

    def close(self) -> None:
        """Close connections."""
        for client in self._clients.values():
            client.close()

    def _publish(self, positions: list[dict[offsets.Partition, int]]) -> None:
        for source in self._published:
            mine: dict[str, dict[int, int]] = {}
            for at in positions:
                for partition, offset in at.items():
                    if source.reads(partition.topic):
                        mine.setdefault(partition.topic, {})[partition.number] = offset
            if not mine or source.group is None:
                continue
            try:
                client = self._clients.get(id(source)) or KafkaClient(source.cluster)
                self._clients[id(source)] = client
                write_offsets(client, source.group, mine)
            except OnceflowError as error:
                log.warning("offsets of group %s were not published: %s", source.group, error.what)


def line(report: EpochReport, records_in: int, duration_ms: int, lag: int) -> str:
    """An epoch in one line."""
    phases = ", ".join(f"{name} {spent * 1000:.0f}" for name, spent in report.phases.items())
    return (
        f"epoch {report.epoch}: {records_in:,} in, {report.rows:,} out, {report.participants} participants, "
        f"{duration_ms:,} ms ({phases or 'nothing to do'}), lag {lag:,}"
    )


def _position(source: Any) -> tuple[dict[offsets.Partition, int], dict[offsets.Partition, int]]:
    """Where a source stands after the epoch, and what the topic held when the epoch was planned."""
    try:
        at = offsets.from_json(source.endOffset)
        latest = offsets.from_json(source.latestOffset) if source.latestOffset else at
    except (ValueError, TypeError, AttributeError):
        return {}, {}  # not a Kafka source
    return at, latest


def _observed(progress: Any) -> Mapping[str, Any]:
    return {name: row.asDict() for name, row in (progress.observedMetrics or {}).items()}
