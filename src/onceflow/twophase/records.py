"""The journal's records, as values, and what a history of them means.

Must not know: where the journal is kept, or in which bytes.

A history is the records in the order of their places. It answers the only questions that recovery asks: which
incarnation is the newest, which epoch is decided but not done, and which participants are its effective set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from onceflow.twophase.layout import Layout
from onceflow.twophase.participants import Participant, ParticipantId


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest epoch that was decided with rows for a sink: what the sink's system must know for ever.

    Attributes:
        sink: The sink's name.
        handle: Of one of the epoch's participants of it.
        incarnation: The start that decided it.
        epoch: Which.
        rows: How many it had for the sink.
    """

    sink: str
    handle: str
    incarnation: int
    epoch: int
    rows: int


@dataclass(frozen=True, slots=True)
class Claim:
    """An operator has claimed the checkpoint (``--claim``).

    What older starts have committed behind its newest epoch is written again on purpose, to all sinks alike.

    Attributes:
        given_up: Of each sink that did not know any more what the job had committed, the handles of the newest and of
            the oldest epoch of that.
        known: Of each such sink that still knew something, the newest epoch of that. It is asked for from then on: the
            system can come back older once more, before it has new rows.
    """

    given_up: tuple[str, ...] = ()
    known: tuple[Newest, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """A driver took over: from this place on no older one may append anything.

    With another ``job_id`` than the start before it, a new job begins here (``--as-new``): what stands before is not
    its own. The two share one numbering, so that a driver of the old job is fenced like any other.

    Attributes:
        incarnation: Its number.
        job_id: Whose it is.
        claim: What was claimed with it, or None.
        systems: By sink, the id of the system that it writes to: of a sink that has another name later, too.
        left: With a new job's first one, of each sink the newest epoch of the job that it leaves.
    """

    incarnation: int
    job_id: str = ""
    claim: Claim | None = None
    systems: Mapping[str, str] = field(default_factory=dict)
    left: tuple[Newest, ...] = ()


@dataclass(frozen=True, slots=True)
class LayoutRecord:
    """What stands at Spark's positions from here on: at each start, and when a source has grown since."""

    incarnation: int
    layout: Layout


@dataclass(frozen=True, slots=True)
class Decide:
    """The epoch commits.

    Attributes:
        offsets: Spark's ``offsets/<epoch>``, byte for byte.
        sinks: All that took part, also those without rows.
        participants: What is to be committed.
        took_ms: How long the run took.
        about: What the start said of its code, settings and sinks, for the audit's receipts: JSON text. No rule asks.
        newest: For each sink that has no participant in it, the newest epoch that was decided with rows for it. So the
            newest decision alone says that of all sinks, however many epochs were purged since a quiet one had a row.
    """

    incarnation: int
    epoch: int
    offsets: str
    sinks: tuple[str, ...]
    participants: tuple[Participant, ...]
    took_ms: int = 0
    about: str = ""
    newest: tuple[Newest, ...] = ()


@dataclass(frozen=True, slots=True)
class Recut:
    """An undecided epoch outlived its transactions: the next start takes Spark's plan of it back.

    ``limit`` is how many records each source may read for an epoch from then on, until one was decided.
    """

    incarnation: int
    epoch: int
    limit: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Records that the source has lost are passed over, as an operator chose: other positions for Spark's files.

    Attributes:
        before: What ``offsets/<epoch - 1>`` holds from now on: where the epoch begins.
        offsets: What ``offsets/<epoch>`` holds from now on; "" for an epoch that is not decided, whose plan is taken
            back.
    """

    incarnation: int
    epoch: int
    before: str
    offsets: str


@dataclass(frozen=True, slots=True)
class Void:
    """Takes the place of a decision whose append failed: that attempt at the epoch does not commit."""

    incarnation: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReplayBegin:
    """A decided transaction is proven lost: from here no open one of the old set is committed by anyone."""

    incarnation: int
    epoch: int
    replay: int


@dataclass(frozen=True, slots=True)
class Replay:
    """The epoch was written again.

    ``whole`` replaces the entire set; ``parts`` replaces all but those in ``kept``, which were proven committed.
    ``about`` is as a decision's.
    """

    incarnation: int
    epoch: int
    replay: int
    scope: Literal["whole", "parts"]
    participants: tuple[Participant, ...]
    kept: tuple[ParticipantId, ...] = ()
    about: str = ""


Choice = Literal["write-again", "count-as-written", "accept-state", "give-up-rows"]


@dataclass(frozen=True, slots=True)
class Resolve:
    """An operator's choice about an epoch that stopped the job. ``who`` and ``why`` are for the audit."""

    incarnation: int
    epoch: int
    choice: Choice
    participants: tuple[ParticipantId, ...]
    who: str
    why: str


Record = Start | LayoutRecord | Decide | Void | ReplayBegin | Replay | Resolve | Recut | Skip


@dataclass(frozen=True, slots=True)
class DecidedEpoch:
    """A decided epoch as the history leaves it.

    Attributes:
        epoch: Spark's batch id.
        offsets: What ``offsets/<epoch>`` must hold.
        sinks: All sinks that took part in the decision.
        effective: The participants that count: the decision's, as replays have replaced them.
        replays: How many replays have begun.
        replaying: A replay has begun and no ``Replay`` record has ended it.
        counted: Participants that an operator said to count as written.
        rewritten: Participants that an operator said to write again although their outcome is unknown.
        state_accepted: An operator accepted state that was rebuilt by a run with other rows.
        numbers_accepted: An operator was told what it may cost to tell tasks by their numbers, and accepted it.
        given_up: Participants whose loss an operator accepted, since the source cannot give their rows again.
        loss_accepted: An operator gave up what the source has lost of this epoch.
        before: What ``offsets/<epoch - 1>`` must hold where lost records were passed over; "" where none were.
        incarnation: The start that decided it, or its newest replay.
        forgotten: Participants that their system did not know any more when an operator claimed the checkpoint.
    """

    epoch: int
    offsets: str
    sinks: tuple[str, ...]
    effective: tuple[Participant, ...]
    replays: int = 0
    replaying: bool = False
    counted: frozenset[ParticipantId] = field(default_factory=frozenset)
    rewritten: frozenset[ParticipantId] = field(default_factory=frozenset)
    state_accepted: bool = False
    numbers_accepted: bool = False
    given_up: frozenset[ParticipantId] = field(default_factory=frozenset)
    loss_accepted: bool = False
    before: str = ""
    incarnation: int = 0
    forgotten: frozenset[ParticipantId] = field(default_factory=frozenset)

    def newest(self) -> dict[str, Newest]:
        """What each sink's system must know of it once it is finished, by sink; not what an operator has settled."""
        held: dict[str, list[Participant]] = {}
        for p in self.effective:
            if p.id not in self.counted | self.given_up | self.forgotten:
                held.setdefault(p.sink, []).append(p)
        return {
            sink: Newest(sink, min(p.handle for p in of), self.incarnation, self.epoch, sum(p.rows for p in of))
            for sink, of in held.items()
        }

    def replaced_by(self, record: Replay) -> DecidedEpoch:
        """The epoch after a replay was decided.

        The operator's choices end with the transactions that they spoke of.
        """
        kept = tuple(p for p in self.effective if record.scope == "parts" and p.id in record.kept)
        return DecidedEpoch(
            self.epoch,
            self.offsets,
            self.sinks,
            kept + record.participants,
            self.replays,
            counted=self.counted.intersection(record.kept),
            given_up=self.given_up.intersection(record.kept),
            loss_accepted=self.loss_accepted,
            before=self.before,
            incarnation=record.incarnation,
        )

    def resolved_by(self, record: Resolve) -> DecidedEpoch:
        """The epoch after an operator's choice."""
        names = frozenset(record.participants)
        match record.choice:
            case "count-as-written":
                return replace(self, counted=self.counted | names, rewritten=self.rewritten - names)
            case "write-again":
                return replace(self, rewritten=self.rewritten | names, counted=self.counted - names)
            case "accept-state":
                return replace(self, state_accepted=True, numbers_accepted=True)
            case "give-up-rows":
                # State is then built from what the source still has, so it cannot be that of the decided rows. Tasks
                # are still not told by their numbers: nobody was asked what a wrong guess there may lose or double.
                return replace(self, given_up=self.given_up | names, loss_accepted=True, state_accepted=True)

    def without(self, sinks: Collection[str]) -> DecidedEpoch:
        """The epoch as it is for a job that has these sinks no more, after an operator has given up their rows."""
        effective = tuple(p for p in self.effective if p.sink not in sinks)
        return replace(self, sinks=tuple(s for s in self.sinks if s not in sinks), effective=effective)

    def skipped_by(self, record: Skip) -> DecidedEpoch:
        """The epoch after lost records were passed over."""
        return replace(self, offsets=record.offsets, before=record.before)


class HistoryError(ValueError):
    """The records cannot have been written by this protocol in this order."""


@dataclass(frozen=True, slots=True)
class History:
    """What the journal says, as far as recovery needs it.

    Attributes:
        incarnation: The newest start's number, 0 before the first.
        job_id: Whose start that was, "" before the first.
        decided: The newest decided epoch, as replays and resolves left it, or None.
        earlier: The epoch number decided before that one, or None. An epoch decided before another must be
            done when the newer one is decided.
        layout: What stands at Spark's positions, as the newest record that says so has it, or None.
        recut: The undecided epoch whose plan is to be taken back, or None.
        skip: The undecided epoch that begins behind lost records, or None.
        loss_accepted: The undecided epoch before which an operator gave up what the source has lost, or None.
        claimed: The newest start that an operator has claimed the checkpoint with, 0 for none.
        before: By sink, the newest epoch before ``decided`` that was decided with rows for it.
        systems: By sink, the id of its system, as the last start that had it has said.
    """

    incarnation: int = 0
    job_id: str = ""
    decided: DecidedEpoch | None = None
    earlier: int | None = None
    layout: Layout | None = None
    recut: Recut | None = None
    skip: Skip | None = None
    loss_accepted: int | None = None
    claimed: int = 0
    before: Mapping[str, Newest] = field(default_factory=dict)
    systems: Mapping[str, str] = field(default_factory=dict)

    def newest(self, below: int | None = None) -> Mapping[str, Newest]:
        """By sink, the newest epoch that was decided with rows for it: what its system must know.

        Args:
            below: Only of epochs below this one.
        """
        decided = self.decided
        if decided is None or (below is not None and decided.epoch >= below):
            return self.before
        return {**self.before, **decided.newest()}

    def then(self, record: Record) -> History:
        """The history with one record more.

        Raises:
            HistoryError: The record contradicts what came before it.
        """
        if isinstance(record, Start):
            if record.incarnation <= self.incarnation:
                raise HistoryError(f"start {record.incarnation} after start {self.incarnation}")
            if self.job_id and record.job_id != self.job_id:
                # The new job goes on from the same offsets and state, so what stands there stays known.
                return History(record.incarnation, record.job_id, layout=self.layout, systems=record.systems)
            history = self if record.claim is None else self._claimed(record.claim, record.incarnation)
            systems = {**self.systems, **record.systems}
            return replace(history, incarnation=record.incarnation, job_id=record.job_id, systems=systems)
        if record.incarnation != self.incarnation:
            # An older driver's record behind a newer start: the newer one may have aborted what this decides.
            raise HistoryError(
                f"{type(record).__name__} of incarnation {record.incarnation} after start {self.incarnation}"
            )
        match record:
            case Void():
                return self
            case LayoutRecord():
                return replace(self, layout=record.layout)
            case Decide():
                return self._decide(record)
            case Recut() | Skip() | Resolve() if self.decided is None or record.epoch > self.decided.epoch:
                return self._of_undecided(record)
        if self.decided is None or record.epoch != self.decided.epoch:
            raise HistoryError(f"{type(record).__name__} for epoch {record.epoch}, which is not the newest decided")
        return replace(self, decided=self._of_decided(self.decided, record))

    def recalled(self, record: Record) -> History:
        """The history with what a record from before its beginning still says: purges leave starts and layouts."""
        match record:
            case Start():
                before = self if record.job_id == self.job_id or not self.job_id else History(layout=self.layout)
                claimed = record.incarnation if record.claim else before.claimed
                systems = {**before.systems, **record.systems}
                return replace(self, job_id=record.job_id, claimed=claimed, systems=systems)
            case LayoutRecord():
                return replace(self, layout=record.layout)
        return self

    def _claimed(self, claim: Claim, incarnation: int) -> History:
        """What a claim settles: a sink that does not know what it had is not asked for it again.

        Of an epoch that is undone nothing is settled by it: that is committed, or written again.
        """
        decided = self.decided
        newest = decided.newest() if decided is not None else {}
        gone = {sink for sink, of in newest.items() if of.handle in claim.given_up}
        if decided is not None:
            lost = frozenset(p.id for p in decided.effective if p.sink in gone)
            decided = replace(decided, forgotten=decided.forgotten | lost)
        kept = {sink: of for sink, of in self.before.items() if of.handle not in claim.given_up}
        # What stood before a newest that is gone may be gone as well; the claim has looked, and says what is not.
        before = {sink: of for sink, of in kept.items() if sink not in gone}
        before |= {of.sink: of for of in claim.known}
        return replace(self, claimed=incarnation, decided=decided, before=before)

    def _decide(self, record: Decide) -> History:
        if self.decided is not None and record.epoch <= self.decided.epoch:
            raise HistoryError(f"epoch {record.epoch} decided after epoch {self.decided.epoch}")
        decided = DecidedEpoch(
            record.epoch, record.offsets, record.sinks, record.participants, incarnation=record.incarnation
        )
        earlier = None if self.decided is None else self.decided.epoch
        # In a journal that was purged the record knows more than what is left of those before it.
        before = {**self.newest(), **{each.sink: each for each in record.newest}}
        # What was said of an epoch before its decision ends with it.
        return replace(self, decided=decided, earlier=earlier, recut=None, skip=None, loss_accepted=None, before=before)

    def _of_undecided(self, record: Recut | Skip | Resolve) -> History:
        match record:
            case Recut():
                return replace(self, recut=record)
            case Skip():
                return replace(self, skip=record)
            case Resolve(choice="give-up-rows"):
                return replace(self, loss_accepted=record.epoch)
        raise HistoryError(f"{record.choice} for epoch {record.epoch}, which is not decided")

    @staticmethod
    def _of_decided(decided: DecidedEpoch, record: ReplayBegin | Replay | Resolve | Recut | Skip) -> DecidedEpoch:
        match record:
            case ReplayBegin():
                if record.replay != decided.replays + 1:
                    raise HistoryError(f"replay {record.replay} of epoch {record.epoch} after {decided.replays}")
                return replace(decided, replays=record.replay, replaying=True)
            case Replay():
                if not decided.replaying or record.replay != decided.replays:
                    raise HistoryError(f"replay {record.replay} of epoch {record.epoch} ended without its beginning")
                return decided.replaced_by(record)
            case Resolve():
                return decided.resolved_by(record)
            case Skip():
                return decided.skipped_by(record)
        raise HistoryError(f"epoch {record.epoch} is decided; its plan cannot be taken back")

    def undone(self, newest_commit: int | None) -> DecidedEpoch | None:
        """The decided epoch that Spark has not recorded as done, or None.

        An epoch is done if and only if Spark's newest ``commits/`` entry is at least its number: entries may
        be purged and numbers may jump.

        Raises:
            HistoryError: Two decided epochs are undone, which one order of writes alone can never give.
        """
        done = -1 if newest_commit is None else newest_commit
        if self.earlier is not None and self.earlier > done:
            # Spark's files were put back: from there both would be run again, though consumers may have read them.
            raise HistoryError(f"epochs {self.earlier} and {self.decided and self.decided.epoch} are both undone")
        return self.decided if self.decided is not None and self.decided.epoch > done else None
