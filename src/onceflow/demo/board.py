"""What the demo's parts tell while they work: numbers and events, for a view to show.

Must not know: who tells, who shows. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(slots=True)
class Numbers:
    """Where things stand. Counts since the start; ``producer_…`` and ``job_…`` count transactions.

    ``epoch`` is the newest one that is done, None before any is; ``epoch_ms`` is what it took, from the moment at which
    Spark looked for new payments to its record that the epoch is done.
    """

    target: int = 0
    payments: int = 0
    payments_aborted: int = 0
    malformed: int = 0
    epochs: int = 0
    epoch: int | None = None
    epoch_ms: int = 0
    producer_committed: int = 0
    producer_aborted: int = 0
    job_open: int = 0
    job_committed: int = 0
    alerts: int = 0
    alerts_expected: int = 0
    kills: int = 0
    job: str = "not started"
    broker: str = "not started"


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth a line. ``at``: seconds since the start."""

    at: float
    text: str


@dataclass
class Board:
    """Numbers and events of one run.

    Args:
        on_event: Called with each event, in the thread that tells it.
    """

    on_event: Callable[[Event], None] = lambda _: None
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = Numbers()
        self._events: list[Event] = []

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.began

    def set(self, **numbers: int | str) -> None:
        """Put numbers in place."""
        with self._lock:
            for name, value in numbers.items():
                setattr(self._numbers, name, value)

    def add(self, **numbers: int) -> None:
        """Count on."""
        with self._lock:
            for name, more in numbers.items():
                setattr(self._numbers, name, getattr(self._numbers, name) + more)

    def say(self, text: str) -> None:
        """Something happened."""
        event = Event(self.seconds(), text)
        with self._lock:
            self._events.append(event)
        self.on_event(event)

    def numbers(self) -> Numbers:
        """A copy of the numbers."""
        with self._lock:
            return replace(self._numbers)

    def events(self, newest: int) -> list[Event]:
        """The newest events, oldest first."""
        with self._lock:
            return self._events[-newest:]
