"""How many records an epoch may read, from what the journal has measured.

Must not know: sources, Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise

from onceflow.checkpoint.spark_files import positions, records_between
from onceflow.connectors.contract import Sink
from onceflow.connectors.source_contract import EpochLimit
from onceflow.execution import pace
from onceflow.execution.job_log import JobLog
from onceflow.execution.means import REAL, Means
from onceflow.launch.request import StartRequest, place_of
from onceflow.twophase.records import Decide

log = logging.getLogger(__name__)

_BROKERS_MAXIMUM_S = 900.0  # Kafka's default for transactions' time-outs, where the sinks are not known yet
_OF_TIMEOUT = 1.5
"""An epoch is meant to take a quarter of its transactions' time-out, and so three eighths of the checkpoint's."""


def epoch_limit(request: StartRequest, sinks: Sequence[Sink], means: Means = REAL) -> EpochLimit:
    """How many records each source may read for an epoch, from what the journal has measured."""
    known = [s for s in (sink.expires_after_s() for sink in sinks if sink.participates) if s is not None]
    timeout_s = min(min(known, default=_BROKERS_MAXIMUM_S), _OF_TIMEOUT * request.checkpointing.timeout_ms / 1000)
    history, entries = place_of(request, means).journal.history()
    decided = [e.record for e in entries if isinstance(e.record, Decide)]
    measured = [
        (_records_between(before.offsets, after.offsets), after.took_ms)
        for before, after in pairwise(decided)
        if after.epoch == before.epoch + 1
    ]
    sources = len(history.layout.sources) if history.layout is not None else 1
    most = None if history.recut is None else history.recut.limit
    if most is not None and history.recut is not None:
        JobLog(log, request.name).warning(
            "epoch %d outlived its transactions: until one is decided, each source reads at most %d records for it",
            history.recut.epoch,
            most,
        )
    return EpochLimit(pace.limit(measured, timeout_s, sources), most)


def _records_between(before: str, after: str) -> int:
    """At most how many records an epoch read, over all sources, from the offsets files before and of it."""
    return sum(records_between(a, b) for a, b in zip(positions(before), positions(after), strict=False))
