"""A job's figures, kept from what is told of it while it runs, over all starts of one process.

Must not know: how they are asked for, the library that writes them out.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from onceflow import errors
from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.control.standing import JobStatus
from onceflow.execution.observer import Observer
from onceflow.metrics.catalogue import BUCKETS, OTHER, REASONS, RESULTS, STATES
from onceflow.metrics.health import Health
from onceflow.twophase.messages import (
    Aborted,
    AbortOwn,
    Action,
    Append,
    Appended,
    Commit,
    Discard,
    Event,
    Evidence,
    Outcome,
    Outcomes,
    Replies,
    Reply,
    RunPlan,
    Sealed,
    Started,
    Sweep,
)
from onceflow.twophase.participants import Participant, ParticipantId
from onceflow.twophase.records import Replay

Labels = tuple[str, ...]

_RESULT = {Reply.COMMITTED: "committed", Reply.RETRY: "retried", Reply.REFUSED: "refused"}


@dataclass
class Durations:
    """A histogram: how many lay in each bucket, the last one without a bound, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class Figures(Observer):
    """One job's.

    Args:
        standing: How the job stands.
        interval_s: So long nothing may happen between two epochs.
        now: A monotonic clock.
        wall: The clock that people see.
    """

    def __init__(
        self,
        standing: JobStatus,
        interval_s: float,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._lock = threading.Lock()
        self._standing = standing
        self._now, self._wall = now, wall
        self._health = Health(interval_s, now)
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._durations: dict[tuple[str, Labels], Durations] = {}
        self._gauges: dict[str, float] = {}
        self._lag: dict[tuple[str, str], int] = {}
        self._watermark: float | None = None
        self._open: set[ParticipantId] = set()
        self._open_since = 0.0
        self._found: set[ParticipantId] = set()
        for name in ("checkpoints_completed", "offset_publishing_failures"):
            self._counts[f"onceflow_{name}_total", ()] = 0
        for result in RESULTS:  # a rate needs the 0 before the first one
            self._counts["onceflow_participants_total", (result,)] = 0

    # -- what is told -----------------------------------------------------------------------------

    def began(self, epoch: int, expires_after_s: float) -> None:  # noqa: ARG002 - the observer's signature
        """As the observer says."""
        self._health.began(expires_after_s)

    def performed(self, action: Action, event: Event) -> None:
        """As the observer says."""
        with self._lock:
            match action, event:
                case _, Started(history=history):
                    self._health.anew()
                    self._gauges["onceflow_incarnation"] = history.incarnation
                case RunPlan(), _:
                    self._open.clear()
                    self._found.clear()
                case _, Sealed(participants):
                    self._opened(participants)
                case Commit(participants), Replies(replies):
                    self._opened(participants)
                    self._committed(replies)
                case _, Outcomes(found):
                    self._looked_up(found)
                case Append(Replay() as replay), Appended():
                    self._count("participants_total", "replayed", by=len(replay.participants))
                case AbortOwn(participants=doomed) | Discard(participants=doomed), Aborted():
                    self._open.clear()
                    self._count("participants_total", "aborted", by=len(doomed))
                case Sweep(found=lingering), Aborted():
                    self._count("participants_total", "aborted", by=sum(map(len, lingering.values())))

    def ended(self) -> None:
        """As the observer says."""
        with self._lock:
            self._open.clear()
        self._health.ended()

    def recorded(self, epoch: EpochStatistics, lag: Mapping[tuple[str, str], int] | None) -> None:
        """As the observer says."""
        self._health.heard()
        with self._lock:
            self._count("checkpoints_completed_total")
            self._gauges["onceflow_last_checkpoint_epoch"] = epoch.epoch
            self._gauges["onceflow_last_checkpoint_timestamp_seconds"] = self._wall()
            if epoch.duration_ms is not None:
                self._took("checkpoint_duration_seconds", epoch.duration_ms)
            for phase, spent_ms in epoch.phases_ms.items():
                self._took("checkpoint_phase_duration_seconds", spent_ms, phase)
            for source, records in epoch.records_in.items():
                self._count("records_in_total", source, by=records)
            for sink, rows in epoch.rows_out.items():
                self._count("records_out_total", sink, by=rows)
            for operator, rows in epoch.late.items():
                self._count("late_rows_total", operator, by=rows)
            for name, value in (("rows", epoch.state_rows), ("bytes", epoch.state_bytes)):
                if value is not None:
                    self._gauges[f"onceflow_state_{name}"] = value
            self._watermark = _seconds(epoch.watermark)
            if lag is not None:
                self._lag = dict(lag)

    def idle(self) -> None:
        """As the observer says."""
        self._health.heard()
        with self._lock:
            self._lag = dict.fromkeys(self._lag, 0)

    def failed(self, epoch: EpochStatistics) -> None:
        """As the observer says."""
        self._health.anew()
        with self._lock:
            why = epoch.reason.replace(" ", "_")
            self._count("checkpoints_failed_total", why if why in REASONS else REASONS[0], error_of(epoch.failure))

    def published(self, *, taken: bool) -> None:
        """As the observer says."""
        with self._lock:
            self._count("offset_publishing_failures_total", by=not taken)

    # -- what is asked ----------------------------------------------------------------------------

    def not_ready(self) -> list[str]:
        """Why the job is not ready; nothing where it is."""
        return self._health.reasons(self._standing)

    def samples(self) -> Iterator[tuple[str, Labels, float | Durations]]:
        """Each series: its metric's name, the values of its labels, and what it is now."""
        ready = not self.not_ready()
        with self._lock:
            counts, gauges = dict(self._counts), dict(self._gauges)
            durations = {key: Durations(list(each.counts), each.total) for key, each in self._durations.items()}
            lag, open_, watermark = dict(self._lag), len(self._open), self._watermark
            open_for_s = self._now() - self._open_since if open_ else 0.0
        yield "onceflow_job_info", (self._standing.name,), 1
        for state in STATES:
            yield "onceflow_job_state", (state,), int(self._standing.state == state)
        yield "onceflow_ready", (), int(ready)
        yield "onceflow_restarts_total", (), self._standing.restarts
        for (name, labels), count in counts.items():
            yield name, labels, count
        for name, value in gauges.items():
            yield name, (), value
        for (name, labels), each in durations.items():
            yield name, labels, each
        for place, records in lag.items():
            yield "onceflow_source_lag_records", place, records
        if watermark is not None:
            yield "onceflow_watermark_delay_seconds", (), self._wall() - watermark
        age, expires_after_s = self._health.in_work()
        yield "onceflow_transactions_open", (), open_
        yield "onceflow_oldest_open_transaction_seconds", (), open_for_s
        yield "onceflow_epoch_age_seconds", (), age
        if math.isfinite(expires_after_s):
            yield "onceflow_epoch_age_ratio", (), age / expires_after_s

    # -- parts ------------------------------------------------------------------------------------

    def _count(self, name: str, *labels: str, by: int = 1) -> None:
        self._counts[f"onceflow_{name}", labels] += by

    def _took(self, name: str, spent_ms: float, *labels: str) -> None:
        self._durations.setdefault((f"onceflow_{name}", labels), Durations()).add(spent_ms / 1000)

    def _opened(self, participants: Sequence[Participant]) -> None:
        """These are prepared: in the epoch in work, or, where there is none, in one that a start finishes."""
        if not self._open:
            self._open_since = self._now() - self._health.in_work()[0]
        self._open |= {p.id for p in participants}

    def _committed(self, replies: Mapping[ParticipantId, Reply]) -> None:
        for who, reply in replies.items():
            if reply in _RESULT:  # of a suspect one it is asked what became of it
                self._count("participants_total", _RESULT[reply])
            if reply is Reply.COMMITTED:
                self._open.discard(who)

    def _looked_up(self, found: Mapping[ParticipantId, Evidence]) -> None:
        """Count what was committed before; it may be asked for more than once."""
        committed = {who for who, evidence in found.items() if evidence.outcome is Outcome.COMMITTED}
        self._count("participants_total", "already_committed", by=len(committed - self._found))
        self._found |= committed
        self._open -= {who for who, evidence in found.items() if evidence.outcome is not Outcome.OPEN}


def error_of(failure: str) -> str:
    """The label of a failure: the class of an error of ours, which are not many."""
    kind = getattr(errors, failure, None)
    return failure if isinstance(kind, type) and issubclass(kind, errors.OnceflowError) else OTHER


def _seconds(watermark: str | None) -> float | None:
    """Where event time stands, in seconds since 1970; None where no event was seen, which Spark tells as 1970."""
    if watermark is None:
        return None
    try:
        return datetime.fromisoformat(watermark).timestamp() or None
    except ValueError:  # beyond the years that Python knows
        return None
