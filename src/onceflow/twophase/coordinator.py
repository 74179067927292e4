"""The coordinator: told what happened, it answers what to do next.

Must not know: Spark, Kafka, files, time. The caller performs one action at a time and tells the coordinator how
it ended; the coordinator never waits, never raises for anything the outside world does, and keeps nothing that
the journal could not give back.

How to read it: ``state.py`` holds the steps; ``_read`` and the ``_read_*`` below turn an event into one input of that
table and the memory that goes with it; ``_next`` says which action a state begins with. An event that the table does
not know leaves the coordinator as it was.

The invariants that these rules keep (the simulation checks them after every step):

1. A participant is committed only if the journal decided it.
2. A participant of a decision's effective set is never aborted by us, except after ``replay-begin``.
3. For each (epoch, sink, part) at most one transaction is ever visible.
4. When Spark records an epoch, every participant of its effective set is committed.
6. No driver appends after a newer start; none aborts another's transaction before its own start is durable.
8. State and output of an epoch come from the same run, or are proven equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from onceflow.twophase.layout import Layout, remade, what_moved
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
    Outcome,
    Outcomes,
    Plans,
    Ran,
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
from onceflow.twophase.participants import (
    Part,
    Participant,
    ParticipantId,
    PartId,
    TaskReport,
    come_again,
    differing_rows,
    differing_sinks,
    find_again,
    find_by_origin,
    parts_of,
    prepared,
    uncovered,
    unreported,
)
from onceflow.twophase.records import (
    Decide,
    DecidedEpoch,
    History,
    HistoryError,
    Planned,
    Recut,
    Replay,
    ReplayBegin,
    Skip,
    Void,
)
from onceflow.twophase.state import TABLE, Input, State, step

PATIENCE_S = 60.0
"""How long is waited for what may still change by itself: markers are there by then, or need a person."""


class Mode(Enum):
    """Why the plan of the present epoch runs, if it does."""

    FRESH = "first run: write everything, then decide"
    ROLL_FORWARD = "decided before: write nothing"
    WHOLE = "replay with nothing visible: write everything freely"
    PARTS = "replay with some visible: what holds their rows is silent, the rest is written"


@dataclass(frozen=True, slots=True)
class Memory:
    """What the coordinator remembers between two events. Frozen: an illegal event changes nothing.

    Attributes:
        history: The journal, as far as this incarnation has read and written it.
        undone: The decided epoch that Spark has not recorded, or None.
        newest_commit: Spark's newest ``commits/`` entry at the start, -1 for none.
        newest_plan: Its newest ``offsets/`` entry, likewise.
        finished: The start has committed all of ``undone``.
        lost: The start found a part of ``undone`` proven aborted.
        epoch, offsets, stateful: The epoch in work.
        layout: What stands at Spark's positions, as it was last found.
        skip: Positions behind what the source has lost, to be appended.
        limit: The run outlived its transactions, and would not with so many records of each source.
        mode: Why its plan runs.
        lingering: What older incarnations left open, by the sink whose committer has listed it.
        planned: What Spark has planned and is to be planned anew.
        reports: What the tasks of this run report.
        ran: What this run gave, part by part.
        written: What of it is pre-committed.
        took_ms: How long it took.
        pending: Decided participants that are not known to be committed.
        discarded: Participants that were aborted although nobody can prove what they are.
        visible: Participants of a replaced set that are proven committed.
        silent: Parts of this run that hold their rows, and so are not written.
        matched: What the run that found them counted and digested.
        rounds: Commit rounds so far, for the caller's back-off.
        asked_since: When outcomes were asked for first, as long as nobody tells all of them; else None.
        refused_since: From when on all that is left to commit is refused; else None.
        failure: What to raise when the call ends badly.
    """

    history: History = field(default_factory=History)
    undone: DecidedEpoch | None = None
    newest_commit: int = -1
    newest_plan: int = -1
    finished: bool = False
    lost: bool = False
    epoch: int = -1
    offsets: str = ""
    stateful: bool = False
    layout: Layout = field(default_factory=Layout)
    skip: Skip | None = None
    limit: int | None = None
    mode: Mode = Mode.FRESH
    lingering: Mapping[str, tuple[Participant, ...]] = field(default_factory=dict)
    planned: tuple[int, ...] = ()
    reports: tuple[TaskReport, ...] = ()
    ran: tuple[Part, ...] = ()
    written: tuple[Participant, ...] = ()
    took_ms: int = 0
    pending: tuple[Participant, ...] = ()
    discarded: frozenset[ParticipantId] = frozenset()
    visible: frozenset[ParticipantId] = frozenset()
    silent: frozenset[PartId] = frozenset()
    matched: tuple[Part, ...] = ()
    rounds: int = 0
    asked_since: float | None = None
    refused_since: float | None = None
    failure: Failure | None = None


_Reading = tuple[Input, Memory]


class Coordinator:
    """The rules of one incarnation.

    Args:
        sinks: Names of the sinks that take part in the decision, as the job has them now.
    """

    def __init__(self, sinks: Iterable[str]) -> None:
        self.state = State.NEW
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
        self.memory = memory
        if before is State.CONFIRMING and self.state is State.READY:
            # The epoch is done, and nothing of it is remembered.
            self.memory = Memory(history=memory.history, layout=memory.layout)
            return Return(memory.epoch)
        return self._next()

    # -- events: what they mean -------------------------------------------------------------------

    def _read(self, event: Event) -> _Reading:  # noqa: C901, PLR0912 - a line for each event
        match event:
            case Started():
                return self._read_started(event)
            case Restored():
                return self._read_restored(event)
            case Lingering():
                return Input.LISTING_DONE, replace(self.memory, lingering=event.found)
            case Plans():
                return Input.LISTING_DONE, replace(self.memory, planned=event.epochs)
            case TakenBack():
                return self._read_taken_back()
            case Surveyed():
                return self._read_surveyed(event)
            case Outcomes():
                return self._read_outcomes(event)
            case Replies():
                return self._read_replies(event)
            case Ran():
                return self._read_ran(event)
            case Sealed():
                return self._read_sealed(event)
            case RunFailed():
                return self._read_run_failed(event)
            case Checked():
                return self._read_checked(event)
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

    def _read_epoch(self, epoch: int, offsets: str, stateful: bool, newest_commit: int | None) -> _Reading:
        m = replace(self.memory, epoch=epoch, offsets=offsets, stateful=stateful)
        done = -1 if newest_commit is None else newest_commit
        if m.undone is not None and m.undone.epoch < epoch and done >= m.undone.epoch:
            # An older driver had confirmed it, and its Spark recorded it, after this start had looked.
            m = replace(m, undone=None)
        if m.undone is None:
            decided = m.history.decided
            if decided is not None and decided.epoch >= epoch:
                # Spark has gone back behind a decision; its rows would be written again.
                return Input.EPOCH_UNEXPECTED, self._failing(m, FailureKind.EPOCH_UNEXPECTED, detail=f"{decided.epoch}")
            return Input.EPOCH, replace(m, mode=Mode.FRESH)
        undone = m.undone
        if undone.epoch != epoch:
            return Input.EPOCH_UNEXPECTED, self._failing(m, FailureKind.EPOCH_UNEXPECTED, detail=f"{undone.epoch}")
        if undone.offsets != offsets:
            # Another range under the decided number: what lies between the two would be lost or doubled.
            return Input.EPOCH_UNEXPECTED, self._failing(m, FailureKind.OFFSETS_DIFFER)
        m = replace(m, mode=Mode.ROLL_FORWARD)
        if undone.replaying:
            return Input.EPOCH_REPLAYING, m
        if m.finished:
            return (Input.EPOCH_FINISHED_STATEFUL if stateful else Input.EPOCH_FINISHED), m
        return Input.EPOCH_DECIDED, replace(m, pending=_open_business(undone))

    def _read_started(self, event: Started) -> _Reading:
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
            return Input.TWO_UNDONE, self._failing(m, FailureKind.TWO_UNDONE, detail=str(error))
        m = replace(m, undone=undone)
        if undone is None:
            return Input.STARTED, m
        m = replace(m, epoch=undone.epoch, offsets=undone.offsets, pending=_open_business(undone))
        return Input.STARTED_UNDONE, m

    def _read_restored(self, event: Restored) -> _Reading:
        m = self.memory
        if not event.same:
            return Input.OFFSETS_DIFFER, self._failing(m, FailureKind.OFFSETS_DIFFER)
        if self.state is State.MOVING:
            return Input.OFFSETS_MOVED, m
        replaying = m.undone is not None and m.undone.replaying
        return (Input.REPLAY_UNFINISHED if replaying else Input.OFFSETS_SAME), m

    def _read_taken_back(self) -> _Reading:
        return (Input.TAKEN_BACK if self.memory.skip is None else Input.OFFSETS_MOVED), self.memory

    def _read_surveyed(self, event: Surveyed) -> _Reading:
        m = replace(self.memory, layout=event.layout)
        failure = objection(m.history, m.undone, self._next_epoch(m), event)
        if failure is not None:
            lost = failure.kind is FailureKind.SOURCE_LOST
            return (Input.SOURCE_LOST if lost else Input.LAYOUT_MOVED), replace(m, failure=failure)
        changed = self._changed_sinks(m)
        if changed:
            return Input.SINKS_CHANGED, self._failing(m, FailureKind.SINKS_CHANGED, detail=", ".join(sorted(changed)))
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

    def _read_outcomes(self, event: Outcomes) -> _Reading:
        m = self.memory
        told = {who: evidence.outcome for who, evidence in event.found.items()}
        dark = [evidence for evidence in event.found.values() if evidence.outcome is Outcome.UNKNOWN]
        since = event.at_s if m.asked_since is None else m.asked_since
        if any(evidence.passing for evidence in dark) and event.at_s - since <= PATIENCE_S:
            return Input.SOME_PASSING, replace(m, asked_since=since)
        m = replace(m, asked_since=None)
        found = self._as_resolved(told)
        unknown = _with(found, Outcome.UNKNOWN)
        untold = all(evidence.passing for evidence in dark)
        kind = FailureKind.OUTCOME_UNTOLD if untold else FailureKind.OUTCOME_UNKNOWN
        if self.state is State.WEIGHING:
            return self._weigh(m, told, found, kind)
        if unknown:  # before what is lost: a replay that begins beside an unknown one may double it
            return Input.SOME_UNKNOWN, self._failing(m, kind, unknown)
        lost = _with(found, Outcome.ABORTED)
        if lost:
            if m.mode is Mode.ROLL_FORWARD or self.state is State.ASSESSING:
                return Input.SOME_LOST, replace(m, lost=True)
            return Input.LOST_AFTER_RUN, self._failing(m, FailureKind.LOST_WHILE_RUNNING, lost)
        pending = tuple(p for p in m.pending if found.get(p.id) is not Outcome.COMMITTED)
        return self._all_or(Input.NONE_LOST, replace(m, pending=pending))

    def _weigh(
        self,
        m: Memory,
        told: Mapping[ParticipantId, Outcome],
        found: Mapping[ParticipantId, Outcome],
        kind: FailureKind,
    ) -> _Reading:
        still_open = _with(found, Outcome.OPEN)
        # What nobody can prove and an operator wants written again may be open: a torn transaction, for one, which a
        # driver that sleeps in its commit could still make visible beside the rows that take its place.
        perhaps_open = {p for p, o in found.items() if o is Outcome.ABORTED and told.get(p) is Outcome.UNKNOWN}
        ended = {*still_open, *(perhaps_open - m.discarded)}
        if ended:
            # Only these are aborted: aborting a committed one would wipe out what DescribeTransactions says of it.
            pending = tuple(p for p in _open_business(m.undone) if p.id in ended)
            return Input.SOME_OPEN, replace(m, pending=pending, discarded=m.discarded | perhaps_open)
        unknown = _with(found, Outcome.UNKNOWN)
        if unknown:
            return Input.SOME_UNKNOWN, self._failing(m, kind, unknown)
        visible = frozenset(_with(found, Outcome.COMMITTED))
        given_up = m.undone.given_up if m.undone is not None else frozenset()
        if len(visible) == len(found):
            # An operator has said so of what was lost: there is nothing to write, and no run whose rows could differ.
            return self._all_or(Input.SOME_VISIBLE, replace(m, mode=Mode.ROLL_FORWARD, pending=()))
        # Another one was lost since: all that the source still gives is written, and what is given up is no part that
        # could be found again and silenced.
        visible -= {p for p in given_up if told.get(p) is not Outcome.COMMITTED}
        if visible:
            return Input.SOME_VISIBLE, replace(m, mode=Mode.PARTS, visible=visible)
        return Input.NONE_VISIBLE, replace(m, mode=Mode.WHOLE, visible=visible)

    def _read_replies(self, event: Replies) -> _Reading:
        m = self.memory
        pending = tuple(p for p in m.pending if event.replies.get(p.id) is not Reply.COMMITTED)
        refused = bool(pending) and all(event.replies.get(p.id) is Reply.REFUSED for p in pending)
        since = event.at_s if m.refused_since is None else m.refused_since
        m = replace(m, pending=pending, rounds=m.rounds + 1, refused_since=since if refused else None)
        if refused and event.at_s - since > PATIENCE_S:
            who = tuple(p.id for p in pending)
            return Input.ALL_REFUSED, self._failing(m, FailureKind.COMMIT_REFUSED, who)
        if any(event.replies.get(p.id) is Reply.SUSPECT for p in pending):
            # Neither committed nor lost by this answer; sent again it would answer the same for ever. The log knows.
            return Input.SOME_SUSPECT, m
        return self._all_or(Input.SOME_RETRY, m)

    def _all_or(self, otherwise: Input, m: Memory) -> _Reading:
        """All committed, with or without state still to build; or ``otherwise``."""
        if m.pending:
            return otherwise, m
        if self.state in (State.ASSESSING, State.FINISHING):
            return Input.ALL_COMMITTED, replace(m, finished=True)
        rebuild = m.stateful and m.mode is Mode.ROLL_FORWARD
        return (Input.ALL_COMMITTED_STATEFUL if rebuild else Input.ALL_COMMITTED), m

    def _read_ran(self, event: Ran) -> _Reading:
        wrong = unreported(event.reports, event.sinks, event.tasks)
        if wrong is not None:
            return Input.RUN_FAILED, self._failing(self.memory, FailureKind.UNREPORTED, detail=wrong)
        reports = tuple(report for report in event.reports if report.sink in self._sinks)
        ran = parts_of(reports)
        m = replace(self.memory, reports=reports, ran=ran, took_ms=event.took_ms)
        if self.state is State.REBUILDING:
            return self._compare_rebuilt(m, ran)
        if self.state is State.MATCHING:
            return self._match(m, ran)
        return Input.RAN, m

    def _read_sealed(self, event: Sealed) -> _Reading:
        m = replace(self.memory, written=event.participants)
        wrong = uncovered(m.ran, m.written, m.silent) or come_again(m.written, _open_business(m.undone))
        if wrong is not None:
            return Input.RUN_FAILED, self._failing(m, FailureKind.UNSOUND, detail=wrong)
        if m.mode is Mode.FRESH:
            return (Input.PREPARED if m.written else Input.NOTHING_TO_COMMIT), m
        if m.mode is Mode.WHOLE and not (m.undone and m.undone.state_accepted):
            # Nothing is visible, so other rows would do no harm; fewer rows are records that the source has lost
            # without a gap in its offsets (compaction), or a start that nobody knows any more.
            other = differing_rows(_decided_parts(m.undone), m.ran)
            if other:
                return Input.NOT_DETERMINISTIC, self._failing(m, FailureKind.NOT_DETERMINISTIC, detail=_counts(other))
        if m.mode is Mode.PARTS:
            different = _different_parts(m.matched, m.ran)
            if different and not (m.undone and m.undone.state_accepted):
                return Input.NOT_DETERMINISTIC, self._failing(m, FailureKind.NOT_DETERMINISTIC, detail=different)
        return Input.PREPARED, m

    def _compare_rebuilt(self, m: Memory, rebuilt: tuple[Part, ...]) -> _Reading:
        different = differing_sinks(_decided_parts(m.undone), rebuilt)
        if different and not (m.undone and m.undone.state_accepted):
            return Input.NOT_DETERMINISTIC, self._failing(m, FailureKind.NOT_DETERMINISTIC, detail=_counts(different))
        return Input.SAME_ROWS, m

    def _match(self, m: Memory, found: tuple[Part, ...]) -> _Reading:
        holders = [p for p in _open_business(m.undone) if p.id in m.visible]
        visible = [part for part in parts_of(holders) if part.rows]
        silent = find_again(visible, found)
        accepted = m.undone is not None and m.undone.state_accepted
        if silent is None and accepted:
            # The operator takes other rows for the lost ones. What the visible ones had read tells which tasks of this
            # run would write it again; a task's number does not, since tasks are numbered otherwise in every process.
            silent = find_by_origin(visible, found)
            if silent is None and m.undone and m.undone.numbers_accepted and not any(part.origin for part in visible):
                # Nothing better is known, and the operator was told how many rows that may cost.
                silent = frozenset(part.id for part in visible)
        if silent is None:
            who = tuple(p.id for p in holders)
            return Input.NOT_DETERMINISTIC, self._failing(m, FailureKind.NOT_DETERMINISTIC, who)
        other = differing_rows(_decided_parts(m.undone), found)
        if other and not accepted:
            # What is visible comes again as it is, but of what is lost there is more or less than was decided:
            # compaction takes records of just those keys, and the epoch would be done with rows missing in silence.
            return Input.NOT_DETERMINISTIC, self._failing(m, FailureKind.NOT_DETERMINISTIC, detail=_counts(other))
        return Input.MATCHED, replace(m, silent=silent, matched=found)

    def _read_run_failed(self, event: RunFailed) -> _Reading:
        again = self.state in (State.REBUILDING, State.MATCHING)
        kind = FailureKind.REBUILD_FAILED if again else FailureKind.RUN_FAILED
        m, kind = self._too_long(self.memory, event.limit, kind)
        return Input.RUN_FAILED, self._failing(m, kind, detail=event.reason)

    @staticmethod
    def _too_long(m: Memory, limit: int | None, otherwise: FailureKind) -> tuple[Memory, FailureKind]:
        """An undecided epoch that outlived its transactions is cut smaller; a decided one never."""
        if limit is None or m.mode is not Mode.FRESH:
            return m, otherwise
        return replace(m, limit=limit), FailureKind.TOO_LONG

    def _read_checked(self, event: Checked) -> _Reading:
        m = self.memory
        if event.problem is not None:
            m, kind = self._too_long(m, event.limit, FailureKind.UNSOUND)
            return Input.UNSOUND, self._failing(m, kind, detail=event.problem)
        if event.layout is None or event.layout == m.layout:
            return (Input.SOUND if m.written else Input.SOUND_NOTHING), m
        strange = next(remade(m.layout, event.layout), None)
        if strange is not None:
            # The positions count records of the topic before: all that the new one has below them would be passed over.
            said = f"topic {strange.topic}: its id was {strange.was} and is {strange.now}"
            return Input.UNSOUND, self._failing(m, FailureKind.SOURCE_REMADE, detail=said)
        # Recorded before the decision: after it, a death would leave a topic that was read and whose id nobody kept.
        return Input.GROWN, replace(m, layout=event.layout)

    def _read_appended(self, event: Appended | Adopted) -> _Reading:
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

    def _read_superseded(self) -> _Reading:
        # Before every other reason: a fenced driver that is told to start again fences the one that runs, for ever.
        return Input.SUPERSEDED, self._failing(self.memory, FailureKind.FENCED)

    def _read_unanswered(self, event: Unanswered) -> _Reading:
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
        return Input.UNANSWERED, self._failing(self.memory, kind, detail=event.reason)

    def _read_voided(self) -> _Reading:
        detail = self.memory.failure.detail if self.memory.failure else ""
        return Input.VOIDED, self._failing(self.memory, FailureKind.DECISION_VOIDED, detail=detail)

    def _read_aborted(self) -> _Reading:
        m = self.memory
        if self.state is State.SWEEPING:
            return (Input.SWEPT if self._plan_left(m) is None else Input.SWEPT_PLAN_LEFT), m
        too_long = self.state is State.ABORTING and m.limit is not None
        return (Input.ABORTED_TOO_LONG if too_long else Input.ABORTED), m

    def _read_confirmed(self, event: Confirmed) -> _Reading:
        if not event.newest:
            return Input.SUPERSEDED, self._failing(self.memory, FailureKind.FENCED)
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
                return ListLingering(_open_business(m.undone))
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
            case State.WEIGHING:
                return AskOutcomes(_open_business(m.undone), again=m.asked_since is not None)
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
        return RestoreOffsets(undone.epoch, undone.offsets, undone.was, undone.before)

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
            return Decide(incarnation, m.epoch, m.offsets, tuple(sorted(self._sinks)), m.written, m.took_ms)
        replays = m.undone.replays if m.undone else 0
        if m.mode is Mode.WHOLE:
            return Replay(incarnation, m.epoch, replays, "whole", m.written)
        # Numbered on behind those that stay: a part's number may be that of a visible one of the run before.
        behind = 1 + max((part.number for part in _decided_parts(m.undone)), default=-1)
        return Replay(
            incarnation,
            m.epoch,
            replays,
            "parts",
            tuple(replace(p, parts=tuple(_numbered_on(p.parts, behind))) for p in m.written),
            tuple(sorted(m.visible)),
        )

    def _planned(self) -> Planned:
        return Planned(self.memory.history.incarnation, self.memory.layout)

    def _replay_begin(self) -> ReplayBegin:
        replays = self.memory.undone.replays if self.memory.undone else 0
        return ReplayBegin(self.memory.history.incarnation, self.memory.epoch, replays + 1)

    def _as_resolved(self, found: Mapping[ParticipantId, Outcome]) -> dict[ParticipantId, Outcome]:
        """The outcomes, with an operator's choice in the place of UNKNOWN, and of ABORTED where rows are given up."""
        undone = self.memory.undone
        # A choice stands in for evidence and never against it: what is proven by now would be doubled or lost.
        chosen: dict[ParticipantId, Outcome] = {}
        if undone is not None:
            chosen |= dict.fromkeys(undone.counted, Outcome.COMMITTED)
            chosen |= dict.fromkeys(undone.rewritten, Outcome.ABORTED)
            gone = (Outcome.ABORTED, Outcome.UNKNOWN)
            given_up = {p for p in undone.given_up if found.get(p) in gone}
            chosen |= dict.fromkeys(given_up, Outcome.COMMITTED)
            found = dict(found) | dict.fromkeys(given_up, Outcome.COMMITTED)
        return {p: chosen.get(p, o) if o is Outcome.UNKNOWN else o for p, o in found.items()}

    @staticmethod
    def _failing(m: Memory, kind: FailureKind, who: tuple[ParticipantId, ...] = (), detail: str = "") -> Memory:
        epoch = m.epoch if m.epoch >= 0 else None
        return replace(m, failure=Failure(kind, epoch, who, detail))


