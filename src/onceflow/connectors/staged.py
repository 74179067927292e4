"""What a participant of a whole epoch says, of any system that stages by attempts: read, checked and written here.

Must not know: any particular sink, how anything is staged or committed. Spark's workers load it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from onceflow.connectors.contract import Run
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.participants import Participant

NOT_UNDERSTOOD = "another sink or another version wrote it"
"""What is said of a participant that is read as None."""


class _Attempt(Protocol):
    @property
    def rows(self) -> int: ...

    def to_json(self) -> list[Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSeal(ABC):
    """What only a participant of a whole epoch has; each kind of system adds its own.

    Attributes:
        incarnation: The start that wrote it.
        epoch: Which epoch it is of.
        after: The handle that the system must know where this one is committed: of the newest epoch before it; or "".
        claimed: What the system has of starts before this one does not count, or is replaced: an operator has claimed
            the checkpoint, to have written again what they wrote.
    """

    incarnation: int
    epoch: int
    after: str = ""
    claimed: int = 0

    @classmethod
    def of_run(cls, run: Run, sink: str, **own: Any) -> Self:
        """That of a run, for one sink, with the system's own."""
        after = run.newest.get(sink, "")
        return cls(incarnation=run.incarnation, epoch=run.epoch, after=after, claimed=run.claimed, **own)

    @classmethod
    def read(cls, told: Mapping[str, Any], **own: Any) -> Self:
        """Read what ``fields`` gave, with the system's own; what is of another form raises one of ``OTHER_FORM``."""
        run = {"incarnation": int(told["incarnation"]), "epoch": int(told["epoch"])}
        return cls(**run, after=str(told.get("after", "")), claimed=int(told.get("claimed", 0)), **own)

    def fields(self, **own: Any) -> dict[str, Any]:
        """As JSON values, with the system's own between them: older checkpoints have this order."""
        run = {"incarnation": self.incarnation, "epoch": self.epoch}
        return {**run, **own, "after": self.after, "claimed": self.claimed}

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """As a participant keeps it: JSON values."""


A = TypeVar("A", bound=_Attempt)
S = TypeVar("S", bound=EpochSeal)


@dataclass(frozen=True, slots=True)
class StagedEpoch(Generic[A, S]):
    """What a participant's transaction says, as far as it can be read.

    Attributes:
        system: The lasting id of what it is staged in.
        attempts: What its tasks have staged.
        sealed: The rest; None for attempts that were found, by a sweep or an operator, and can only be ended.
        KIND: What its JSON says that it is.
        SYSTEM: What its JSON calls the system.
    """

    KIND: ClassVar[str]
    SYSTEM: ClassVar[str]

    system: str
    attempts: tuple[A, ...]
    sealed: S | None = None

    @classmethod
    @abstractmethod
    def _attempt(cls, told: Any) -> A:
        """Read an attempt; what is of another form raises one of ``OTHER_FORM``."""

    @classmethod
    @abstractmethod
    def _seal(cls, told: Any) -> S:
        """Read what it is sealed with, likewise."""

    @classmethod
    def of(cls, participant: Participant) -> Self | None:
        """Read it; None for what is another kind of sink's."""
        return cls.read(participant.transaction)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Self | None:
        """Likewise, of what ``to_json`` gave."""
        try:
            if told["kind"] != cls.KIND:
                return None
            sealed = told.get("sealed")
            attempts = tuple(cls._attempt(each) for each in told["attempts"])
            return cls(str(told[cls.SYSTEM]), attempts, None if sealed is None else cls._seal(sealed))
        except OTHER_FORM:
            return None

    @classmethod
    def attempts_of(cls, participants: Iterable[Participant]) -> list[A]:
        """All attempts of those participants that are of this kind."""
        return [a for staged in map(cls.of, participants) if staged is not None for a in staged.attempts]

    @classmethod
    def epochs_of(cls, participants: Iterable[Participant]) -> list[int]:
        """Of which epochs they are, in order."""
        seals = (staged.sealed for staged in map(cls.of, participants) if staged is not None)
        return sorted({sealed.epoch for sealed in seals if sealed is not None})

    def to_json(self) -> dict[str, Any]:
        """As a participant keeps it: JSON values."""
        told = {"kind": self.KIND, self.SYSTEM: self.system, "attempts": [a.to_json() for a in self.attempts]}
        return told if self.sealed is None else {**told, "sealed": self.sealed.to_json()}

    @property
    def rows(self) -> int:
        """Rows of all attempts."""
        return sum(a.rows for a in self.attempts)
