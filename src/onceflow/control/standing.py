"""How a job of this process stands, for who asks over its socket; and what was ordered.

Must not know: sockets, Spark.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

State = Literal["STARTING", "RUNNING", "RESTARTING", "ENDING"]
Order = Literal["stop", "cancel"]


class Gate(Protocol):
    """Where the next epoch can be held at its entry."""

    def hold(self, within_s: float) -> bool:
        """Hold it, once the one in work is done; False, and nothing is held, where that takes longer."""

    def release(self) -> None:
        """Let it begin."""


@dataclass
class JobStatus:
    """One job.

    Attributes:
        name: The job's name.
        checkpoint: Its checkpoint's URI.
        state: What it does.
        restarts: How often it was started again: in this process, or by its supervisor, if it has one.
        failure: What the newest failure said, or "".
        epoch: Tells the newest epoch that is done.
        supervisor: The process that starts it again, or None.
        gate: Where its next epoch can be held, while it runs.
        writes_as: How its transactional ids begin, as far as that is known.
        ordered: What it was ordered, or None.
        was_ordered: Set with the first order.
    """

    name: str
    checkpoint: str
    state: State = "STARTING"
    restarts: int = 0
    failure: str = ""
    epoch: Callable[[], int | None] = lambda: None
    supervisor: int | None = None
    gate: Gate | None = None
    writes_as: str = ""
    ordered: Order | None = None
    was_ordered: threading.Event = field(default_factory=threading.Event)
    _started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))

    def begin(self, epoch: Callable[[], int | None], gate: Gate | None = None) -> None:
        """It runs now; this tells its newest epoch, and there the next one can be held."""
        self.epoch, self.gate = epoch, gate
        if self.ordered is None:
            self.state = "RUNNING"

    def failed(self, what: str) -> None:
        """It has failed, and is to be started again."""
        self.failure, self.gate = what, None
        self.restarts += 1
        if self.ordered is None:
            self.state = "RESTARTING"

    def order(self, what: Order) -> None:
        """Take an order; a cancel goes before a stop."""
        if self.ordered != "cancel":
            self.ordered = what
        self.state = "ENDING"
        self.was_ordered.set()

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "state": self.state,
            "pid": os.getpid(),
            "checkpoint": self.checkpoint,
            "started_at": self._started_at,
            "restarts": self.restarts,
            "epoch": self.epoch(),
            "failure": self.failure,
            "supervisor": self.supervisor,
            "writes_as": self.writes_as,
        }
