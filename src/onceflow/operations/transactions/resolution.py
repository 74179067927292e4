"""The operator's choice about an epoch that stopped the job: what is known of it, and the record of the choice.

Must not know: Spark, any particular sink, any particular source, how a command line looks, or whom it asks.

The job stops when a decided transaction left no evidence (neither "committed" nor "aborted" can be proven), when the
epoch gave other rows in the run that was to build its state, or when the source has lost what is needed. Then a
person decides, and the journal keeps who and why. A choice only takes the place of what is missing: where the log
itself says committed or aborted, or the source still has the records, it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from onceflow import crash_points as crash
from onceflow.checkpoint.spark_files import positions, with_positions
from onceflow.connectors.contract import evidence_of
from onceflow.connectors.inspection import InputRange, LostInput, PlaceInSystem, SourceInspection
from onceflow.errors import CheckpointCorruptError, CheckpointStoreError, ConfigurationError
from onceflow.operations.transactions.access import Operator
from onceflow.twophase.layout import folders
from onceflow.twophase.messages import Appended, Evidence, Outcome, Superseded
from onceflow.twophase.participants import Participant, ParticipantId
from onceflow.twophase.records import Choice, DecidedEpoch, History, Resolve

_PATIENCE_S = 60.0
"""How long an outcome that may still become known is asked for before a choice may take its place."""
_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class KnownParticipant:
    """What is known of one participant of the undone epoch.

    Attributes:
        id: (sink, handle).
        rows: Rows in it.
        transactional_id: What its transaction is named by, "" where its system cannot be looked at.
        partitions: Where it was written to.
        witness: Where its last row is, or None.
        evidence: Whether it was committed, and what that rests on.
        choice: What an operator has chosen for it before, or None.
        rows_untold: Those of its rows of which nobody knows what was read for them.
    """

    id: ParticipantId
    rows: int
    transactional_id: str
    partitions: tuple[PlaceInSystem, ...]
    witness: str | None
    evidence: Evidence
    choice: Choice | None
    rows_untold: int = 0

    @property
    def outcome(self) -> Outcome:
        """What is proven; where nothing is, what an operator has said in its place."""
        if self.evidence.outcome is not Outcome.UNKNOWN or self.choice is None:
            return self.evidence.outcome
        return Outcome.ABORTED if self.choice == "write-again" else Outcome.COMMITTED


@dataclass(frozen=True, slots=True)
class UndoneEpoch:
    """What is known of the epoch that is decided and not done, or of the one that comes next where none is.

    Attributes:
        epoch: Spark's batch id.
        decided: It is decided; otherwise it has no participants, and only what the source has lost can be chosen about.
        incarnation: The newest start's number.
        stateful: The query keeps state.
        state_accepted: An operator has accepted state that is built by a run with other rows.
        replaying: It is being written again, and that has not ended.
        participants: Its participants.
        sources: What it consists of, source by source, as far as their positions are understood; empty when Spark's
            file of the epoch before it is not there.
        lost: What the source has lost of what is still needed.
        loss_accepted: An operator has given up what it had lost before.
        unseen: Sources that could not be looked at from here, in words.
    """

    epoch: int
    decided: bool
    incarnation: int
    stateful: bool
    state_accepted: bool
    replaying: bool
    participants: tuple[KnownParticipant, ...]
    sources: tuple[InputRange, ...]
    lost: tuple[LostInput, ...] = ()
    unseen: tuple[str, ...] = ()
    loss_accepted: bool = False

    @property
    def rows_untold(self) -> int:
        """Rows that count as visible and of which nobody knows what was read: so many may be lost or doubled."""
        return sum(
            p.rows_untold
            for p in self.participants
            if p.evidence.outcome is Outcome.COMMITTED
            or (p.evidence.outcome is Outcome.UNKNOWN and p.choice == "count-as-written")
        )


def undone_epoch(operator: Operator, epoch: int | None = None) -> UndoneEpoch | None:
    """What is known of the undone epoch now, or None when there is none.

    Args:
        operator: The access to the job.
        epoch: The number that it must have.

    Raises:
        ConfigurationError: Another epoch is undone, or none is and a number was given.
        CheckpointError, OnceflowError: The journal or the evidence cannot be read.
    """
    history, _ = operator.journal.history()
    undone = operator.undone(history)
    newest = operator.checkpoint.newest_commit()
    if undone is None and history.layout is not None and epoch == (-1 if newest is None else newest) + 1:
        return _undecided(operator, history, epoch)
    if epoch is not None and (undone is None or undone.epoch != epoch):
        raise ConfigurationError(
            f"epoch {epoch} is not undone; "
            + ("nothing is" if undone is None else f"the one that is decided and not done is epoch {undone.epoch}"),
            cause="it was finished, was never decided, or this is the checkpoint of another job",
            action="start the job" if undone is None else f"resolve epoch {undone.epoch}",
            epoch=epoch,
        )
    return None if undone is None else _known(operator, history, undone)


def resolve(
    operator: Operator,
    epoch: int,
    choice: Choice,
    *,
    of: Sequence[ParticipantId] | None = None,
    who: str,
    why: str,
) -> Resolve:
    """Record an operator's choice about the undone epoch. The job's next start acts on it.

    A start is appended first, so that a driver that still runs ends and cannot go on under the operator's hands. What
    the choice rests on is asked for again after it.

    Args:
        operator: The access to the job.
        epoch: The undone epoch.
        choice: ``write-again`` or ``count-as-written``, for participants of which nothing is proven; ``accept-state``
            for state that is built by a run with other rows than those decided; ``give-up-rows`` for what neither the
            sink nor the source has any more.
        of: The participants meant; None for all of which nothing is proven.
        who: Who chose.
        why: Why.

    Returns:
        The record.

    Raises:
        ConfigurationError: The choice does not fit what is known; nothing was recorded.
        CheckpointConflictError: The checkpoint is older than what the job has done.
        FencedError: The job was started while this was under way.
        CheckpointStoreError: The record could not be written.
    """
    if not why.strip() or not who.strip():
        raise ConfigurationError("a choice needs a reason and a name", action="say --why (and --who), for the audit")
    operator.require_not_rewound()
    meant(_expect(operator, epoch), choice, of)
    incarnation = operator.start().incarnation
    participants_meant = meant(_expect(operator, epoch), choice, of)
    record = Resolve(incarnation, epoch, choice, participants_meant, who.strip(), why.strip())
    now, _ = operator.journal.history()
    if now.incarnation > incarnation:
        raise operator.fenced()
    now.then(record)  # what a reader could not follow must not be written
    answer = operator.journal.append(record)
    if isinstance(answer, Superseded):
        raise operator.fenced()
    if not isinstance(answer, Appended):
        raise CheckpointStoreError(
            f"whether the choice about epoch {epoch} is in the journal could not be found out: {answer.reason}",
            harmless="always: the next start reads the journal and goes on from there",
            cause=f"the file system under {operator.uri} does not answer",
            action="mend the file system, look with `onceflow txn resolve` what is recorded, and choose again",
            epoch=epoch,
        )
    crash.reach("O2", epoch)
    return record


def meant(undone: UndoneEpoch, choice: Choice, of: Sequence[ParticipantId] | None) -> tuple[ParticipantId, ...]:
    """The participants that a choice is about.

    Raises:
        ConfigurationError: The choice does not fit what is known.
    """
    if not undone.decided and choice != "give-up-rows":
        raise ConfigurationError(
            f"{choice} does not fit epoch {undone.epoch}: it is not decided",
            cause="there is nothing yet that could be accepted, counted or written again",
            action="start the job; or, if it stopped because the source has lost records, choose give-up-rows",
            epoch=undone.epoch,
        )
    if choice == "accept-state":
        found = {p.outcome for p in undone.participants}
        if of is not None or not (undone.stateful or Outcome.ABORTED in found):
            raise ConfigurationError(
                f"accept-state does not fit epoch {undone.epoch}",
                cause="it is about the whole epoch, not about a participant"
                if of is not None
                else "the query keeps no state, and nothing of its output is lost",
                action="leave --participant away" if of is not None else "choose write-again or count-as-written",
                epoch=undone.epoch,
            )
        return ()
    if choice == "give-up-rows":
        return _given_up(undone, of)
    by_id = {p.id: p for p in undone.participants}
    unknown = tuple(who for who, p in by_id.items() if p.evidence.outcome is Outcome.UNKNOWN)
    wanted = unknown if of is None else tuple(dict.fromkeys(of))
    if not wanted:
        raise ConfigurationError(
            f"of every participant of epoch {undone.epoch} the outcome is known",
            cause="; ".join(sorted({p.evidence.outcome.value for p in undone.participants})) or "it has none",
            action="start the job: it commits what is open and writes again what was aborted",
            epoch=undone.epoch,
        )
    for who in wanted:
        known = by_id.get(who)
        if known is None or known.evidence.outcome is not Outcome.UNKNOWN:
            raise ConfigurationError(
                f"{choice} is refused for {':'.join(who)} of epoch {undone.epoch}",
                cause="the epoch has no such participant"
                if known is None
                else f"its outcome is known: {known.evidence.outcome.value} ({known.evidence.why})",
                action="leave it out: the job's next start does what follows from its outcome",
                epoch=undone.epoch,
            )
    return wanted


def _given_up(undone: UndoneEpoch, of: Sequence[ParticipantId] | None) -> tuple[ParticipantId, ...]:
    """The participants whose rows are given up: those that are lost, all of which the source cannot give again."""
    if not undone.lost and not undone.unseen and not undone.loss_accepted:
        raise ConfigurationError(
            f"give-up-rows is refused: the source still holds all that epoch {undone.epoch} needs",
            cause="what is lost in the sink is written again from it",
            action="start the job",
            epoch=undone.epoch,
        )
    gone = {Outcome.ABORTED} | ({Outcome.OPEN} if undone.replaying else set())
    found = tuple(p.id for p in undone.participants if p.evidence.outcome in gone or p.choice == "write-again")
    if of is not None and set(of) != set(found):
        raise ConfigurationError(
            f"give-up-rows is about all that is lost of epoch {undone.epoch}: {len(found)} participants, not {len(of)}",
            cause="--participant names some of them, or another transaction has expired by now",
            action="leave --participant away, and look at the numbers again",
            epoch=undone.epoch,
        )
    return found


def _expect(operator: Operator, epoch: int) -> UndoneEpoch:
    """The undone epoch, when waiting does not tell more of it."""
    deadline = operator.now() + _PATIENCE_S
    while True:
        undone = undone_epoch(operator, epoch)
        if undone is None:
            raise AssertionError("a number was given")
        passing = any(p.evidence.outcome is Outcome.UNKNOWN and p.evidence.passing for p in undone.participants)
        if not passing or operator.now() > deadline:
            return undone
        operator.sleep(_LOOK_AGAIN_S)


def _known(operator: Operator, history: History, undone: DecidedEpoch) -> UndoneEpoch:
    evidence: dict[ParticipantId, Evidence] = {}
    for sink in sorted({p.sink for p in undone.effective}):
        evidence |= _evidence(operator, undone, sink)
    stateful = operator.checkpoint.is_stateful()
    again = {p for p, e in evidence.items() if e.outcome is Outcome.UNKNOWN} & undone.rewritten
    lost = bool(again) or any(e.outcome is Outcome.ABORTED for e in evidence.values())
    begin, end = _begin(operator, history, undone.epoch), undone.offsets
    missing, unseen = _lost_inputs(operator, history, begin if lost or undone.replaying or stateful else end, end)
    return UndoneEpoch(
        undone.epoch,
        True,
        history.incarnation,
        stateful,
        undone.state_accepted,
        undone.replaying,
        tuple(_known_participant(operator, p, evidence[p.id], undone) for p in undone.effective),
        _ranges(operator, history, undone),
        missing,
        unseen,
        undone.loss_accepted,
    )


def _evidence(operator: Operator, undone: DecidedEpoch, sink: str) -> dict[ParticipantId, Evidence]:
    """What is known of a sink's participants. Of a sink that the job has no more nothing is, if that may be."""
    of = [p for p in undone.effective if p.sink == sink]
    able = (each for each in operator.committers.values() if all(map(each.can_finish, of)))
    committer = operator.committers.get(sink) or next(able, None)
    if committer is not None:
        return evidence_of(committer, of)
    if not operator.partial:
        raise ConfigurationError(
            f"epoch {undone.epoch} was decided with sink {sink}, which the job does not have now",
            cause="the sink was removed or renamed while the job was down",
            action="put the sink back; the job cannot finish the epoch without it",
            epoch=undone.epoch,
        )
    nobody = Evidence(Outcome.UNKNOWN, "the job does not have this sink now, and nobody was asked")
    return {p.id: nobody for p in of}


