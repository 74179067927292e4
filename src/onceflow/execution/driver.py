"""The driver: the one skin between Spark's ``foreachBatch`` and the coordinator. It performs actions; it holds no rule.

Must not know: what follows from an event (``twophase`` does), or how a sink commits (its committer does).

Spark calls it in the driver's own process, one epoch after the other: ``offsets/N`` is there before, ``commits/N``
comes after it returned, and until then a restart calls it again with the same N, range and timestamp.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from onceflow import crash_points as crash
from onceflow.checkpoint.identity import JobIdentity, Mark
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint, canonical, positions
from onceflow.connectors.contract import TOO_OLD, Committer, Run, evidence_of
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    CheckpointStoreError,
    EpochFailedError,
    EpochTooLongError,
    FencedError,
    OnceflowError,
    PreCommitError,
)
from onceflow.execution import overdue
from onceflow.execution.collect import Collect
from onceflow.execution.failures import EpochEnded, evidence_lines, fenced, from_failure, from_spark
from onceflow.execution.finishers import Finishers
from onceflow.execution.job_log import JobLog
from onceflow.execution.marks import Marks
from onceflow.execution.observer import NOBODY
from onceflow.execution.patience import Patience
from onceflow.execution.put_back import refuse_put_back
from onceflow.execution.source_check import Sources
from onceflow.execution.stop import OverdueError, StopRequested
from onceflow.execution.surroundings import Surroundings
from onceflow.spark.sentences import sentence
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.layout import Layout
from onceflow.twophase.memory import Mode
from onceflow.twophase.messages import (
    Aborted,
    AbortOwn,
    Action,
    Adopted,
    Append,
    Appended,
    AppendStart,
    AppendVoid,
    AskOutcomes,
    Check,
    Checked,
    Commit,
    Confirmed,
    ConfirmNewest,
    Discard,
    Event,
    Evidence,
    Fail,
    Failure,
    FailureKind,
    Lingering,
    ListLingering,
    ListPlans,
    Outcomes,
    Plans,
    Ready,
    Replies,
    Reply,
    Restored,
    RestoreOffsets,
    Return,
    RunFailed,
    RunPlan,
    Seal,
    Sealed,
    Started,
    Survey,
    Surveyed,
    Sweep,
    Sync,
    Synced,
    TakeBack,
    TakenBack,
    TakenOver,
    Unanswered,
)
from onceflow.twophase.participants import (
    Participant,
    ParticipantId,
    parts_of,
)
from onceflow.twophase.records import Decide, History, Replay, ReplayBegin, Start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

_ASK_EVERY_S = 0.2
_COMMIT_PAUSE_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_PHASES: Mapping[type, str] = {
    RunPlan: "prepare",
    Seal: "prepare",
    Check: "check",
    Sync: "decide",
    Append: "decide",
    Commit: "commit",
}


@dataclass
class EpochReport:
    """What is told of an epoch, of the driver's part. Durations in seconds; rows by sink."""

    epoch: int
    incarnation: int = 0
    began_at: float = field(default_factory=time.time)
    rows: dict[str, int] = field(default_factory=dict)
    participants: int = 0
    phases: dict[str, float] = field(default_factory=dict)


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
        self._committers = dict(committers)
        self._runner: Collect | None = None
        self._sources: Sources | None = None
        self._cuts = True
        self._uri = uri
        self._above = above
        self._coordinator = coordinator
        self._now = around.now
        self._commits = around.commits
        self._finishers = Finishers(self._committers, lambda: coordinator.memory.epoch)
        self._marks = Marks(self._committers.values(), around.marks, identity, name)
        self._patience = Patience(journal.refusals)
        self._plan: DataFrame | None = None
        self._run_began = 0.0
        self._ended_at = -math.inf
        self._cause: BaseException | None = None
        self._evidence: dict[ParticipantId, Evidence] = {}
        self._report = EpochReport(-1)
        self._last_epoch = -1
        self._done_before: int | None = None
        self._ran: dict[int, str] = {}
        self.stop = around.stop
        self.reports: dict[int, EpochReport] = {}
        self.failure: BaseException | None = None
        self.failed: EpochReport | None = None
        self.observer = NOBODY
        self.done: Callable[[int], None] = lambda _: None
        """Told of each epoch that is finished, in Spark's thread: it neither waits nor raises."""
        self.is_watched = True
        """Whoever started the job waits for its end, and is told ``failure``; else the log tells it."""
        self.look_behind: Callable[[], None] = lambda: None
        """Asked before the first rows for a sink are decided: raises where its system came back older than what the job
        goes on from."""
        self.timeout_s = math.inf
        """An epoch may take so long before its decision."""
        self.min_pause_s = 0.0
        """The least time between the end of an epoch and the beginning of the next."""

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
        self._runner = runner
        self._sources = sources
        self._cuts = cuts
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
                self._plan = batch
                self._report = EpochReport(epoch, self.incarnation)
                self.observer.began(epoch, self._finishers.shortest_s())
                crash.reach("D1", epoch)
                try:
                    self._put_right()
                    offsets = self._checkpoint.offsets(epoch)
                    stateful, newest = self._checkpoint.is_stateful(), self._checkpoint.newest_commit()
                except OnceflowError as said:  # a newer start may have taken the plan back
                    raise self.true_cause(said) from said
                self._drive(self._coordinator.begin(epoch, offsets, stateful=stateful, newest_commit=newest))
                crash.reach("D7", epoch)
                self._ran = {epoch: offsets}
                try:
                    self._put_back(epoch, offsets)
                except OnceflowError as said:
                    raise self.true_cause(said) from said
                self._patience.done()
                self._journal.purge()
                self._last_epoch, self._ended_at = epoch, self._now()
                self.reports[epoch] = self._report
                self.done(epoch)
        except BaseException as raised:
            error = self._weighed(raised, epoch)
            self.failure, self.failed = error, self._report
            if self.stop.asked:
                raise StopRequested from None
            if not isinstance(error, Exception):
                raise
            self._tell(error)
            raise EpochEnded(error) from None
        finally:
            self._plan = None
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
        while self.failure is None and not self._checkpoint.is_done(self._last_epoch):
            if self._now() > deadline:
                return False
            time.sleep(0.02)
        return True

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
            while not held and self.failure is None and not self.stop.asked and self._now() < deadline:
                # What was found decided at the start is finished by an epoch, which is not held.
                held = self.wait_outside(deadline - self._now()) and self._coordinator.memory.undone is None
                if not held:
                    time.sleep(0.02)
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
        found = self._lingering(undone.effective if undone else ())
        if self._journal.is_replaced():  # between the list and the abort, as at the start
            return False
        self.observer.performed(Sweep(found), self._abort_lingering(found))
        return True

    def refresh_mark(self) -> None:
        """Write the marks again: Kafka forgets what nobody has written for ``offsets.retention.minutes``.

        Runs in the sweeper's thread, as ``sweep`` does.
        """
        decided = self._coordinator.memory.history.decided
        self._marks.write_again(self._mark(decided.epoch if decided is not None else -1, self.incarnation))

    def committers(self) -> Collection[Committer]:
        """Of the sinks that take part in the decision, by their names."""
        return [self._committers[name] for name in sorted(self._committers)]

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
        return None if self._sources is None else self._sources.explain(message)

    def fenced(self) -> FencedError:
        """The error for a newer start."""
        return fenced(self._uri, self._last_epoch if self._last_epoch >= 0 else None)

    def close(self) -> None:
        """End the driver's threads and connections."""
        self._marks.close(waiting=not self.stop.asked)  # else it must end soon, whatever waits for a broker
        self._commits.shutdown(wait=False, cancel_futures=True)
        for committer in self._committers.values():
            committer.close()

    # -- the loop ---------------------------------------------------------------------------------

    def _drive(self, action: Action) -> None:
        while not isinstance(action, TakenOver | Ready | Return | Fail):
            began = self._now()
            try:
                event = self._perform(action)
            except OnceflowError as said:
                raise self.true_cause(said) from said
            self.observer.performed(action, event)
            phase = _PHASES.get(type(action))
            if phase is not None:
                spent = self._report.phases
                spent[phase] = spent.get(phase, 0.0) + self._now() - began
            action = self._coordinator.receive(event)
        if isinstance(action, Fail):
            if self.stop.asked and self._cause is not None:
                raise StopRequested from self._cause
            raise self.true_cause(self._error(action.failure)) from self._cause

    def _error(self, failure: Failure) -> OnceflowError:
        if failure.kind is FailureKind.COMMIT_REFUSED:  # its system knows which right is missing
            refused = [p for p in self._coordinator.memory.pending if p.id in failure.participants]
            finisher, of = next(iter(self._finishers.by_sink(sorted(refused, key=self._finishers.kept_for_s)).items()))
            return self._committers[finisher].refusal(of)
        known = [f"{sink} {handle}: {e.why}" for (sink, handle), e in sorted(self._evidence.items())]
        return from_failure(failure, self._cause, self._uri, evidence_lines(known), self.explain)

    def _perform(self, action: Action) -> Event:  # noqa: C901, PLR0912 - a line for each action
        match action:
            case AppendStart():
                return self._append_start()
            case RestoreOffsets():
                return self._restore_offsets(action)
            case ListPlans():
                return Plans(tuple(self._checkpoint.plans_from(action.epoch)))
            case TakeBack():
                return self._take_back(action)
            case Survey():
                return self._survey(action)
            case ListLingering():
                return Lingering(self._lingering(action.spared))
            case Sweep():
                return self._abort_lingering(action.found)
            case RunPlan():
                return self._run_plan(action)
            case Seal():
                return self._seal(action)
            case Check():
                return self._check(action)
            case Sync():
                return self._sync(action)
            case Append():
                return self._append(action)
            case AppendVoid():
                return self._append_void(action)
            case Commit():
                return self._commit(action)
            case AskOutcomes():
                return self._ask_outcomes(action)
            case AbortOwn():
                return self._abort_own(action)
            case Discard():
                return self._discard(action)
            case ConfirmNewest():
                return self._confirm()
            case TakenOver() | Ready() | Return() | Fail():
                raise AssertionError(f"{action} is an end, and nothing to perform")

    # -- start ------------------------------------------------------------------------------------

    def _append_start(self) -> Event:
        history = self._journal.start(self._identity.job_id, self._above, self._identity.left, self._said)
        job = f"{self.name} ({self._identity.job_id})" if self.name else self._identity.job_id
        log.info("incarnation %d of job %s on %s: each start has a greater number", history.incarnation, job, self._uri)
        if self._journal.is_newest():  # else an older mark would take the place of a newer start's
            self._marks.write(self._mark(history.decided.epoch if history.decided else -1, history.incarnation))
        crash.reach("S1", history.incarnation)
        undone = history.decided is not None and not self._checkpoint.is_done(history.decided.epoch)
        self._checkpoint.mend(self._journal.decided_offsets, refusing=not undone)
        done = self._done()
        for epoch in self._checkpoint.other_than(done):
            self._checkpoint.put_right(epoch, done[epoch])
        self._journal.adopt_passed(max(done.items(), default=None))
        self._ran = done
        if history.decided is not None and undone:
            self._log.info(
                "epoch %d is decided and not done: it is committed, or written again where its transactions are lost",
                history.decided.epoch,
            )
        checkpoint = self._checkpoint
        if undone:
            history = self._without_given_up(history)
        return Started(history, checkpoint.newest_commit(), checkpoint.newest_offsets(), checkpoint.is_stateful())

    def _put_right(self) -> None:
        """Put right what a driver that slept has written over ``offsets/`` of the epoch before.

        Spark has read it when its query began: written over between this start's own look and that, it has Spark begin
        the first epoch at another place. So that one is not run; behind it Spark goes by what it has in memory.
        """
        other = self._checkpoint.other_than(self._ran)
        for epoch in other:
            self._put_right_one(epoch, self._ran[epoch])
        if other and self._last_epoch < 0:
            raise EpochFailedError(
                f"offsets/{other[-1]} was written over while this start began, and Spark may have read it: the epoch "
                "behind it could read records once more, or leave some out",
                harmless="always for the data: nothing of the epoch was run, and the file is right again",
                cause="a driver of an older start slept while it planned an epoch, and woke up now",
                action="start the job again; it goes on from what is decided",
                epoch=other[-1],
            )

    def _put_back(self, epoch: int, offsets: str) -> None:
        """See before the return that ``offsets/<epoch>`` is what was run, and keep it where no decision does."""
        decided = self._coordinator.memory.history.decided
        if decided is None or decided.epoch != epoch:
            self._journal.note_passed(epoch, offsets)
        if self._checkpoint.offsets(epoch) != offsets:
            self._put_right_one(epoch, offsets)

    def _put_right_one(self, epoch: int, offsets: str) -> None:
        if self._journal.is_replaced():
            raise self.fenced()
        self._checkpoint.put_right(epoch, offsets)

    def _without_given_up(self, history: History) -> History:
        """The history without rows that an operator has given up, of sinks that the job has no more.

        Nobody can be asked for them, nor can the epoch's plan write them again.
        """
        decided = history.decided
        if decided is None:
            return history
        nobodys = {p.sink for p in decided.effective if self._finishers.of(p) is None}
        kept = {p.sink for p in decided.effective if p.id not in decided.counted}
        gone = nobodys - kept
        if not gone:
            return history
        rows = sum(p.rows for p in decided.effective if p.sink in gone)
        self._log.warning(
            "epoch %d goes on without sink %s, which the job has no more: an operator has given up %d rows",
            decided.epoch,
            ", ".join(sorted(gone)),
            rows,
        )
        return replace(history, decided=decided.without(gone))

    def _done(self) -> dict[int, str]:
        """What epochs of this job have read, as the journal proves it: those decided, and the last one without."""
        found = {each.epoch: each.offsets for each in self._journal.decided_epochs(self._identity.job_id)}
        moved = self._journal.decided_offsets()  # where an operator has given up rows, behind the decision
        found |= {epoch: moved[epoch] for epoch in found if epoch in moved}
        passed = self._journal.passed()
        if passed is not None and passed[0] not in found:
            found[passed[0]] = passed[1]
        newest = self._checkpoint.newest_commit()
        return {} if newest is None else {n: text for n, text in found.items() if newest - 1 <= n <= newest}

    def _restore_offsets(self, action: RestoreOffsets) -> Event:
        self._put_right_one(action.epoch, action.offsets)
        if action.before:
            self._begin_at(action.epoch, action.before)
        return Restored()

    def _take_back(self, action: TakeBack) -> Event:
        self._log.warning(
            "Spark's plan of epoch %d is taken back: it is not decided, and is planned anew", action.epoch
        )
        self._checkpoint.take_back(action.epoch, action.planned)
        if action.before:
            self._begin_at(action.epoch, action.before)
        return TakenBack()

    def _begin_at(self, epoch: int, before: str) -> None:
        self._checkpoint.set_start(epoch, before)
        self._ran[epoch - 1] = before  # which stands in its file now, whatever it had read

    def _survey(self, action: Survey) -> Event:
        if self._sources is None:
            return Surveyed(self._coordinator.memory.history.layout or Layout())
        memory = self._coordinator.memory
        found, self._cause = self._sources.survey(
            self._checkpoint, memory.undone, memory.history.layout, again=action.again
        )
        if found.loss:
            self._log.warning("%s", found.loss)
        return found

    def _lingering(self, spared: Sequence[Participant]) -> dict[str, tuple[Participant, ...]]:
        # Every committer is told all that is spared: sinks may share a cluster, and one lists what another's wrote.
        mine = self.incarnation
        found = {name: tuple(committer.lingering(mine, spared)) for name, committer in self._committers.items()}
        crash.reach("S2", mine)
        return found

    def _abort_lingering(self, found: Mapping[str, Sequence[Participant]]) -> Event:
        for name, doomed in found.items():
            if doomed:
                self._log.info("sink %s: aborting %d transactions that older incarnations left open", name, len(doomed))
                self._committers[name].abort(doomed)
        return Aborted()

    def _confirm(self) -> Event:
        try:
            return Confirmed(newest=self._journal.is_newest())
        except CheckpointStoreError as error:
            return Unanswered(error.what)

    # -- an epoch ---------------------------------------------------------------------------------

    def _run_plan(self, action: RunPlan) -> Event:
        self._run_began = self._now()
        self._cause = None
        if self._coordinator.memory.mode is Mode.FRESH:  # what is decided takes as long as it takes
            self.stop.bound(self._run_began + self.timeout_s)
        if not action.write:
            self._log.info(
                "epoch %d is committed: its plan runs once more and writes nothing, for the state", action.epoch
            )
        try:
            with self.stop.plan():
                if self._plan is None or self._runner is None:
                    raise AssertionError("a plan runs inside foreachBatch, after settle")
                records = self._records_of(action.epoch)
                ran = self._runner(self._plan, action, self._run(action.epoch), records, self._commits)
                _require_range(action.epoch, self._coordinator.memory.offsets, ran.ends)
        except Exception as error:  # noqa: BLE001 - whatever it was, the epoch's transactions must be aborted
            return self._failed_run(action.epoch, error)
        for report in ran.reports:
            rows = sum(part.rows for part in parts_of([report]))
            self._report.rows[report.sink] = self._report.rows.get(report.sink, 0) + rows
        return replace(ran, took_ms=int((self._now() - self._run_began) * 1000))

    def _records_of(self, epoch: int) -> int:
        """How many records the sources read for an epoch, 0 where that cannot be told."""
        with contextlib.suppress(CheckpointStoreError):  # only the number of tasks hangs on it
            return sum(self._sizes(epoch))
        return 0

    def _seal(self, action: Seal) -> Event:
        epoch = self._coordinator.memory.epoch
        run = self._run(epoch)
        sealed: list[Participant] = []
        try:
            for name, committer in self._committers.items():
                sealed += committer.seal([report for report in action.reports if report.sink == name], run)
        except Exception as error:  # noqa: BLE001 - as of the run
            return self._failed_run(epoch, error)
        self._report.participants = len(sealed)
        self._finishers.sealed(sealed)
        crash.reach("D4", epoch)
        return Sealed(tuple(sorted(sealed, key=lambda p: p.id)))

    def _failed_run(self, epoch: int, error: Exception) -> Event:
        """Why a run failed: too long for its transactions, or what it says itself."""
        self._cause = error
        if self.stop.overdue:
            return RunFailed("it took too long", self._timed_out(epoch))
        reason = sentence(error)
        age, timeout = self._now() - self._run_began, self._finishers.shortest_s()
        if isinstance(from_spark(error, self.explain), PreCommitError) and age >= TOO_OLD * timeout:
            with contextlib.suppress(CheckpointStoreError):  # how large it is cannot be read: its own error is told
                return RunFailed(reason, self._too_long(epoch, reason, age))
        return RunFailed(reason)

    def _too_long(self, epoch: int, said: str, age: float) -> int | None:
        """How many records each source may read for an epoch from now on; the cause becomes one that says so."""
        decided = self._coordinator.memory.mode is not Mode.FRESH
        read = () if decided else self._sizes(epoch)
        limit, self._cause = overdue.outlived(
            epoch, said, age, self._finishers.shortest_s(), read, cuts=self._cuts, decided=decided
        )
        return limit

    def _timed_out(self, epoch: int) -> int | None:
        """As ``_too_long``, for an epoch that took longer than the checkpoint's time-out."""
        age = self._now() - self._run_began
        read: Sequence[int] = ()
        with contextlib.suppress(CheckpointStoreError):
            read = self._sizes(epoch) if self._cuts else ()
        limit, self._cause = overdue.timed_out(epoch, age, self.timeout_s, read)
        return limit

    def _sizes(self, epoch: int) -> Sequence[int]:
        """How many records each source read for an epoch; empty where there are no sources to ask."""
        return self._sources.sizes(self._checkpoint, epoch) if self._sources is not None else ()

    def _check(self, action: Check) -> Event:
        age = self._now() - self._run_began
        run = self._run(self._coordinator.memory.epoch)
        try:
            if any(p.sink not in run.newest for p in action.participants):
                self.look_behind()
            for name, committer in self._committers.items():
                of = [p for p in action.participants if p.sink == name]
                problem = committer.check(of, run, age) if action.participants else None
                if problem is not None:
                    return Checked(problem)
            layout = None
            if self._sources is not None:
                memory = self._coordinator.memory
                layout = self._sources.look_again(memory.layout, memory.offsets)
            self.look_at_time(lambda: None)
            self.stop.decide()
        except OverdueError:
            return Checked("it took too long", self._timed_out(run.epoch))
        except EpochTooLongError as error:
            self._cause = error
            with contextlib.suppress(CheckpointStoreError):
                return Checked(error.what, self._too_long(run.epoch, error.what, age))
            return Checked(error.what)
        except CheckpointConflictError as error:
            self._cause = self._what_is_lost() or error
            return Checked(error.what, conflict=True)
        except Exception as error:  # noqa: BLE001 - whatever it was, the epoch's transactions must be aborted
            self._cause = error
            return Checked(str(error) or "the job is being stopped")
        return Checked(None, layout=layout)

    def _what_is_lost(self) -> CheckpointConflictError | None:
        """What a start would say of a system that was put back: which epochs and how many rows are gone."""
        try:
            refuse_put_back(self._committers, self._said.systems, self._journal, self._identity, self._checkpoint)
        except CheckpointConflictError as error:
            return error
        except OnceflowError:  # it does not answer: then what the check has seen is told
            return None
        return None

    def _sync(self, action: Sync) -> Event:
        try:
            self._checkpoint.sync(action.epoch)
        except CheckpointStoreError as error:
            return Unanswered(error.what)
        return Synced()

    def _append(self, action: Append) -> Event:
        record = action.record
        result = self._journal.append(record)
        if isinstance(record, ReplayBegin | Replay) and isinstance(result, Appended):
            self._log.warning("epoch %d: %s", record.epoch, _told(record))
        if isinstance(record, Decide) and isinstance(result, Appended):
            self._marks.write(self._mark(record.epoch, record.incarnation))
            crash.reach("D5", record.epoch)
        return result

    def _append_void(self, action: AppendVoid) -> Event:
        result = self._journal.append_void(action.record)
        if isinstance(result, Adopted):  # it is decided after all, so an older copy must be noticed from here on
            self._marks.write(self._mark(action.record.epoch, action.record.incarnation))
        return result

    def _commit(self, action: Commit) -> Event:
        pause = _COMMIT_PAUSE_S[min(action.again, len(_COMMIT_PAUSE_S) - 1)]
        if pause:
            self.stop.pause(pause)
        if action.again and action.again % 30 == 0:
            self._log.warning(
                "epoch %d is decided and %d commits have no answer yet (round %d); the decision stands and they are "
                "sent again",
                self._coordinator.memory.epoch,
                len(action.participants),
                action.again,
            )
        replies: dict[ParticipantId, Reply] = {}
        ordered = sorted(action.participants, key=self._finishers.kept_for_s)
        for together in crash.parted("D6", self._coordinator.memory.epoch, ordered):
            for _, wave in groupby(together, key=self._finishers.kept_for_s):
                replies |= self._commit_wave(list(wave), set(replies.values()) - {Reply.COMMITTED})
        crash.reach("D6a", self._coordinator.memory.epoch)
        return Replies(replies, self._now())

    def _commit_wave(self, wave: Sequence[Participant], before: set[Reply]) -> dict[ParticipantId, Reply]:
        """Commit what is kept for equally long; nothing where what expires sooner is not committed yet.

        So what never expires cannot be visible while the rest of its epoch is lost.
        """
        if before:
            answer = Reply.REFUSED if before == {Reply.REFUSED} else Reply.RETRY
            return {p.id: answer for p in wave}
        by_sink = self._finishers.by_sink(wave)
        waiting = [self._commits.submit(self._committers[name].commit, of) for name, of in by_sink.items()]
        return {who: reply for future in waiting for who, reply in future.result().items()}

    def _ask_outcomes(self, action: AskOutcomes) -> Event:
        if action.again:
            self.stop.pause(_ASK_EVERY_S)
        self._evidence = {}
        for name, of in self._finishers.by_sink(action.participants).items():
            self._evidence |= evidence_of(self._committers[name], of)
        return Outcomes(self._evidence, self._now())

    def _abort_own(self, action: AbortOwn) -> Event:
        run = self._run(action.epoch)
        for name, committer in self._committers.items():
            try:
                committer.abort([p for p in action.participants if p.sink == name])
                committer.abort_run(run)
            except OnceflowError as error:
                self._log.warning(
                    "transactions of epoch %d stay open until the next start: %s", action.epoch, error.what
                )
        return Aborted()

    def _discard(self, action: Discard) -> Event:
        for name, of in self._finishers.by_sink(action.participants).items():
            self._committers[name].abort(of)
        # Their outcomes are asked next, and whatever is still open comes back here.
        self.stop.pause(_ASK_EVERY_S)
        return Aborted()

    # -- parts ------------------------------------------------------------------------------------

    def _tell(self, error: Exception) -> None:
        """Log what Spark is told in one line only: where nobody waits for the query, or it is no error of ours."""
        if not isinstance(error, OnceflowError):
            self._log.error("epoch %d ended", self._report.epoch, exc_info=error)
        elif not self.is_watched:
            log.error("%s: %s", self.name, error)

    def _run(self, epoch: int) -> Run:
        history = self._coordinator.memory.history
        # Where a part of the epoch is visible already, a sink's history may have forgotten the epoch before it.
        there = {sink for sink, _ in self._coordinator.memory.visible}
        newest = {sink: each.handle for sink, each in history.newest(below=epoch).items() if sink not in there}
        return Run(self._identity.job_id, self._identity.prefix, self.incarnation, epoch, newest, history.claimed)

    def _mark(self, epoch: int, incarnation: int) -> Mark:
        return Mark(incarnation, self._journal.start_nonce, epoch)


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


def _told(record: ReplayBegin | Replay) -> str:
    """A replay's record in words, for the log."""
    if isinstance(record, ReplayBegin):
        return "a decided transaction is proven lost: its records are written again from the checkpoint's offsets"
    return (
        f"written again: {len(record.participants)} new transactions are decided, {len(record.kept)} of before are kept"
    )
