"""What operators' tools ask of a system: the optional part of the contract, for sinks and for the sources beside them.

Must not know: any particular sink or source, the journal, what an operator may do with what is shown.

A committer that is ``Inspectable`` as well lets a person look at its system from outside of the job: which transactions
of the job are open there, whom readers wait for, what one of them is. Of a committer that is not, the tools say that
they have not looked. Everything here only looks, but for ``Inspection.abort``. What is told for people is words, and
what is told for programs (``told``) is JSON values, both the system's own and without secrets; nobody reads them here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from onceflow.twophase.layout import LayoutSource
from onceflow.twophase.participants import Participant


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


class PlaceInSystem(NamedTuple):
    """Where rows are in a system: a partition of a topic, a table, a file.

    Attributes:
        name: Of the topic, table or file.
        number: Which partition of it, or None for a thing without partitions.
    """

    name: str
    number: int | None = None

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.name}-{self.number}"


class Phase(StrEnum):
    """How far a transaction is."""

    OPEN = "open"
    """Nobody has said how it ends: it can be aborted, and readers may wait for it."""
    ENDING = "ending"
    """How it ends is said, and it ends by itself; readers may still wait."""
    OVER = "over"
    """Nothing of it is open, or its system does not know it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A place where readers wait until a transaction ends.

    Attributes:
        place: Where.
        words: From what on, and how much waits.
        details: The same.
    """

    place: PlaceInSystem
    words: str
    details: Mapping[str, Any] = field(default_factory=_nothing, hash=False)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who began a transaction of the job.

    Attributes:
        sink: The sink's name.
        incarnation: The number of the job's start.
        shard: Which one wrote it (a number within its run), or None where it is not of one shard.
        epoch: Of which epoch, in words, as far as the system can tell.
        details: All of it.
    """

    sink: str
    incarnation: int
    shard: int | None
    epoch: str
    details: Mapping[str, Any] = field(default_factory=_nothing, hash=False)


@dataclass(frozen=True, slots=True)
class Seen:
    """A transaction as its system shows it now.

    Attributes:
        id: What a person names it by, "" where nothing tells it. A later transaction may have the same.
        handle: Exactly which one, as ``Participant.handle`` says it.
        state: The system's word.
        phase: What the word means.
        origin: Who began it, or None when it is not the job's.
        writer: What the system knows its writer as, in words.
        age_s: Seconds since it began, by the system's clock; None when it is not open, or that is not known.
        timeout_s: After how many seconds the system ends it by itself, or None.
        places: Where it writes.
        holds: Where readers wait for it, as far as that was asked.
        transaction: What an abort of it needs, as in a ``Participant``.
        details: What else there is to tell.
    """

    id: str
    handle: str
    state: str
    phase: Phase
    origin: Origin | None
    writer: str = ""
    age_s: float | None = None
    timeout_s: float | None = None
    places: tuple[PlaceInSystem, ...] = ()
    holds: tuple[Held, ...] = ()
    transaction: Mapping[str, Any] = field(default_factory=_nothing, hash=False)
    details: Mapping[str, Any] = field(default_factory=_nothing, hash=False)


@dataclass(frozen=True, slots=True)
class Looked:
    """The job's transactions on a system.

    Attributes:
        found: They.
        unseen: A sentence for each thing that could not be looked at.
    """

    found: tuple[Seen, ...]
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Waited:
    """Whom readers wait for.

    Attributes:
        ours: Those that were asked about, with what they hold.
        foreign: Somebody else's that hold something, likewise. They are never touched.
        unseen: A sentence for each thing that could not be looked at.
    """

    ours: tuple[Seen, ...]
    foreign: tuple[Seen, ...] = ()
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """What a participant says of its transaction.

    Attributes:
        id: What a person names it by, "" where it says none; also of one that is not understood.
        handle: Exactly which one, or None where that is not understood: then it may be any of its sink's.
        places: Where it was written to.
        witness: Where its last row is, in words, or None.
        problem: What is not understood, or None.
    """

    id: str
    handle: str | None
    places: tuple[PlaceInSystem, ...] = ()
    witness: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LostInput:
    """Records that a job still needs and its source does not hold any more.

    Attributes:
        partition: Where.
        start: The first of them.
        end: The one after the last.
        remade: What was read there was deleted and made again.
    """

    partition: PlaceInSystem
    start: int
    end: int
    remade: bool