def _undecided(operator: Operator, history: History, epoch: int) -> UndoneEpoch:
    position, planned = _begin(operator, history, epoch), _text(operator, epoch)
    missing, unseen = _lost_inputs(operator, history, position, planned or position)
    stateful = operator.checkpoint.is_stateful()
    return UndoneEpoch(epoch, False, history.incarnation, stateful, False, False, (), (), missing, unseen)


def _begin(operator: Operator, history: History, epoch: int) -> str:
    """Where an epoch begins, in the form of an offsets file; of the first one Spark keeps it in files of its own."""
    if epoch > 0:
        return _text(operator, epoch - 1)
    numbers = folders(history.layout.sources) if history.layout is not None else ()
    return with_positions("", [operator.checkpoint.initial_offsets(number) or "{}" for number in numbers])


def _text(operator: Operator, epoch: int) -> str:
    try:
        return operator.checkpoint.offsets(epoch)
    except CheckpointCorruptError:
        return ""


def _lost_inputs(
    operator: Operator, history: History, needed: str, end: str
) -> tuple[tuple[LostInput, ...], tuple[str, ...]]:
    """What is gone of the offsets from ``needed`` on, and the sources that cannot be asked with the sinks' logins.

    Args:
        operator: The access to the job.
        history: The journal; its layout says which line is of which cluster.
        needed: Spark's offsets file with the first offsets that are needed.
        end: The one with the offsets after the last that are planned.
    """
    looks = _sources_by_system(operator)
    lost: dict[tuple[int, LostInput], LostInput] = {}  # a source that stands at several positions has lost it once
    unseen: dict[str, None] = {}
    layout = history.layout.sources if history.layout is not None else ()
    lines = list(zip(positions(needed), positions(end), strict=False))
    for number, (source, (first, last)) in enumerate(zip(layout, lines, strict=False)):
        look = looks.get(source.system)
        if look is None:
            unseen[f"{source.reads} on cluster {source.system or 'that is not known'}"] = None
        else:
            which = number if source.same_as < 0 else source.same_as
            lost |= {(which, each): each for each in look.lost(first, last, source)}
    return tuple(lost.values()), tuple(unseen)


