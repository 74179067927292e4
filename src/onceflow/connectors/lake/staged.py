"""What a participant of a lake sink says: which attempts it has, whose they are, and which table they are for.

Must not know: tables, file systems, how anything is committed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from onceflow.connectors.staged import EpochSeal, StagedEpoch

_NAME = re.compile(r"([0-9]{1,19})-([0-9]{1,19})-([0-9]{1,19})-([0-9]{1,19})-([0-9a-f]{15})")


class Moment(NamedTuple):
    """When something was written, in a job's life: within a start epochs only grow, and so do starts."""

    incarnation: int
    epoch: int


def new_id() -> str:
    """What nothing else has."""
    return secrets.token_hex(8)[1:]


@dataclass(frozen=True, slots=True)
class AttemptName:
    """Which task of which run of which job wrote something; the id is its own among all that ever were.

    Attributes:
        job: The job's id.
        sink: The sink's name.
        moment: Which run.
        shard: Which task.
        attempt: Which of its attempts.
        id: 15 hexadecimal digits by chance: 60 bits, since it has to be a number to some formats.
    """

    job: str
    sink: str
    moment: Moment
    shard: int
    attempt: int
    id: str

    @classmethod
    def new(cls, job: str, sink: str, moment: Moment, shard: int, attempt: int) -> AttemptName:
        """One that nobody ever had."""
        return cls(job, sink, moment, shard, attempt, new_id())

    @property
    def text(self) -> str:
        """All but job and sink, in one word."""
        return f"{self.moment.incarnation}-{self.moment.epoch}-{self.shard}-{self.attempt}-{self.id}"

    @classmethod
    def read(cls, job: str, sink: str, told: str) -> AttemptName | None:
        """Read it again; None for what is not of this form."""
        found = _NAME.fullmatch(told)
        if found is None:
            return None
        incarnation, epoch, shard, attempt = (int(part) for part in found.groups()[:4])
        return cls(job, sink, Moment(incarnation, epoch), shard, attempt, found[5])


@dataclass(frozen=True, slots=True)
class LakeAttempt:
    """What one task has written.

    Attributes:
        name: Which task.
        rows: How many rows.
        digest: SHA-256 of the list of its files: what is committed is what the task said.
    """

    name: AttemptName
    rows: int
    digest: str

    def to_json(self) -> list[Any]:
        """As ``LakeStaged`` keeps it."""
        return [self.name.job, self.name.sink, self.name.text, self.rows, self.digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSealed(EpochSeal):
    """That of a table.

    Attributes:
        handle: What names it.
        seat: Which of the table's ledgers it counts in.
        shape: Of the table, as its files were written for it.
    """

    handle: str
    seat: str
    shape: Mapping[str, Any]

    @property
    def moment(self) -> Moment:
        """Which run wrote it."""
        return Moment(self.incarnation, self.epoch)

    def to_json(self) -> dict[str, Any]:
        """As ``LakeStaged`` keeps it."""
        return {"handle": self.handle, **self.fields(seat=self.seat, shape=dict(self.shape))}


@dataclass(frozen=True, slots=True)
class LakeStaged(StagedEpoch[LakeAttempt, LakeSealed]):
    """What a participant's transaction says; its system is the table."""

    KIND = "onceflow lake"
    SYSTEM = "table"

    @classmethod
    def _attempt(cls, told: Any) -> LakeAttempt:
        job, sink, name, rows, digest = told
        read = AttemptName.read(str(job), str(sink), str(name))
        if read is None:
            raise ValueError("it is no attempt's name")
        return LakeAttempt(read, int(rows), str(digest))

    @classmethod
    def _seal(cls, told: Any) -> LakeSealed:
        own = {"handle": str(told["handle"]), "seat": str(told["seat"]), "shape": dict(told["shape"])}
        return LakeSealed.read(told, **own)

    @classmethod
    def found(cls, table: str, names: Sequence[AttemptName]) -> LakeStaged:
        """Attempts that can only be ended."""
        return cls(table, tuple(LakeAttempt(name, 0, "") for name in names))

    @property
    def job(self) -> str:
        """Whose it is."""
        return self.attempts[0].name.job if self.attempts else ""
