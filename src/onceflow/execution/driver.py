"""The driver: the one skin between Spark's ``foreachBatch`` and the coordinator. It performs actions; it holds no rule.

Must not know: what follows from an event (``twophase`` does), or how a sink commits (its committer does).

Spark calls it in the driver's own process, one epoch after the other: ``offsets/N`` is there before, ``commits/N``
comes after it returned, and until then a restart calls it again with the same N, range and timestamp.

What an action takes is done by its neighbours: ``preparing`` runs a plan and sees whether it can be decided,
``committing`` asks the sinks, ``recording`` writes the journal, ``repair`` keeps Spark's files right.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from onceflow import crash_points as crash
from onceflow.checkpoint.identity import JobIdentity
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.contract import Committer, Run
from onceflow.errors import (
    CheckpointCorruptError,
    CheckpointStoreError,
    FencedError,
    OnceflowError,
)
from onceflow.execution.collect import Collect
from onceflow.execution.committing import Committing
from onceflow.execution.epoch_report import EpochReport
from onceflow.execution.failures import EpochEnded, evidence_lines, fenced, from_failure
from onceflow.execution.job_log import JobLog
from onceflow.execution.marks import StartMarks
from onceflow.execution.means import Surroundings
from onceflow.execution.observer import NOBODY
from onceflow.execution.patience import Patience
from onceflow.execution.preparing import Preparing
from onceflow.execution.recording import Recording
from onceflow.execution.repair import Repair
from onceflow.execution.source_check import Sources
from onceflow.execution.stop import StopRequested
from onceflow.twophase import messages
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.records import Start
from onceflow.waiting import turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.02

_PHASES: Mapping[type, str] = {
    messages.RunPlan: "prepare",
    messages.Seal: "prepare",
    messages.Check: "check",
    messages.Sync: "decide",
    messages.Append: "decide",
    messages.Commit: "commit",
}


class Driver:
    """Drives one incarnation of a job: ``take_over``, then ``settle``, then an epoch after the other.

    Args:
        identity: Whose checkpoint it is.
        journal: The checkpoint's journal; only this object appends to it.
        checkpoint: Spark's side of the checkpoint.
        committers: The committer of each sink that takes part in the decision, by name.
        uri: The checkpoint's URI, for messages.
        coordinator: The rules, which have not begun yet.
        around: What it has of its process; its threads end with this object.
        above: An incarnation that is known from outside of the checkpoint; this one is greater.
        name: The job's name, for its log, and under which its sinks keep that it has written there; "" for none.
        said: What its start says beside its number and its job: of its sinks, and of an operator's choice.
    """

    def __init__(
        self,
        identity: JobIdentity,
        journal: Journal,
        checkpoint: SparkCheckpoint,
        committers: Mapping[str, Committer],
        uri: str,
        coordinator: Coordinator,
        around: Surroundings,
        above: int = 0,
        name: str = "",
        said: Start | None = None,
    ) -> None:
        self.name = name
        self._said = said or Start(0)
        self._log = JobLog(log, name)
        self._identity = identity
        self._journal = journal
        self._checkpoint = checkpoint
        self._uri = uri
        self._above = above
        self._coordinator = coordinator
        self._now = around.now
        self._committing = Committing(
            committers, around.commits, around.stop, lambda: coordinator.memory.epoch, self._log
        )
        self._preparing = Preparing(checkpoint, self._committing, around, lambda: coordinator.memory, self._log)
        self._repair = Repair(checkpoint, journal, identity.job_id, self.fenced, self._log)
        self._marks = StartMarks(committers.values(), around.marks, identity, name, lambda: journal.start_nonce)
        self._recording = Recording(journal, checkpoint, identity, self._marks, self._log)
        self._patience = Patience(journal.refusals)
        self._ended_at = -math.inf
        self._last_epoch = -1
        self._done_before: int | None = None
        self.stop = around.stop
        self.reports: dict[int, EpochReport] = {}
        self.failure: BaseException | None = None
        self.failed: EpochReport | None = None
        self.observer = NOBODY
        self.done: Callable[[int], None] = lambda _: None
        """Told of each epoch that is finished, in Spark's thread: it neither waits nor raises."""
        self.is_watched = True
        """Whoever started the job waits for its end, and is told ``failure``; else the log tells it."""
        self.min_pause_s = 0.0
        """The least time between the end of an epoch and the beginning of the next."""

    def bound(
        self, timeout_s: float, look_behind: Callable[[], None], require_not_put_back: Callable[[], None]
    ) -> None:
        """Say what an epoch's decision is bound to.

        Args:
            timeout_s: It may take so long before it.
            look_behind: Asked before the first rows for a sink are decided: raises where its system came back older
                than what the job goes on from.
            require_not_put_back: Asked where a check has found that: raises with the epochs and rows that are gone.
        """
        self._preparing.timeout_s = timeout_s
        self._preparing.look_behind = look_behind
        self._preparing.require_not_put_back = require_not_put_back

    # -- what the job calls -----------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        """The number of this start, 0 before it."""
        return self._coordinator.memory.history.incarnation

    @property
    def is_idle(self) -> bool:
        """Whether its newest epoch read nothing, and has the watermark of the one before: all that is there is done."""
        newest = self._last_epoch
        return newest > 0 and self._checkpoint.read_nothing(newest)

    def newest_epoch(self) -> int | None:
        """The newest epoch that this driver has finished, or None."""
        return self._last_epoch if self._last_epoch >= 0 else None

    def newest_done(self) -> int | None:
        """The newest epoch that is done, by whichever start, or None."""
        newest = self.newest_epoch()
        return self._done_before if newest is None else newest

    def take_over(self) -> None:
        """Take over the checkpoint: fence older drivers, finish what they decided, abort what they left.

        Neither Spark nor the sources are needed for it.

        Raises:
            OnceflowError: It cannot go on; the message says what and why.
        """
        self._drive(self._coordinator.start())
        self._done_before = self._checkpoint.newest_commit()

    def settle(self, runner: Collect, sources: Sources, *, cuts: bool) -> None:
        """Compare what the plan reads and keeps with what the checkpoint knows; after it epochs may come.

        Args:
            runner: Runs an epoch's plan.
            sources: What the plan reads and keeps.
            cuts: The sources take a limit from the journal at the next start, so an epoch can be cut by it.

        Raises:
            OnceflowError: It cannot go on; the message says what and why.
        """
        self._preparing.runner, self._preparing.sources, self._preparing.cuts = runner, sources, cuts
        self._drive(self._coordinator.settle())
        if self._coordinator.memory.undone is None:
            self._journal.keep_receipts()  # of what an earlier start has finished and had no time to tell of

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Run one epoch: what Spark calls as ``foreachBatch``.

        Raises:
            EpochEnded: In the place of any error, which ``failure`` is.
            StopRequested: The job is being stopped.
        """
        try:
            if self._last_epoch >= 0:
                crash.reach("D8", self._last_epoch)
            self._rest()
            with self.stop.epoch(waits=self._coordinator.memory.undone is None):
                self._preparing.plan = batch
                self._preparing.report = report = EpochReport(epoch, self.incarnation)
                self.observer.began(epoch, self._committing.finishers.shortest_s())
                crash.reach("D1", epoch)
                try:
                    self._repair.before_epoch(first=self._last_epoch < 0)
                    offsets = self._checkpoint.offsets(epoch)
                    stateful, newest = self._checkpoint.is_stateful(), self._checkpoint.newest_commit()
                except OnceflowError as said:  # a newer start may have taken the plan back
                    raise self.true_cause(said) from said
                self._drive(self._coordinator.begin(epoch, offsets, stateful=stateful, newest_commit=newest))
                crash.reach("D7", epoch)
                self._repair.ran(epoch, offsets)
                try:
                    self._repair.behind_epoch(epoch, offsets, self._coordinator.memory.history.decided)
                except OnceflowError as said:
                    raise self.true_cause(said) from said
                self._patience.done()
                self._journal.purge()
                self._last_epoch, self._ended_at = epoch, self._now()
                self.reports[epoch] = report
                self.done(epoch)
        except BaseException as raised:
            error = self._weighed(raised, epoch)
            self.failure, self.failed = error, self._preparing.report
            if self.stop.asked:
                raise StopRequested from None
            if not isinstance(error, Exception):
                raise
            self._tell(error)
            raise EpochEnded(error) from None
        finally:
            self._preparing.plan = None
            self.observer.ended()

    def _weighed(self, error: BaseException, epoch: int) -> BaseException:
        """What is told of an epoch that has failed."""
        if self.stop.asked or not isinstance(error, OnceflowError):
            return error
        return self._patience.failed(error, epoch, self._coordinator.memory.offsets)

    def wait_outside(self, timeout_s: float) -> bool:
        """Wait until no epoch is in work and Spark has recorded the last one; False when time is over."""
        deadline = self._now() + timeout_s
        if not self.stop.wait_outside(timeout_s):
            return False
        left = turns(deadline - self._now(), _LOOK_EVERY_S, now=self._now)
        return any(self.failure is not None or self._checkpoint.is_done(self._last_epoch) for _ in left)

    def look_at_time(self, cancel: Callable[[], object]) -> None:
        """End an epoch that takes longer than it may before its decision. Any thread may call it, again and again.

        Args:
            cancel: Cancels the plan's Spark jobs.
        """
        self.stop.expire(self._now(), cancel)

    def _rest(self) -> None:
        """Wait until the next epoch may begin."""
        left = self._ended_at + self.min_pause_s - self._now()
        if left > 0:
            self.stop.rest(left)

    def hold(self, within_s: float) -> bool:
        """Hold the next epoch at its entry, once the one in work is done and recorded, until ``release``.

        Args:
            within_s: So long is waited for that.

        Returns:
            Whether it is held; if not, nothing is.
        """
        deadline = self._now() + within_s
        self.stop.hold()
        held = False
        try:
            for _ in turns(within_s, _LOOK_EVERY_S, now=self._now):
                if self.failure is not None or self.stop.asked:
                    break
                # What was found decided at the start is finished by an epoch, which is not held.
                held = self.wait_outside(deadline - self._now()) and self._coordinator.memory.undone is None
                if held:
                    break
        finally:
            if not held:
                self.stop.release()
        return held

    def release(self) -> None:
        """Let epochs begin again."""
        self.stop.release()

    def sweep(self) -> bool:
        """Abort what older incarnations opened since: a worker of a dead driver may still be at work.

        Runs in the sweeper's thread, beside an epoch: it touches older incarnations' transactions only, the journal
        holds its own lock, and the memory is one frozen value that the epoch's thread replaces whole.

        Returns:
            Whether this is still the newest start.
        """
        undone = self._coordinator.memory.undone
        found = self._committing.lingering(self.incarnation, undone.effective if undone else ())
        if self._journal.is_replaced():  # between the list and the abort, as at the start
            return False
        self._committing.abort_lingering(found)
        self.observer.performed(messages.Sweep(found), messages.Aborted())
        return True

    def refresh_mark(self) -> None:
        """Write the marks again: Kafka forgets what nobody has written for ``offsets.retention.minutes``.

        Runs in the sweeper's thread, as ``sweep`` does.
        """
        decided = self._coordinator.memory.history.decided
        self._marks.write_again(decided.epoch if decided is not None else -1, self.incarnation)

    def committers(self) -> Collection[Committer]:
        """Of the sinks that take part in the decision, by their names."""
        return self._committing.in_order()

    def true_cause(self, error: OnceflowError) -> OnceflowError:
        """The error that ended this driver: that a newer start took over comes before every other reason.

        What such a driver meets (writers that were fenced, files of Spark that are there already) looks like a passing
        trouble; whoever started it again for that would take over from the newer one.
        """
        with contextlib.suppress(CheckpointStoreError, CheckpointCorruptError):
            if self.incarnation and not isinstance(error, FencedError) and self._journal.is_replaced():
                return self.fenced()
        return error

    def explain(self, message: str) -> OnceflowError | None:
        """Our error for what a source says in a failed query's message, or None."""
        return self._preparing.explain(message)

    def fenced(self) -> FencedError:
        """The error for a newer start."""
        return fenced(self._uri, self._last_epoch if self._last_epoch >= 0 else None)

    def close(self) -> None:
        """End the driver's threads and connections."""
        self._marks.close(waiting=not self.stop.asked)  # else it must end soon, whatever waits for a broker
        self._committing.close()

    # -- the loop ---------------------------------------------------------------------------------

    def _drive(self, action: messages.Action) -> None:
        while not isinstance(action, messages.TakenOver | messages.Ready | messages.Return | messages.Fail):
            began = self._now()
            try:
                event = self._perform(action)
            except OnceflowError as said:
                raise self.true_cause(said) from said
            self.observer.performed(action, event)
            phase = _PHASES.get(type(action))
            if phase is not None:
                self._preparing.report.spent(phase, self._now() - began)
            action = self._coordinator.receive(event)
        if isinstance(action, messages.Fail):
            cause = self._preparing.cause
            if self.stop.asked and cause is not None:
                raise StopRequested from cause
            raise self.true_cause(self._error(action.failure)) from cause

    def _error(self, failure: messages.Failure) -> OnceflowError:
        if failure.kind is messages.FailureKind.COMMIT_REFUSED:
            return self._committing.refusal(
                [p for p in self._coordinator.memory.pending if p.id in failure.participants]
            )
        known = [f"{sink} {handle}: {e.why}" for (sink, handle), e in sorted(self._committing.evidence.items())]
        return from_failure(failure, self._preparing.cause, self._uri, evidence_lines(known), self.explain)

    def _perform(self, action: messages.Action) -> messages.Event:  # noqa: C901, PLR0912 - a line for each action
        match action:
            case messages.AppendStart():
                return self._append_start()
            case messages.RestoreOffsets():
                self._repair.restore(action.epoch, action.offsets, action.before)
                return messages.Restored()
            case messages.ListPlans():
                return messages.Plans(tuple(self._checkpoint.plans_from(action.epoch)))
            case messages.TakeBack():
                self._repair.take_back(action.epoch, action.planned, action.before)
                return messages.TakenBack()
            case messages.Survey():
                return self._preparing.survey(action)
            case messages.ListLingering():
                return messages.Lingering(self._committing.lingering(self.incarnation, action.spared))
            case messages.Sweep():
                self._committing.abort_lingering(action.found)
                return messages.Aborted()
            case messages.RunPlan():
                return self._preparing.run(action, self._run(action.epoch))
            case messages.Seal():
                return self._preparing.seal(action, self._run(self._coordinator.memory.epoch))
            case messages.Check():
                return self._preparing.check(action, self._run(self._coordinator.memory.epoch))
            case messages.Sync():
                return self._recording.sync(action.epoch)
            case messages.Append():
                return self._recording.append(action)
            case messages.AppendVoid():
                return self._recording.append_void(action)
            case messages.Commit():
                return messages.Replies(self._committing.commit(action.participants, action.again), self._now())
            case messages.AskOutcomes():
                return messages.Outcomes(
                    self._committing.outcomes(action.participants, again=action.again), self._now()
                )
            case messages.AbortOwn():
                self._committing.abort_own(action.participants, self._run(action.epoch))
                return messages.Aborted()
            case messages.Discard():
                self._committing.discard(action.participants)
                return messages.Aborted()
            case messages.ConfirmNewest():
                return self._recording.confirm()
            case messages.TakenOver() | messages.Ready() | messages.Return() | messages.Fail():
                raise AssertionError(f"{action} is an end, and nothing to perform")

    # -- start ------------------------------------------------------------------------------------

    def _append_start(self) -> messages.Event:
        history = self._recording.start(self._above, self._said)
        job = f"{self.name} ({self._identity.job_id})" if self.name else self._identity.job_id
        log.info("incarnation %d of job %s on %s: each start has a greater number", history.incarnation, job, self._uri)
        crash.reach("S1", history.incarnation)
        undone = history.decided is not None and not self._checkpoint.is_done(history.decided.epoch)
        self._repair.at_start(undone=undone)
        if history.decided is not None and undone:
            self._log.info(
                "epoch %d is decided and not done: it is committed, or written again where its transactions are lost",
                history.decided.epoch,
            )
        checkpoint = self._checkpoint
        if undone:
            history = self._committing.without_given_up(history)
        return messages.Started(
            history, checkpoint.newest_commit(), checkpoint.newest_offsets(), checkpoint.is_stateful()
        )

    # -- parts ------------------------------------------------------------------------------------

    def _tell(self, error: Exception) -> None:
        """Log what Spark is told in one line only: where nobody waits for the query, or it is no error of ours."""
        if not isinstance(error, OnceflowError):
            self._log.error("epoch %d ended", self._preparing.report.epoch, exc_info=error)
        elif not self.is_watched:
            log.error("%s: %s", self.name, error)

    def _run(self, epoch: int) -> Run:
        history = self._coordinator.memory.history
        # Where a part of the epoch is visible already, a sink's history may have forgotten the epoch before it.
        there = {sink for sink, _ in self._coordinator.memory.visible}
        newest = {sink: each.handle for sink, each in history.newest(below=epoch).items() if sink not in there}
        return Run(self._identity.job_id, self._identity.prefix, self.incarnation, epoch, newest, history.claimed)
