"""The journal's records, as values, and what a history of them means.

Must not know: where the journal is kept, or in which bytes.

A history is the records in the order of their places. It answers the only questions that recovery asks: which
incarnation is the newest, which epoch is decided but not done, and which committables are its effective set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from onceflow.twophase.committable import Committable, Participant


@dataclass(frozen=True, slots=True)
class Start:
    """A driver took over: from this place on no older one may append anything.

    ``topics`` are (topic, topic id) pairs of the sources: a topic that was deleted and made again has another id, and
    offsets of the old one mean nothing in it.
    """

    incarnation: int
    topics: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Decide:
    """The epoch commits. ``offsets`` is Spark's ``offsets/<epoch>``, byte for byte.

    ``state_ids`` keeps a place for Spark's ids of the state that this run built; nothing writes it yet.
    """

    incarnation: int
    epoch: int
    offsets: str
    committables: tuple[Committable, ...]
    state_ids: str | None = None


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

    ``whole`` replaces the entire set; ``shards`` replaces all but those in ``kept``, which were proven committed.
    """

    incarnation: int
    epoch: int
    replay: int
    scope: Literal["whole", "shards"]
    committables: tuple[Committable, ...]
    kept: tuple[Participant, ...] = ()


Choice = Literal["write-again", "count-as-written", "accept-state"]


@dataclass(frozen=True, slots=True)
class Resolve:
    """An operator's choice about an epoch that stopped the job. ``who`` and ``why`` are for the audit."""

    incarnation: int
    epoch: int
    choice: Choice
    participants: tuple[Participant, ...]
    who: str
    why: str


Record = Start | Decide | Void | ReplayBegin | Replay | Resolve


@dataclass(frozen=True, slots=True)
class DecidedEpoch:
    """A decided epoch as the history leaves it.

    Attributes:
        epoch: Spark's batch id.
        offsets: What ``offsets/<epoch>`` must hold.
        effective: The committables that count: the decision's, as replays have replaced them.
        replays: How many replays have begun.
        replaying: A replay has begun and no ``Replay`` record has ended it.
        counted: Participants that an operator said to count as written.
        rewritten: Participants that an operator said to write again although their outcome is unknown.
        state_accepted: An operator accepted state that was rebuilt by a run with other rows.
    """

    epoch: int
    offsets: str
    effective: tuple[Committable, ...]
    replays: int = 0
    replaying: bool = False
    counted: frozenset[Participant] = field(default_factory=frozenset)
    rewritten: frozenset[Participant] = field(default_factory=frozenset)
    state_accepted: bool = False

    def replaced_by(self, record: Replay) -> DecidedEpoch:
        """The epoch after a replay was decided.

        The operator's choices end with the transactions that they spoke of.
        """
        kept = tuple(c for c in self.effective if record.scope == "shards" and c.participant in record.kept)
        return DecidedEpoch(
            self.epoch,
            self.offsets,
            kept + record.committables,
            self.replays,
            counted=self.counted.intersection(record.kept),
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
                return replace(self, state_accepted=True)


class HistoryError(ValueError):
    """The records cannot have been written by this protocol in this order."""


@dataclass(frozen=True, slots=True)
class History:
    """What the journal says, as far as recovery needs it.

    Attributes:
        incarnation: The newest start's number, 0 before the first.
        decided: The newest decided epoch, as replays and resolves left it, or None.
        earlier: The epoch number decided before that one, or None. An epoch decided before another must be
            done when the newer one is decided.
        topics: Ids of the source topics, as the newest start that knew them has them.
    """

    incarnation: int = 0
    decided: DecidedEpoch | None = None
    earlier: int | None = None
    topics: tuple[tuple[str, str], ...] = ()

    def then(self, record: Record) -> History:
        """The history with one record more.

        Raises:
            HistoryError: The record contradicts what came before it.
        """
        if isinstance(record, Start):
            if record.incarnation <= self.incarnation:
                raise HistoryError(f"start {record.incarnation} after start {self.incarnation}")
            return replace(self, incarnation=record.incarnation, topics=record.topics or self.topics)
        if record.incarnation != self.incarnation:
            raise HistoryError(
                f"{type(record).__name__} of incarnation {record.incarnation} after start {self.incarnation}"
            )
        if isinstance(record, Void):
            return self
        if isinstance(record, Decide):
            return self._decide(record)
        if self.decided is None or record.epoch != self.decided.epoch:
            raise HistoryError(f"{type(record).__name__} for epoch {record.epoch}, which is not the newest decided")
        if isinstance(record, ReplayBegin):
            if record.replay != self.decided.replays + 1:
                raise HistoryError(f"replay {record.replay} of epoch {record.epoch} after {self.decided.replays}")
            return replace(self, decided=replace(self.decided, replays=record.replay, replaying=True))
        if isinstance(record, Replay):
            if not self.decided.replaying or record.replay != self.decided.replays:
                raise HistoryError(f"replay {record.replay} of epoch {record.epoch} ended without its beginning")
            return replace(self, decided=self.decided.replaced_by(record))
        return replace(self, decided=self.decided.resolved_by(record))

    def _decide(self, record: Decide) -> History:
        if self.decided is not None and record.epoch <= self.decided.epoch:
            raise HistoryError(f"epoch {record.epoch} decided after epoch {self.decided.epoch}")
        decided = DecidedEpoch(record.epoch, record.offsets, record.committables)
        return replace(self, decided=decided, earlier=None if self.decided is None else self.decided.epoch)

    def undone(self, newest_commit: int | None) -> DecidedEpoch | None:
        """The decided epoch that Spark has not recorded as done, or None.

        An epoch is done if and only if Spark's newest ``commits/`` entry is at least its number: entries may
        be purged and numbers may jump.

        Raises:
            HistoryError: Two decided epochs are undone, which one order of writes alone can never give.
        """
        done = -1 if newest_commit is None else newest_commit
        if self.earlier is not None and self.earlier > done:
            raise HistoryError(f"epochs {self.earlier} and {self.decided and self.decided.epoch} are both undone")
        return self.decided if self.decided is not None and self.decided.epoch > done else None


def read_history(records: Iterable[Record], first: History | None = None) -> History:
    """Fold records, oldest first, into a history."""
    history = first or History()
    for record in records:
        history = history.then(record)
    return history