def objection(history: History, undone: DecidedEpoch | None, epoch: int, found: Surveyed) -> Failure | None:
    """Why a job cannot go on with what its plan was found to read and keep, or None.

    Args:
        history: The journal.
        undone: The decided epoch that Spark has not recorded, or None.
        epoch: It, or the one that comes next.
        found: What was found.
    """
    moved = what_moved(history.layout, found.layout) if history.layout is not None else None
    if moved is not None:
        return Failure(FailureKind.LAYOUT_MOVED, epoch, detail=moved)
    accepted = undone.loss_accepted if undone is not None else history.loss_accepted == epoch
    if found.loss and not accepted:
        return Failure(FailureKind.SOURCE_LOST, epoch, detail=found.loss)
    return None


def _counts(different: Mapping[str, tuple[int, int]]) -> str:
    return "; ".join(f"sink {s}: {then} rows decided, {now} now" for s, (then, now) in different.items())


def _open_business(decided: DecidedEpoch | None) -> tuple[Participant, ...]:
    """The participants of a decided epoch whose commit may still have to be made."""
    return decided.effective if decided is not None else ()


def _decided_parts(decided: DecidedEpoch | None) -> tuple[Part, ...]:
    return parts_of(_open_business(decided))


def _numbered_on(parts: Iterable[Part], behind: int) -> Iterator[Part]:
    return (replace(part, number=part.number + behind) for part in parts)


def _different_parts(matched: Iterable[Part], ran: Iterable[Part]) -> str:
    """Parts that differ between two runs in one process, where upstream partitions are numbered alike; "" for none."""
    before = {part.id: (part.rows, part.digest) for part in matched}
    after = {part.id: (part.rows, part.digest) for part in ran}
    different = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
    return ", ".join(f"sink {sink} part {number}" for sink, number in different)


def _with(found: Mapping[ParticipantId, Outcome], outcome: Outcome) -> tuple[ParticipantId, ...]:
    return tuple(sorted(p for p, o in found.items() if o is outcome))
