"""What a participant of a database sink says: which attempts it has, whose they are, and where they go.

Must not know: tables, connections, how anything is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from onceflow.connectors.database.target import Target
from onceflow.connectors.database.writer import HASH_MASK
from onceflow.connectors.staged import EpochSeal, StagedEpoch


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one task has staged: its id, how many rows, and the sum of their hashes."""

    id: str
    rows: int
    hash: int

    def to_json(self) -> list[Any]:
        """As ``Staged`` keeps it."""
        return [self.id, self.rows, self.hash]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSeal(EpochSeal):
    """That of rows which are merged.

    Attributes:
        target: Where they go.
    """

    target: Target

    def to_json(self) -> dict[str, Any]:
        """As ``Staged`` keeps it."""
        return self.fields(target=self.target.to_json())


@dataclass(frozen=True, slots=True)
class Staged(StagedEpoch[Attempt, StagedSeal]):
    """What a participant's transaction says; its system are the tables."""

    KIND = "onceflow database"
    SYSTEM = "system"

    @classmethod
    def _attempt(cls, told: Any) -> Attempt:
        a, rows, hashed = told
        return Attempt(str(a), int(rows), int(hashed))

    @classmethod
    def _seal(cls, told: Any) -> StagedSeal:
        return StagedSeal.read(told, target=Target.from_json(told["target"]))

    @classmethod
    def found(cls, system: str, ids: tuple[str, ...]) -> Staged:
        """Attempts that can only be ended."""
        return cls(system, tuple(Attempt(i, 0, 0) for i in ids))

    @property
    def ids(self) -> list[str]:
        """The attempts' ids."""
        return [a.id for a in self.attempts]

    @property
    def handle(self) -> str:
        """What no other participant ever has: an attempt is in one only, and its id is its own."""
        return min(self.ids)

    @property
    def hash(self) -> int:
        """The sum of all rows' hashes."""
        return sum(a.hash for a in self.attempts) & HASH_MASK


def in_words(waiting: Iterable[tuple[int, int]]) -> str:
    """How many rows of which epochs are staged, in words."""
    return ", ".join(f"{rows} rows of epoch {epoch}" for epoch, rows in waiting)
