"""The phases of a start, as lines of the job's log: what is waited for now, and at its end how long each has taken.

Must not know: what is done in a phase.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from onceflow.execution.job_log import JobLog


class Phases:
    """One start.

    Args:
        log: The job's; None for who only looks.
        now: A monotonic clock.
    """

    def __init__(self, log: JobLog | None, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._began = self._since = now()
        self._phase = ""
        self._ending = threading.Lock()
        self._took: list[str] = []

    def begin(self, phase: str) -> None:
        """The phase before is over, and this one begins."""
        self._over()
        if self._log is not None:
            self._log.info("start: %s", phase)
        self._phase = phase

    def end(self) -> None:
        """The job runs. Only the first call says so, from whichever thread."""
        with self._ending:
            if not self._phase or self._log is None:
                return
            self._over()
            self._phase = ""
            took = self._since - self._began
            self._log.info("the job runs, %.1f s after its start began: %s", took, ", ".join(self._took))

    def _over(self) -> None:
        now = self._now()
        if self._phase:
            self._took.append(f"{self._phase} {now - self._since:.1f} s")
        self._since = now
