"""One count of a job's failures: what follows each is asked of the restart strategy, and kept.

Must not know: Spark, how a job is started again, where failures are kept.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from onceflow.checkpoint.failures import FailureLine
from onceflow.checkpoint.place import Place
from onceflow.errors import CheckpointStoreError, EpochFailedError, OnceflowError
from onceflow.options.restarting import Restarts


@dataclass(frozen=True)
class Reported:
    """A failure, as it is told to who counts.

    Attributes:
        error: Its error's class.
        what: What it says in its first line.
        epoch: The epoch that it speaks of, or None.
        undecided: It is one of an epoch before its decision.
        retriable: It passes.
        here: A restart in the same process would do.
        pid: The process.
    """

    error: str
    what: str
    epoch: int | None = None
    undecided: bool = False
    retriable: bool = True
    here: bool = True
    pid: int = field(default_factory=os.getpid)

    @classmethod
    def of(cls, error: OnceflowError, *, here: bool = True) -> Reported:
        """What is told of an error."""
        epoch = error.facts.get("epoch")
        return cls(
            type(error).__name__,
            error.what.partition("\n")[0],
            epoch if isinstance(epoch, int) else None,
            isinstance(error, EpochFailedError),
            error.retriable,
            here,
        )


class Counts(Protocol):
    """Who is told of each failure, and of each epoch between them."""

    def reached(self, epoch: int | None) -> None:
        """The newest epoch that the job has finished; None for none yet."""
        ...

    def failed(self, failure: Reported) -> float | None:
        """How many seconds to wait before the restart in this process; None: the process ends."""
        ...


class Counting:
    """Counts by itself.

    Args:
        restarts: The strategy.
        keep: Keeps a failure.
        recorded: The newest epoch that is recorded as it begins, or None.
    """

    def __init__(self, restarts: Restarts, keep: Callable[[FailureLine], None], recorded: int | None) -> None:
        self._restarts = restarts
        self._keep = keep
        self._recorded = recorded

    @property
    def recorded(self) -> int | None:
        """The newest epoch that is known to be finished; None for none."""
        return self._recorded

    def reached(self, epoch: int | None) -> None:
        """As ``Counts.reached``: failures on both sides of an epoch are not failures in a row."""
        if epoch is not None and (self._recorded is None or epoch > self._recorded):
            self._recorded = epoch
            self._restarts.succeeded()

    def failed(self, failure: Reported) -> float | None:
        """What the strategy says, and keep it. As ``Counts.failed``."""
        return self.judged(failure) if failure.here else self._noted(failure, None)

    def judged(self, failure: Reported) -> float | None:
        """As ``failed``, by one who can start the job again in another process."""
        return self._noted(failure, self._restarts.failed(undecided=failure.undecided) if failure.retriable else None)

    def _noted(self, failure: Reported, wait_s: float | None) -> float | None:
        # A start that was refused before anything ran has touched nothing, and leaves nothing behind.
        if self._restarts.has_run or failure.retriable:
            borne = " (tolerable)" if wait_s is not None and self._restarts.tolerated else ""
            self._keep(
                FailureLine(
                    datetime.now(UTC).isoformat(timespec="milliseconds"),
                    failure.error,
                    failure.what,
                    "the job ended" if wait_s is None else f"restart after {wait_s:.1f} s{borne}",
                    failure.pid,
                    failure.epoch,
                    self._recorded,
                )
            )
        return wait_s


def keep_in(place: Place, failure: FailureLine) -> None:
    """Keep a failure in the job's checkpoint; where no job has begun there, or it cannot be reached, nowhere."""
    with contextlib.suppress(CheckpointStoreError):  # whoever failed by it has told it
        if place.has_begun():
            place.failures.add(failure)


def recorded_in(place: Place) -> int | None:
    """The newest epoch that a checkpoint has recorded, None for none, or where it cannot be reached."""
    with contextlib.suppress(CheckpointStoreError):
        return place.checkpoint.newest_commit()
    return None
