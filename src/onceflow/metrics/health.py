"""Whether a job is ready: epochs succeed, or there is nothing to read, and what it stands on gives an answer.

Must not know: who asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from onceflow.connectors import silence
from onceflow.connectors.contract import TOO_OLD
from onceflow.control.standing import JobStatus

SILENT_S = 60.0
"""Spark tells of an epoch when it is recorded, and every ten seconds that there is nothing to read."""

LONGEST_S = 600.0
"""An epoch without transactions that expire is not ready when it takes longer."""


class Health:
    """One job's. Each of its values is replaced whole, so threads need no lock.

    Args:
        interval_s: So long nothing may happen between two epochs.
        now: A monotonic clock.
    """

    def __init__(self, interval_s: float, now: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._now = now
        self._began_at: float | None = None
        self._expires_after_s = math.inf
        self._heard_at: float | None = None

    def began(self, expires_after_s: float) -> None:
        """An epoch is in work."""
        self._expires_after_s = expires_after_s
        self._began_at = self._now()

    def ended(self) -> None:
        """It is over, well or not."""
        self._began_at = None

    def heard(self) -> None:
        """An epoch was recorded, or there is nothing to read."""
        self._heard_at = self._now()

    def anew(self) -> None:
        """The job was started, or an epoch has failed: from here on one must succeed."""
        self._heard_at = None

    def in_work(self) -> tuple[float, float]:
        """How long the epoch in work has taken, 0 between two, and after how long its transactions expire."""
        began = self._began_at
        return (0.0 if began is None else self._now() - began), self._expires_after_s

    def reasons(self, standing: JobStatus) -> list[str]:
        """Why it is not ready; nothing where it is."""
        if standing.state != "RUNNING":
            # Not what the failure said: whoever reaches the port would read it, and a user's own error may quote a row.
            why = "; its log and `onceflow list` say what the newest failure was" if standing.failure else ""
            return [f"the job is {standing.state}{why}"]
        found = []
        age, expires_after_s = self.in_work()
        longest = TOO_OLD * expires_after_s if math.isfinite(expires_after_s) else LONGEST_S
        heard = self._heard_at
        found += silence.lasting(heard)
        if heard is None:
            found.append("no epoch has succeeded since the newest start, or since the newest failure")
        elif not age and self._now() - heard > SILENT_S + self._interval_s:
            found.append(f"for {self._now() - heard:.0f} s Spark has told of no epoch, and not that there is none")
        if age > longest:
            found.append(f"an epoch has been in work for {age:.0f} s; {longest:.0f} s is too long")
        return found
