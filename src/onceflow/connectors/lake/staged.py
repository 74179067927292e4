"""What a participant of a lake sink says: which attempts it has, whose they are, and which table they are for.

Must not know: tables, file systems, how anything is committed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.participants import Participant

_KIND = "onceflow lake"
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
    def told(self) -> str:
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


@dataclass(frozen=True, slots=True)
class LakeSealed:
    """What only a participant of a whole epoch has.

    Attributes:
        handle: What names it.
        moment: Which run wrote it.
        seat: Which of the table's ledgers it counts in.
        shape: Of the table, as its files were written for it.
        after: The handle that the table must know where this one is committed: of the newest epoch before it; or "".
        claimed: What the table has of starts before this one does not count: an operator has claimed the checkpoint, to
            have written again what they wrote.
    """

    handle: str
    moment: Moment
    seat: str
    shape: Mapping[str, Any]
    after: str = ""
    claimed: int = 0


@dataclass(frozen=True, slots=True)
class LakeStaged:
    """What a participant's transaction says, as far as it can be read.

    Attributes:
        table: The table's lasting id.
        attempts: What its tasks have written.
        sealed: The rest; None for attempts that were found, by a sweep or an operator, and can only be ended.
    """

    table: str
    attempts: tuple[LakeAttempt, ...]
    sealed: LakeSealed | None = None

    @classmethod
    def found(cls, table: str, names: Sequence[AttemptName]) -> LakeStaged:
        """Attempts that can only be ended."""
        return cls(table, tuple(LakeAttempt(name, 0, "") for name in names))

    @classmethod
    def of(cls, participant: Participant) -> LakeStaged | None:
        """Read it; None for what is another kind of sink's."""
        return cls.read(participant.transaction)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> LakeStaged | None:
        """Likewise, of what ``to_json`` gave."""
        try:
            if told["kind"] != _KIND:
                return None
            attempts = []
            for job, sink, name, rows, digest in told["attempts"]:
                read = AttemptName.read(str(job), str(sink), str(name))
                if read is None:
                    return None
                attempts.append(LakeAttempt(read, int(rows), str(digest)))
            sealed = told.get("sealed")
            if sealed is not None:
                moment = Moment(int(sealed["incarnation"]), int(sealed["epoch"]))
                sealed = LakeSealed(
                    str(sealed["handle"]),
                    moment,
                    str(sealed["seat"]),
                    dict(sealed["shape"]),
                    str(sealed.get("after", "")),
                    int(sealed.get("claimed", 0)),
                )
            return cls(str(told["table"]), tuple(attempts), sealed)
        except OTHER_FORM:
            return None

    def to_json(self) -> dict[str, Any]:
        """As a participant keeps it: JSON values."""
        told: dict[str, Any] = {
            "kind": _KIND,
            "table": self.table,
            "attempts": [[a.name.job, a.name.sink, a.name.told, a.rows, a.digest] for a in self.attempts],
        }
        if self.sealed is not None:
            told["sealed"] = {
                "handle": self.sealed.handle,
                "incarnation": self.sealed.moment.incarnation,
                "epoch": self.sealed.moment.epoch,
                "seat": self.sealed.seat,
                "shape": dict(self.sealed.shape),
                "after": self.sealed.after,
                "claimed": self.sealed.claimed,
            }
        return told

    @property
    def job(self) -> str:
        """Whose it is."""
        return self.attempts[0].name.job if self.attempts else ""

    @property
    def rows(self) -> int:
        """Rows of all attempts."""
        return sum(a.rows for a in self.attempts)
