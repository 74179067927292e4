"""The phases of a start, as lines of the job's log: what is waited for now, and how long the phase before it took.

Must not know: what is done in a phase.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from onceflow.execution.job_log import JobLog


class Phases:
    """One start.

    Args:
        log: The job's.
        now: A monotonic clock.
    """

    def __init__(self, log: JobLog, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._began = self._since = now()
        self._phase = ""

    def begin(self, phase: str) -> None:
        """The phase before is over, and this one begins."""
        now = self._now()
        if self._phase:
            self._log.info("start: %s took %.1f s; now: %s", self._phase, now - self._since, phase)
        else:
            self._log.info("start: now: %s", phase)
        self._phase, self._since = phase, now

    def end(self) -> None:
        """The job runs. Only the first call says so."""
        if self._phase:
            now = self._now()
            told = (self._phase, now - self._since, now - self._began)
            self._phase = ""
            self._log.info("start: %s took %.1f s; the job runs, after %.1f s in all", *told)
