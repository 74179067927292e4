"""What a job has failed by, for people: when, by what, and what followed. Kept in the checkpoint, bounded.

Must not know: what decides on a restart. No decision hangs on it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from onceflow.checkpoint.lines import Line, Lines
from onceflow.errors import CheckpointStoreError
from onceflow.storage.store import Store

log = logging.getLogger(__name__)

KEPT = 200
"""At least so many failures are kept, and at most twice as many."""


@dataclass(frozen=True)
class FailureLine(Line):
    """One failure.

    Attributes:
        at: When, in UTC (ISO 8601).
        error: Its error's class, or ``"Died"`` of a process that told nothing.
        what: What the error says in its first line.
        followed_by: What the restart strategy did.
        pid: The process that failed.
        epoch: The epoch that it speaks of, or None.
        recorded: The newest epoch that was finished by then, or None.
    """

    at: str
    error: str
    what: str
    followed_by: str
    pid: int
    epoch: int | None = None
    recorded: int | None = None


class Failures:
    """A checkpoint's: the newest ones.

    Args:
        store: The folder.
    """

    def __init__(self, store: Store) -> None:
        self._lines = Lines(store, KEPT)

    def add(self, failure: FailureLine) -> None:
        """Keep one more. Where that fails the job goes on without it."""
        try:
            self._lines.add(failure.dumps())
        except CheckpointStoreError as error:
            log.warning("that the job has failed (%s) is not kept: %s", failure.error, error.what)

    def read(self) -> list[FailureLine]:
        """What is kept, oldest first.

        Raises:
            CheckpointStoreError: It cannot be read.
        """
        return list(filter(None, map(FailureLine.loads, self._lines.read())))
