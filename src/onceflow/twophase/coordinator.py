"""The coordinator: told what happened, it answers what to do next.

Must not know: Spark, Kafka, files, time. The caller performs one action at a time and tells the coordinator how
it ended; the coordinator never waits, never raises for anything the outside world does, and keeps nothing that
the journal could not give back.

How to read it: ``state.py`` holds the steps; ``_read`` turns an event into one input of that table and the ``memory``
that goes with it, by the ``_read_*`` below, by ``outcomes`` (what became of decided transactions) and by ``runs`` (what
a run of the plan gave); ``_next`` says which action a state begins with. An event that the table does not know leaves
the coordinator as it was.

The invariants that these rules keep (the simulation checks them after every step):

1. A participant is committed only if the journal decided it.
2. A participant of a decision's effective set is never aborted by us, except after ``replay-begin``.
3. For each (epoch, sink, part) at most one transaction is ever visible.
4. When Spark records an epoch, every participant of its effective set is committed.
6. No driver appends after a newer start; none aborts another's transaction before its own start is durable.
8. State and output of an epoch come from the same run, or are proven equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from onceflow.twophase.layout import what_moved
from onceflow.twophase.memory import Memory, Mode, Reading, decided_parts, failing, open_business
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
    Fail,
    Failure,
    FailureKind,
    Lingering,
    ListLingering,
    ListPlans,
    Outcomes,
    Plans,
    Ran,
    Ready,
    Replies,
    Restored,
    RestoreOffsets,
    Return,
    RunFailed,
    RunPlan,
    Seal,
    Sealed,
    Started,
    Superseded,
    Survey,
    Surveyed,
    Sweep,
    Sync,
    Synced,
    TakeBack,
    TakenBack,
    TakenOver,
    Unanswered,
    Voided,
)
from onceflow.twophase.outcomes import read_outcomes, read_replies
from onceflow.twophase.participants import (
    Part,
    prepared,
)
from onceflow.twophase.records import (
    Decide,
    DecidedEpoch,
    History,
    HistoryError,
    LayoutRecord,
    Recut,
    Replay,
    ReplayBegin,
    Skip,
    Void,
)
from onceflow.twophase.runs import read_checked, read_ran, read_run_failed, read_sealed
from onceflow.twophase.state import TABLE, Input, State, step


class Coordinator:
    """The rules of one incarnation.

    Args:
        sinks: Names of the sinks that take part in the decision, as the job has them now.

    Attributes:
        state: Where it stands.
        happened: By which step of the table it came there; None where it begins.
        memory: What it remembers.
    """

    def __init__(self, sinks: Iterable[str]) -> None:
        self.state = State.NEW
        self.happened: Input | None = None
        self.memory = Memory()
        self._sinks = frozenset(sinks)

    # -- what a caller may do ---------------------------------------------------------------------

    def start(self) -> Action:
        """Begin the incarnation. Go on with ``receive`` until ``TakenOver`` or ``Fail``.

        What was decided is finished in here, before any check may end the start: consumers are waiting for it, and it
        may expire.
        """
        return self._step(Input.START, self.memory)

    def settle(self) -> Action:
        """Compare what the plan reads and keeps. Go on with ``receive`` until ``Ready`` or ``Fail``."""
        return self._step(Input.SETTLE, self.memory)

    def begin(self, epoch: int, offsets: str, *, stateful: bool, newest_commit: int | None = None) -> Action:
        """Begin an epoch that Spark has planned. Go on with ``receive`` until ``Return`` or ``Fail``.

        Args:
            epoch: Spark's batch id.
            offsets: ``offsets/<epoch>``, byte for byte.
            stateful: Whether the plan keeps state between epochs.
            newest_commit: Spark's newest ``commits/`` entry now.
        """
        return self._step(*self._read_epoch(epoch, offsets, stateful, newest_commit))

    def receive(self, event: Event) -> Action:
        """Say how the last action ended; the answer is the next action.

        Raises:
            IllegalTransitionError: The event does not belong to this state. Nothing has changed.
        """
        return self._step(*self._read(event))

    def _step(self, happened: Input, memory: Memory) -> Action:
        before = self.state
        self.state = step(before, happened)
        self.happened, self.memory = happened, memory
        if before is State.CONFIRMING and self.state is State.READY:
            # The epoch is done, and nothing of it is remembered.
            self.memory = Memory(history=memory.history, layout=memory.layout)
            return Return(memory.epoch)
        return self._next()

    # -- events: what they mean -------------------------------------------------------------------

    def _read(self, event: Event) -> Reading:  # noqa: C901, PLR0912 - a line for each event
        match event:
            case Started():
                return self._read_started(event)
            case Restored():
                return self._read_restored()
            case Lingering():
                return Input.LISTING_DONE, replace(self.memory, lingering=event.found)
            case Plans():
                return Input.LISTING_DONE, replace(self.memory, planned=event.epochs)
            case TakenBack():
                return self._read_taken_back()
            case Surveyed():
                return self._read_surveyed(event)
            case Outcomes():
                return read_outcomes(self.state, self.memory, event)
            case Replies():
                return read_replies(self.state, self.memory, event)
            case Ran():
                return read_ran(self.state, self.memory, event, self._sinks)
            case Sealed():
                return read_sealed(self.memory, event)
            case RunFailed():
                return read_run_failed(self.state, self.memory, event)
            case Checked():
                return read_checked(self.memory, event)
            case Synced():
                return Input.SYNCED, self.memory
            case Appended() | Adopted():
                return self._read_appended(event)
            case Superseded():
                return self._read_superseded()
            case Unanswered():
                return self._read_unanswered(event)
            case Voided():
                return self._read_voided()
            case Aborted():
                return self._read_aborted()
            case Confirmed():
                return self._read_confirmed(event)

    def _read_epoch(self, epoch: int, offsets: str, stateful: bool, newest_commit: int | None) -> Reading:
        m = replace(self.memory, epoch=epoch, offsets=offsets, stateful=stateful)
        done = -1 if newest_commit is None else newest_commit
        if m.undone is not None and m.undone.epoch < epoch and done >= m.undone.epoch:
            # An older driver had confirmed it, and its Spark recorded it, after this start had looked.
            m = replace(m, undone=None)
        if m.undone is None:
            decided = m.history.decided
            if decided is not None and decided.epoch >= epoch:
                # Spark has gone back behind a decision; its rows would be written again.
                return Input.EPOCH_UNEXPECTED, failing(m, FailureKind.EPOCH_UNEXPECTED, detail=f"{decided.epoch}")
            return Input.EPOCH, replace(m, mode=Mode.FRESH)
        undone = m.undone
        if undone.epoch != epoch:
            return Input.EPOCH_UNEXPECTED, failing(m, FailureKind.EPOCH_UNEXPECTED, detail=f"{undone.epoch}")
        if undone.offsets != offsets:
            # Another range under the decided number: what lies between the two would be lost or doubled.
            return Input.EPOCH_UNEXPECTED, failing(m, FailureKind.OFFSETS_DIFFER)
        m = replace(m, mode=Mode.ROLL_FORWARD)
        if undone.replaying:
            return Input.EPOCH_REPLAYING, m
        if m.finished:
            return (Input.EPOCH_FINISHED_STATEFUL if stateful else Input.EPOCH_FINISHED), m
        return Input.EPOCH_DECIDED, replace(m, pending=open_business(undone))

    def _read_started(self, event: Started) -> Reading:
        newest = -1 if event.newest_commit is None else event.newest_commit
        planned = -1 if event.newest_plan is None else event.newest_plan
        m = replace(
            self.memory,
            history=event.history,
            newest_commit=newest,
            newest_plan=planned,
            stateful=event.stateful,
        )
        try:
            undone = event.history.undone(event.newest_commit)
        except HistoryError as error:
            return Input.TWO_UNDONE, failing(m, FailureKind.TWO_UNDONE, detail=str(error))
        m = replace(m, undone=undone)
        if undone is None:
            return Input.STARTED, m
        m = replace(m, epoch=undone.epoch, offsets=undone.offsets, pending=open_business(undone))
        return Input.STARTED_UNDONE, m

    def _read_restored(self) -> Reading:
        m = self.memory
        if self.state is State.MOVING:
            return Input.OFFSETS_MOVED, m
        replaying = m.undone is not None and m.undone.replaying
        return (Input.REPLAY_UNFINISHED if replaying else Input.OFFSETS_SAME), m

    def _read_taken_back(self) -> Reading:
        return (Input.TAKEN_BACK if self.memory.skip is None else Input.OFFSETS_MOVED), self.memory

    def _read_surveyed(self, event: Surveyed) -> Reading:
        m = replace(self.memory, layout=event.layout)
        failure = objection(m.history, m.undone, self._next_epoch(m), event)
        if failure is not None:
            lost = failure.kind is FailureKind.SOURCE_LOST
            return (Input.SOURCE_LOST if lost else Input.LAYOUT_MOVED), replace(m, failure=failure)
        changed = self._changed_sinks(m)
        if changed:
            return Input.SINKS_CHANGED, failing(m, FailureKind.SINKS_CHANGED, detail=", ".join(sorted(changed)))
        if event.loss:
            skip = Skip(m.history.incarnation, self._next_epoch(m), event.before, event.offsets)
            return Input.LOSS_ACCEPTED, replace(m, skip=skip)
        return (Input.LAYOUT_SAME if event.layout == m.history.layout else Input.LAYOUT_NEW), m

    @staticmethod
    def _next_epoch(m: Memory) -> int:
        """The undone epoch, or the one that comes next."""
        return m.undone.epoch if m.undone is not None else m.newest_commit + 1

    def _changed_sinks(self, m: Memory) -> frozenset[str]:
        """Sinks by which the undone epoch and the job differ, where the epoch's plan must run again as it ran."""
        if m.undone is None or (m.finished and not m.stateful):
            return frozenset()
        # Run again for other sinks, the epoch would lack the rows of one that is gone, or doubt those of a new one.
        return self._sinks.symmetric_difference(m.undone.sinks)

    def _read_appended(self, event: Appended | Adopted) -> Reading:
        m = self.memory
        happened = Input.ADOPTED if isinstance(event, Adopted) else Input.APPENDED
        if happened not in TABLE[self.state]:
            return happened, m
        match self.state:
            case State.BEGINNING_REPLAY:
                history = m.history.then(self._replay_begin())
                return happened, replace(m, history=history, undone=history.decided)
            case State.LAYING | State.RECORDING:
                if self.state is State.RECORDING and not m.written:
                    happened = Input.APPENDED_NOTHING
                return happened, replace(m, history=m.history.then(self._planned()))
            case State.SKIPPING if m.skip is not None:
                history = m.history.then(m.skip)
                if m.undone is None:
                    return Input.APPENDED_UNDECIDED, replace(m, history=history)
                return happened, replace(m, history=history, undone=history.decided)
            case State.RECUTTING:
                return happened, m
        decision = self._decision()
        history = m.history.then(decision)
        return happened, replace(m, history=history, undone=history.decided, pending=decision.participants, rounds=0)

    def _read_superseded(self) -> Reading:
        # Before every other reason: a fenced driver that is told to start again fences the one that runs, for ever.
        return Input.SUPERSEDED, failing(self.memory, FailureKind.FENCED)

    def _read_unanswered(self, event: Unanswered) -> Reading:
        if self.state in (State.RECUTTING, State.SUSPECTING):
            return Input.UNANSWERED, self.memory  # what was said before is told; recut, the next start takes as long
        failed = self.memory.failure
        if self.state is State.DOUBTING and failed is not None and failed.kind is FailureKind.REBUILD_FAILED:
            return Input.UNANSWERED, self.memory
        kind = {
            State.BEGINNING_REPLAY: FailureKind.REPLAY_NOT_RECORDED,
            State.LAYING: FailureKind.NOT_RECORDED,
            State.SKIPPING: FailureKind.NOT_RECORDED,
            State.RECORDING: FailureKind.NOT_RECORDED,
            State.SYNCING: FailureKind.NOT_RECORDED,
            State.DOUBTING: FailureKind.NOT_CONFIRMED,
            State.CONFIRMING: FailureKind.NOT_CONFIRMED,
            State.LISTED: FailureKind.NOT_CONFIRMED,
            State.PLANS_FOUND: FailureKind.NOT_CONFIRMED,
        }.get(self.state, FailureKind.DECISION_UNCERTAIN)
        return Input.UNANSWERED, failing(self.memory, kind, detail=event.reason)

    def _read_voided(self) -> Reading:
        detail = self.memory.failure.detail if self.memory.failure else ""
        return Input.VOIDED, failing(self.memory, FailureKind.DECISION_VOIDED, detail=detail)

    def _read_aborted(self) -> Reading:
        m = self.memory
        if self.state is State.SWEEPING:
            return (Input.SWEPT if self._plan_left(m) is None else Input.SWEPT_PLAN_LEFT), m
        too_long = self.state is State.ABORTING and m.limit is not None
        return (Input.ABORTED_TOO_LONG if too_long else Input.ABORTED), m

    def _read_confirmed(self, event: Confirmed) -> Reading:
        if not event.newest:
            return Input.SUPERSEDED, failing(self.memory, FailureKind.FENCED)
        return Input.NEWEST, self.memory

    def _plan_left(self, m: Memory) -> tuple[int, str] | None:
        """From which epoch on Spark's plans are not decided and must not be run as they are; and where it begins then.

        The second is what ``offsets/`` of the epoch before is to hold, "" for what it holds.
        """
        if m.skip is not None:
            return self._next_epoch(m), m.skip.before
        if m.undone is not None:
            # Spark plans an epoch when it has recorded the one before: that record is lost, and comes again.
            return (m.undone.epoch + 1, "") if m.newest_plan > m.undone.epoch else None
        after = m.newest_commit + 1
        recut, skip = m.history.recut, m.history.skip
        if skip is not None and skip.epoch == after:
            return after, skip.before
        # Spark plans an epoch when it has recorded the one before: a plan further on says that the record of this one
        # was lost with the power. Spark would go on behind a hole, or without the state of the epoch in it.
        ahead = m.newest_plan > after
        return (after, "") if ahead or (recut is not None and recut.epoch == after) else None

    # -- states: which action they begin with -----------------------------------------------------

    def _next(self) -> Action:  # noqa: C901, PLR0912 - a line for each state
        m = self.memory
        match self.state:
            case State.STARTING:
                return AppendStart()
            case State.RESTORING:
                return self._restore()
            case State.ASSESSING | State.JUDGING:
                return AskOutcomes(m.pending, again=m.asked_since is not None)
            case State.FINISHING | State.COMMITTING:
                return Commit(m.pending, m.rounds)
            case State.LISTING:
                # What is decided is of an older incarnation, too: swept, its rows are lost. All sinks' are spared, also
                # of one that the job has no more. A finished epoch's are not open; sparing them costs nothing.
                return ListLingering(open_business(m.undone))
            case State.SWEEPING:
                return Sweep(m.lingering)
            case State.FINDING_PLANS:
                return ListPlans(self._to_take_back()[0])
            case State.TAKING_BACK:
                epoch, before = self._to_take_back()
                return TakeBack(epoch, m.planned, before)
            case State.TAKEN_OVER:
                return TakenOver()
            case State.SURVEYING:
                return self._survey()
            case State.SKIPPING:
                return self._skip()
            case State.MOVING:
                return self._restore()
            case State.LAYING | State.RECORDING:
                return Append(self._planned())
            case State.READY:
                return Ready()
            case State.PREPARING:
                return RunPlan(m.epoch, silent=m.silent)
            case State.SEALING:
                return Seal(prepared(m.reports, m.silent))
            case State.CHECKING:
                return Check(m.written)
            case State.SYNCING:
                return Sync(m.epoch)
            case State.DECIDING:
                return Append(self._decision())
            case State.VOIDING:
                return AppendVoid(Void(m.history.incarnation, m.epoch))
            case State.REBUILDING | State.MATCHING:
                # Silent: the epoch's rows, or some of them, are visible already.
                return RunPlan(m.epoch, write=False)
            case State.BEGINNING_REPLAY:
                return Append(self._replay_begin())
            case State.DISCARDING:
                return Discard(m.pending)
            case State.WEIGHING | State.RECONSIDERING:
                return AskOutcomes(open_business(m.undone), again=m.asked_since is not None)
            case State.ABORTING:
                return AbortOwn(m.epoch, m.written)
            case State.RECUTTING:
                return Append(Recut(m.history.incarnation, m.epoch, m.limit or 1))
            case State.LISTED | State.PLANS_FOUND | State.SUSPECTING | State.CONFIRMING | State.DOUBTING:
                return ConfirmNewest()
            case State.FENCED | State.FAILED | State.STOPPED if m.failure is not None:
                return Fail(m.failure)
        raise AssertionError(f"{self.state.name} without what it is about")

    def _restore(self) -> Action:
        undone = self.memory.undone
        if undone is None:
            raise AssertionError("there is nothing to restore")
        return RestoreOffsets(undone.epoch, undone.offsets, undone.before)

    def _to_take_back(self) -> tuple[int, str]:
        left = self._plan_left(self.memory)
        if left is None:
            raise AssertionError("there is nothing to take back")
        return left

    def _survey(self) -> Action:
        m = self.memory
        again = m.undone is not None and (m.lost or m.undone.replaying or m.stateful)
        return Survey(again)

    def _skip(self) -> Action:
        if self.memory.skip is None:
            raise AssertionError("there is nothing to skip")
        return Append(self.memory.skip)

    # -- parts ------------------------------------------------------------------------------------

    def _decision(self) -> Decide | Replay:
        m = self.memory
        incarnation = m.history.incarnation
        if m.mode is Mode.FRESH:
            having = {p.sink for p in m.written}
            quiet = tuple(each for sink, each in sorted(m.history.newest().items()) if sink not in having)
            sinks = tuple(sorted(self._sinks))
            return Decide(incarnation, m.epoch, m.offsets, sinks, m.written, m.took_ms, newest=quiet)
        replays = m.undone.replays if m.undone else 0
        if m.mode is Mode.WHOLE:
            return Replay(incarnation, m.epoch, replays, "whole", m.written)
        # Numbered on behind those that stay: a part's number may be that of a visible one of the run before.
        behind = 1 + max((part.number for part in decided_parts(m.undone)), default=-1)
        return Replay(
            incarnation,
            m.epoch,
            replays,
            "parts",
            tuple(replace(p, parts=tuple(_numbered_on(p.parts, behind))) for p in m.written),
            tuple(sorted(m.visible)),
        )

    def _planned(self) -> LayoutRecord:
        return LayoutRecord(self.memory.history.incarnation, self.memory.layout)

    def _replay_begin(self) -> ReplayBegin:
        replays = self.memory.undone.replays if self.memory.undone else 0
        return ReplayBegin(self.memory.history.incarnation, self.memory.epoch, replays + 1)


def objection(history: History, undone: DecidedEpoch | None, epoch: int, found: Surveyed) -> Failure | None:
    """Why a job cannot go on with what its plan was found to read and keep, or None.

    Args:
        history: The journal.
        undone: The decided epoch that Spark has not recorded, or None.
        epoch: It, or the one that comes next.
        found: What was found.
    """
    moved = what_moved(history.layout, found.layout, begun=epoch > 0) if history.layout is not None else None
    if moved is not None:
        return Failure(FailureKind.LAYOUT_MOVED, epoch, detail=moved)
    accepted = undone.loss_accepted if undone is not None else history.loss_accepted == epoch
    if found.loss and not accepted:
        return Failure(FailureKind.SOURCE_LOST, epoch, detail=found.loss)
    return None


def _numbered_on(parts: Iterable[Part], behind: int) -> Iterator[Part]:
    return (replace(part, number=part.number + behind) for part in parts)