class InputRange(NamedTuple):
    """Records of a place.

    Attributes:
        partition: Where.
        start: The first.
        end: The one after the last.
    """

    partition: PlaceInSystem
    start: int
    end: int


class SourceInspection(ABC):
    """A system's sources, as operators' tools look at them: without the sources, by their positions alone.

    A position is a line of Spark's ``offsets/N``. One that is not of this system's form is not understood.
    """

    @abstractmethod
    def names(self, position: str) -> frozenset[str]:
        """What a position is of: topics, for example; none where it is not understood. Asks nobody."""

    @abstractmethod
    def ranges(self, start: str, end: str) -> tuple[InputRange, ...]:
        """What lies between two positions of a source, in order; none where they are not understood. Asks nobody.

        Args:
            start: The position of the first record.
            end: The one behind the last.
        """

    @abstractmethod
    def present(self, names: Collection[str]) -> frozenset[str]:
        """Those of these names that this system has, and this login may look at."""

    @abstractmethod
    def lost(self, needed: str, end: str, known: LayoutSource) -> tuple[LostInput, ...]:
        """What is gone of what is still needed: the same that ``SourceConnection.look`` finds.

        Args:
            needed: The first position that is needed, "" for none.
            end: The one after the last that is planned, "" for none.
            known: What stood there before.

        Raises:
            OnceflowError: The system did not answer, or refused.
        """


class Inspection(ABC):
    """A system of a job's sinks, as operators' tools look at it. One thread calls it.

    Of several sinks on one system one is asked for all of them.
    """

    @abstractmethod
    def transactions(self, decided: Sequence[Participant]) -> Looked:
        """All of the job's transactions there that are open or ending, whatever their sink; and these decided ones.

        A decided one that is not open comes as well, with its present state. What is understood of none of them, or
        did not answer, is said. Nobody asks here what they hold.

        Raises:
            OnceflowError: The system did not answer, or refused.
        """

    @abstractmethod
    def waited_for(self, names: Collection[str], ours: Sequence[Seen]) -> Waited:
        """Whom readers of these names wait for (sinks' destinations, what sources read), and of what is written.

        Args:
            names: Topics, tables, files of this system.
            ours: What ``transactions`` found.

        Raises:
            OnceflowError: The system did not answer, or refused.
        """

    @abstractmethod
    def describe(self, transaction_id: str) -> Seen | None:
        """The newest transaction of an id, with what it holds; None when the system does not know the id."""

    @abstractmethod
    def origin(self, transaction_id: str) -> Origin | None:
        """Who began the transactions of an id, or None when they are not the job's."""

    @abstractmethod
    def show(self, participant: Participant) -> Shown:
        """What a participant says of its transaction. Never raises: it may be another sink's or version's."""

    def id_of(self, handle: str) -> str:
        """The id of a handle's transaction; "" for a handle that is not of this form."""
        return handle

    @abstractmethod
    def abort(self, seen: Sequence[Seen]) -> Mapping[str, str]:
        """Abort each, exactly this transaction and no later one under the same id; by handle the system's answer.

        The answer proves nothing: ``still_open`` tells.
        """

    @abstractmethod
    def still_open(self, seen: Sequence[Seen]) -> frozenset[str]:
        """Handles of those that are open or ending still, or of which nobody answered."""

    def sources(self) -> SourceInspection | None:
        """The same system's sources, with this login; None for a system that is only written to."""
        return None


class Inspectable(ABC):
    """A committer whose system operators' tools can look at: ``class MyCommitter(Committer, Inspectable)``."""

    @abstractmethod
    def inspection(self) -> Inspection:
        """A look at the system, over the committer's own connection and for its job."""
