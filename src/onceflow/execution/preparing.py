"""An epoch before its decision: its plan is run, its reports are sealed and checked, in the time that it may take.

Must not know: the rules, the journal, how a sink checks. What a run, a check or a survey has met beyond its answer is
``cause``.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING

from onceflow import crash_points as crash
from onceflow.checkpoint.spark_files import SparkCheckpoint, canonical, positions
from onceflow.connectors.contract import TOO_OLD, Run
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointStoreError,
    EpochFailedError,
    EpochTooLongError,
    OnceflowError,
    PreCommitError,
)
from onceflow.execution import overdue
from onceflow.execution.collect import Collect
from onceflow.execution.committing import Committing
from onceflow.execution.epoch_report import EpochReport
from onceflow.execution.failures import from_spark
from onceflow.execution.job_log import JobLog
from onceflow.execution.means import Surroundings
from onceflow.execution.source_check import Sources
from onceflow.execution.stop import OverdueError
from onceflow.spark.sentences import sentence
from onceflow.twophase.layout import Layout
from onceflow.twophase.memory import Memory, Mode
from onceflow.twophase.messages import Check, Checked, Event, RunFailed, RunPlan, Seal, Sealed, Survey, Surveyed
from onceflow.twophase.participants import parts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Preparing:
    """That of one start.

    Args:
        checkpoint: Spark's side of the checkpoint.
        committing: Asks the committers.
        around: What the driver has of its process.
        memory: What the rules remember.
        log: The job's.

    Attributes:
        runner: Runs an epoch's plan; None before the driver has settled.
        sources: What the plan reads and keeps; likewise.
        cuts: The sources take a limit from the journal at the next start, so an epoch can be cut by it.
        plan: Of the epoch in work.
        report: Of the epoch in work.
        cause: Why the last run, check or survey answered as it did, where there is an error for it.
        timeout_s: An epoch may take so long before its decision.
        look_behind: Asked before the first rows for a sink are decided: raises where its system came back older than
            what the job goes on from.
        require_not_put_back: Asked where a check has found that: raises with the epochs and rows that are gone.
    """

    def __init__(
        self,
        checkpoint: SparkCheckpoint,
        committing: Committing,
        around: Surroundings,
        memory: Callable[[], Memory],
        log: JobLog,
    ) -> None:
        self._checkpoint = checkpoint
        self._committing = committing
        self._stop = around.stop
        self._now = around.now
        self._threads: Executor = around.commits
        self._memory = memory
        self._log = log
        self._began = 0.0
        self.runner: Collect | None = None
        self.sources: Sources | None = None
        self.cuts = True
        self.plan: DataFrame | None = None
        self.report = EpochReport(-1)
        self.cause: BaseException | None = None
        self.timeout_s = math.inf
        self.look_behind: Callable[[], None] = lambda: None
        self.require_not_put_back: Callable[[], None] = lambda: None

    def run(self, action: RunPlan, run: Run) -> Event:
        """Run the epoch's plan on Spark."""
        self._began = self._now()
        self.cause = None
        if self._memory().mode is Mode.FRESH:  # what is decided takes as long as it takes
            self._stop.bound(self._began + self.timeout_s)
        if not action.write:
            self._log.info(
                "epoch %d is committed: its plan runs once more and writes nothing, for the state", action.epoch
            )
        try:
            with self._stop.plan():
                if self.plan is None or self.runner is None:
                    raise AssertionError("a plan runs inside foreachBatch, after settle")
                ran = self.runner(self.plan, action, run, self._records_of(action.epoch), self._threads)
                _require_range(action.epoch, self._memory().offsets, ran.ends)
        except Exception as error:  # noqa: BLE001 - whatever it was, the epoch's transactions must be aborted
            return self.failed(action.epoch, error)
        for report in ran.reports:
            self.report.wrote(report.sink, sum(part.rows for part in parts_of([report])))
        return replace(ran, took_ms=int(self._age() * 1000))

    def seal(self, action: Seal, run: Run) -> Event:
        """Make participants of what the tasks report."""
        try:
            sealed = self._committing.seal(action.reports, run)
        except Exception as error:  # noqa: BLE001 - as of the run
            return self.failed(run.epoch, error)
        self.report.participants = len(sealed)
        crash.reach("D4", run.epoch)
        return Sealed(sealed)

    def check(self, action: Check, run: Run) -> Event:
        """See whether the epoch can be decided: by its sinks, its sources, and the time that it took."""
        age = self._age()
        try:
            if any(p.sink not in run.newest for p in action.participants):
                self.look_behind()
            problem = self._committing.check(action.participants, run, age)
            if problem is not None:
                return Checked(problem)
            layout = None
            if self.sources is not None:
                memory = self._memory()
                layout = self.sources.look_again(memory.layout, memory.offsets)
            self._stop.expire(self._now(), lambda: None)
            self._stop.decide()
        except OverdueError:
            return Checked("it took too long", self._timed_out(run.epoch))
        except EpochTooLongError as error:
            self.cause = error
            with contextlib.suppress(CheckpointStoreError):
                return Checked(error.what, self._too_long(run.epoch, error.what, age))
            return Checked(error.what)
        except CheckpointConflictError as error:
            self.cause = self._what_is_lost() or error
            return Checked(error.what, conflict=True)
        except Exception as error:  # noqa: BLE001 - whatever it was, the epoch's transactions must be aborted
            self.cause = error
            return Checked(str(error) or "the job is being stopped")
        return Checked(None, layout=layout)

    def _what_is_lost(self) -> CheckpointConflictError | None:
        """What a start would say of a system that was put back."""
        try:
            self.require_not_put_back()
        except CheckpointConflictError as error:
            return error
        except OnceflowError:  # it does not answer: then what the check has seen is told
            return None
        return None

    def survey(self, action: Survey) -> Event:
        """See what the plan reads and keeps, and whether the sources still have what is needed."""
        memory = self._memory()
        if self.sources is None:
            return Surveyed(memory.history.layout or Layout())
        found, self.cause = self.sources.survey(
            self._checkpoint, memory.undone, memory.history.layout, again=action.again
        )
        if found.loss:
            self._log.warning("%s", found.loss)
        return found

    def failed(self, epoch: int, error: Exception) -> Event:
        """Why a run failed: too long for its transactions, or what it says itself."""
        self.cause = error
        if self._stop.overdue:
            return RunFailed("it took too long", self._timed_out(epoch))
        reason, age = sentence(error), self._age()
        too_old = age >= TOO_OLD * self._committing.finishers.shortest_s()
        if too_old and isinstance(from_spark(error, self.explain), PreCommitError):
            with contextlib.suppress(CheckpointStoreError):  # how large it is cannot be read: its own error is told
                return RunFailed(reason, self._too_long(epoch, reason, age))
        return RunFailed(reason)

    def explain(self, message: str) -> OnceflowError | None:
        """Our error for what a source says in a failed query's message, or None."""
        return None if self.sources is None else self.sources.explain(message)

    def _age(self) -> float:
        return self._now() - self._began

    def _records_of(self, epoch: int) -> int:
        """How many records the sources read for an epoch, 0 where that cannot be told."""
        with contextlib.suppress(CheckpointStoreError):  # only the number of tasks hangs on it
            return sum(self._sizes(epoch))
        return 0

    def _too_long(self, epoch: int, said: str, age: float) -> int | None:
        """How many records each source may read for an epoch from now on; the cause becomes one that says so."""
        decided = self._memory().mode is not Mode.FRESH
        read = () if decided else self._sizes(epoch)
        shortest = self._committing.finishers.shortest_s()
        limit, self.cause = overdue.outlived(epoch, said, age, shortest, read, cuts=self.cuts, decided=decided)
        return limit

    def _timed_out(self, epoch: int) -> int | None:
        """As ``_too_long``, for an epoch that took longer than the checkpoint's time-out."""
        age = self._age()
        read: Sequence[int] = ()
        with contextlib.suppress(CheckpointStoreError):
            read = self._sizes(epoch) if self.cuts else ()
        limit, self.cause = overdue.timed_out(epoch, age, self.timeout_s, read)
        return limit

    def _sizes(self, epoch: int) -> Sequence[int]:
        """How many records each source read for an epoch; empty where there are no sources to ask."""
        return self.sources.sizes(self._checkpoint, epoch) if self.sources is not None else ()


def _require_range(epoch: int, offsets: str, ends: frozenset[str] | None) -> None:
    """Fail a run that has read to other positions than ``offsets/<epoch>`` said when it began.

    Decided, the file's would count as read.
    """
    if ends is not None and not {canonical(end) for end in ends} <= {canonical(line) for line in positions(offsets)}:
        raise EpochFailedError(
            f"Spark has read another range for epoch {epoch} than offsets/{epoch} says",
            harmless="always for the data: nothing of the epoch is visible; the next start reads what the file says",
            cause="a driver of an older start slept while it planned the epoch, and has written over the file",
            action="see to it that only one runs, then start the job again",
            epoch=epoch,
        )
