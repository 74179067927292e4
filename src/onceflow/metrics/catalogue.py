"""The metrics of a job, as one tuple: what is exposed, and what docs/metrics.md lists.

Must not know: where a number comes from, the library that writes them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One.

    Attributes:
        name: As Prometheus shows it, its unit last (before ``_total``).
        kind: What it is.
        doc: What it tells, in a sentence.
        labels: What tells its series apart. None has values without a bound: they are names in the job's plan, in the
            code, or partitions of the topics that it reads.
    """

    name: str
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()


RESULTS = ("committed", "retried", "refused", "already_committed", "replayed", "aborted")
"""What may become of a participant, as ``onceflow_participants_total`` tells it."""

STATES = ("STARTING", "RUNNING", "RESTARTING", "ENDING")

REASONS = ("declined", "expired", "timed_out")
"""Why an epoch may fail, as ``onceflow_checkpoints_failed_total`` tells it."""

OTHER = "other"
"""The error of a failure that is none of onceflow's."""

METRICS = (
    Metric("onceflow_job_info", "gauge", "1; its label is the job's name.", ("name",)),
    Metric("onceflow_job_state", "gauge", "1 for the state that the job is in, 0 for the others.", ("state",)),
    Metric("onceflow_ready", "gauge", "1 where `/ready` answers 200, else 0."),
    Metric("onceflow_restarts_total", "counter", "Restarts, in this process or by its supervisor, `onceflow run`."),
    Metric("onceflow_incarnation", "gauge", "The number of the newest start."),
    Metric("onceflow_checkpoints_completed_total", "counter", "Epochs that Spark has recorded."),
    Metric(
        "onceflow_checkpoints_failed_total",
        "counter",
        "Epochs that failed: `declined`, `expired` (it outlived its transactions) or `timed_out` (the checkpoint's "
        "time-out), and the class of the error, `other` for one that is not onceflow's.",
        ("reason", "error"),
    ),
    Metric("onceflow_last_checkpoint_epoch", "gauge", "The newest recorded epoch."),
    Metric("onceflow_last_checkpoint_timestamp_seconds", "gauge", "When it was heard of, in seconds since 1970."),
    Metric("onceflow_checkpoint_duration_seconds", "histogram", "From an epoch's trigger to its end."),
    Metric(
        "onceflow_checkpoint_phase_duration_seconds",
        "histogram",
        "Each phase of an epoch, as its log line has them: `prepare`, `check`, `decide`, `commit`.",
        ("phase",),
    ),
    Metric(
        "onceflow_records_in_total", "counter", "Records of each source in recorded epochs, each once.", ("source",)
    ),
    Metric("onceflow_records_out_total", "counter", "Rows that each sink got in recorded epochs.", ("sink",)),
    Metric(
        "onceflow_late_rows_total",
        "counter",
        "Rows that an operator left out since the watermark had passed them; of an aggregation at least so many.",
        ("operator",),
    ),
    Metric(
        "onceflow_source_lag_records",
        "gauge",
        "Records of a partition that were there and not read when the newest epoch was planned; 0 when Spark finds "
        "nothing to read.",
        ("topic", "partition"),
    ),
    Metric(
        "onceflow_watermark_delay_seconds", "gauge", "How far the watermark is behind now; absent where there is none."
    ),
    Metric("onceflow_state_rows", "gauge", "Rows in the state; absent where the plan keeps none."),
    Metric("onceflow_state_bytes", "gauge", "Memory that the state takes; absent where the plan keeps none."),
    Metric(
        "onceflow_transactions_open",
        "gauge",
        "Participants that are prepared and neither committed nor aborted, as far as this process knows.",
    ),
    Metric(
        "onceflow_oldest_open_transaction_seconds",
        "gauge",
        "How long ago the epoch of the oldest of them began, or, of one that a start finishes, the start first sent "
        "its commit; 0 where none is open.",
    ),
    Metric("onceflow_epoch_age_seconds", "gauge", "How long the epoch in work has taken; 0 between two."),
    Metric(
        "onceflow_epoch_age_ratio",
        "gauge",
        "The same as a part of the transactions' time-out: at 0.8 an undecided epoch fails. Absent where nothing "
        "expires.",
    ),
    Metric(
        "onceflow_participants_total",
        "counter",
        "What became of participants: `committed`; `retried`, one for each commit that is sent again; `refused`, the "
        "same for want of a right; `already_committed`, found so at a start or after an answer that proves nothing; "
        "`replayed`, written again since what was decided is lost; `aborted`.",
        ("result",),
    ),
    Metric(
        "onceflow_offset_publishing_failures_total",
        "counter",
        "Times that a consumer group did not take the job's offsets, which only its lag hangs on.",
    ),
)

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""The upper bounds of durations, in seconds."""
