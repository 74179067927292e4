"""What a participant of a database sink says: which attempts it has, whose they are, and where they go.

Must not know: tables, connections, how anything is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from onceflow.connectors.database.target import Target
from onceflow.connectors.database.writer import HASH_MASK
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.participants import Participant

_KIND = "onceflow database"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one task has staged: its id, how many rows, and the sum of their hashes."""

    id: str
    rows: int
    hash: int


@dataclass(frozen=True, slots=True)
class StagedSeal:
    """What only a participant of a whole epoch has.

    Attributes:
        incarnation: The start that wrote it.
        epoch: Which epoch it is of.
        target: Where its rows go.
        after: The handle that the ledger must know where this one is written: of the newest epoch before it; or "".
        claimed: What the ledger has of this epoch of starts before this one is replaced: an operator has claimed the
            checkpoint, to have written again what they wrote.
    """

    incarnation: int
    epoch: int
    target: Target
    after: str = ""
    claimed: int = 0


@dataclass(frozen=True, slots=True)
class Staged:
    """What a participant's transaction says, as far as it can be read.

    Attributes:
        system: The tables' lasting id.
        attempts: What its tasks have staged.
        sealed: The rest; None for attempts that were found, by a sweep or an operator, and can only be ended.
    """

    system: str
    attempts: tuple[Attempt, ...]
    sealed: StagedSeal | None = None

    @classmethod
    def found(cls, system: str, ids: tuple[str, ...]) -> Staged:
        """Attempts that can only be ended."""
        return cls(system, tuple(Attempt(i, 0, 0) for i in ids))

    @classmethod
    def of(cls, participant: Participant) -> Staged | None:
        """Read it; None for what is another kind of sink's."""
        return cls.read(participant.transaction)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Staged | None:
        """Likewise, of what ``to_json`` gave."""
        try:
            if told["kind"] != _KIND:
                return None
            attempts = tuple(Attempt(str(a), int(rows), int(hashed)) for a, rows, hashed in told["attempts"])
            sealed = told.get("sealed")
            if sealed is not None:
                sealed = StagedSeal(
                    int(sealed["incarnation"]),
                    int(sealed["epoch"]),
                    Target.from_json(sealed["target"]),
                    str(sealed.get("after", "")),
                    int(sealed.get("claimed", 0)),
                )
            return cls(str(told["system"]), attempts, sealed)
        except OTHER_FORM:
            return None

    def to_json(self) -> dict[str, Any]:
        """As a participant keeps it: JSON values."""
        told: dict[str, Any] = {
            "kind": _KIND,
            "system": self.system,
            "attempts": [[a.id, a.rows, a.hash] for a in self.attempts],
        }
        if self.sealed is not None:
            told["sealed"] = {**asdict(self.sealed), "target": self.sealed.target.to_json()}
        return told

    @property
    def ids(self) -> list[str]:
        """The attempts' ids."""
        return [a.id for a in self.attempts]

    @property
    def handle(self) -> str:
        """What no other participant ever has: an attempt is in one only, and its id is its own."""
        return min(self.ids)

    @property
    def rows(self) -> int:
        """Rows of all attempts."""
        return sum(a.rows for a in self.attempts)

    @property
    def hash(self) -> int:
        """The sum of all rows' hashes."""
        return sum(a.hash for a in self.attempts) & HASH_MASK