def _sources_by_system(operator: Operator) -> dict[str, SourceInspection]:
    """The sources of the sinks' systems, by its id."""
    found = ((system.id, system.inspection.sources()) for system in operator.systems)
    return {system_id: look for system_id, look in found if look is not None}


def _known_participant(
    operator: Operator, participant: Participant, evidence: Evidence, undone: DecidedEpoch
) -> KnownParticipant:
    shown = operator.show(participant)
    choice: Choice | None = None
    if participant.id in undone.counted:
        choice = "count-as-written"
    elif participant.id in undone.rewritten:
        choice = "write-again"
    elif participant.id in undone.given_up:
        choice = "give-up-rows"
    return KnownParticipant(
        participant.id,
        participant.rows,
        shown.id,
        shown.places,
        shown.witness,
        evidence,
        choice,
        sum(part.rows for part in participant.parts if not part.origin),
    )


def _ranges(operator: Operator, history: History, undone: DecidedEpoch) -> tuple[InputRange, ...]:
    """What the undone epoch consists of, each source by its own positions.

    Two sources may read one topic, or topics of one name: each has its ranges. One that stands at several positions is
    shown once.
    """
    before = _text(operator, undone.epoch - 1)
    if not before:
        return ()
    looks = list(_sources_by_system(operator).values())
    layout = history.layout.sources if history.layout is not None else ()
    found: dict[tuple[int, InputRange], InputRange] = {}
    for number, (start, end) in enumerate(zip_longest(positions(before), positions(undone.offsets), fillvalue="")):
        source = layout[number].same_as if number < len(layout) else -1
        # A position says what it is of, whichever system understands its form.
        read = next(filter(None, (look.ranges(start, end) for look in looks)), ())
        found |= {(number if source < 0 else source, each): each for each in read}
    return tuple(found.values())
