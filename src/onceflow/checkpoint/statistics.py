"""What each epoch was like, for people: when, how long, how much. Kept in the checkpoint, bounded.

Must not know: what an epoch does. No decision hangs on it: it is not synced, and a line that is torn is passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onceflow.checkpoint.lines import Line, Lines
from onceflow.errors import CheckpointStoreError
from onceflow.storage.store import Store

log = logging.getLogger(__name__)

KEPT = 1_000
"""At least so many epochs are kept, and at most twice as many."""


@dataclass(frozen=True)
class EpochStatistics(Line):
    """One epoch, or one try of it that failed.

    Attributes:
        epoch: Its number.
        incarnation: The start that ran it.
        status: ``"COMPLETED"`` or ``"FAILED"``.
        triggered_at: When it began, in UTC (ISO 8601).
        duration_ms: From then to its end; None where Spark did not tell.
        phases_ms: How long each of the driver's phases took.
        records_in: How many records each source read for it, in the plan's order.
        rows_out: How many rows each sink got.
        participants: In how many transactions, staged runs and the like.
        state_rows: Rows in the state behind it; None where the plan keeps none.
        state_bytes: Memory that the state takes.
        watermark: Where event time stands (ISO 8601), or None.
        lag: Records that were there and not read, or None where that was not looked up.
        late: How many rows each operator left out since the watermark had passed them; none where nothing is late.
            Of an aggregation at least so many: it gathers rows before it looks at their time.
        failure: Why it failed, by the error's class; "" where it did not.
        what: What the error says.
        reason: ``"timed out"`` (the checkpoint's time-out), ``"expired"`` (it outlived its transactions) or
            ``"declined"``; "" where it did not fail.
    """

    epoch: int
    incarnation: int
    status: Literal["COMPLETED", "FAILED"]
    triggered_at: str
    duration_ms: int | None = None
    phases_ms: Mapping[str, float] = field(default_factory=dict)
    records_in: Mapping[str, int] = field(default_factory=dict)
    rows_out: Mapping[str, int] = field(default_factory=dict)
    participants: int = 0
    state_rows: int | None = None
    state_bytes: int | None = None
    watermark: str | None = None
    lag: int | None = None
    late: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""
    what: str = ""
    reason: str = ""


class Statistics:
    """A checkpoint's: the newest epochs.

    Args:
        store: The folder.
    """

    def __init__(self, store: Store) -> None:
        self._lines = Lines(store, KEPT)

    def add(self, entry: EpochStatistics) -> None:
        """Keep one more. Where that fails the job goes on without it."""
        try:
            self._lines.add(entry.dumps())
        except CheckpointStoreError as error:
            log.warning("what epoch %d was like is not kept: %s", entry.epoch, error.what)

    def read(self) -> list[EpochStatistics]:
        """What is kept, oldest first.

        Raises:
            CheckpointStoreError: It cannot be read.
        """
        return list(filter(None, map(EpochStatistics.loads, self._lines.read())))
