"""The committable: the frozen value that crosses a crash.

Must not know: what kind of transaction it stands for. ``transaction`` is the sink's own business; the rules only
ask whether there is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

Participant = NewType("Participant", tuple[str, int])
"""(sink, shard): what is committed or aborted as one."""


@dataclass(frozen=True, slots=True)
class Committable:
    """What one writer leaves behind when its pre-commit is proven.

    It holds all that is needed to commit or abort without the writer, and it survives as JSON in the journal.

    Attributes:
        sink: The sink's name, unique within the job.
        shard: Spark's partition id of the task that wrote it.
        attempt: Spark's attempt number of that task.
        rows: Rows written, 0 for an empty shard.
        digest: Order-free 64-bit sum of the rows' hashes (unsigned); equal rows give equal digests.
        transaction: What the sink's committer needs (JSON values only), or None when the shard was empty and
            opened no transaction.
    """

    sink: str
    shard: int
    attempt: int
    rows: int
    digest: int
    transaction: Mapping[str, Any] | None = field(default=None)

    @property
    def participant(self) -> Participant:
        """Who this committable stands for."""
        return Participant((self.sink, self.shard))

    @property
    def participates(self) -> bool:
        """Whether there is a transaction to commit or abort."""
        return self.transaction is not None

    def same_output(self, other: Committable) -> bool:
        """Whether both wrote the same rows, as far as count and digest can tell."""
        return (self.rows, self.digest) == (other.rows, other.digest)

    def to_json(self) -> dict[str, Any]:
        """The committable as JSON values."""
        return {
            "sink": self.sink,
            "shard": self.shard,
            "attempt": self.attempt,
            "rows": self.rows,
            "digest": self.digest,
            "transaction": None if self.transaction is None else dict(self.transaction),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Committable:
        """Read what ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: The value is not a committable.
        """
        transaction = value["transaction"]
        if transaction is not None and not isinstance(transaction, Mapping):
            raise TypeError(f"transaction must be an object or null, not {type(transaction).__name__}")
        return cls(
            sink=str(value["sink"]),
            shard=int(value["shard"]),
            attempt=int(value["attempt"]),
            rows=int(value["rows"]),
            digest=int(value["digest"]),
            transaction=transaction,
        )

    def __hash__(self) -> int:
        return hash((self.sink, self.shard, self.attempt, self.rows, self.digest))

    def dumps(self) -> str:
        """The committable as one line of JSON: how a task hands it to the driver."""
        return json.dumps(self.to_json(), separators=(",", ":"), sort_keys=True)

    @classmethod
    def loads(cls, text: str) -> Committable:
        """Read what ``dumps`` wrote."""
        return cls.from_json(json.loads(text))


def participants(committables: Iterable[Committable]) -> tuple[Committable, ...]:
    """Those of the committables that hold a transaction."""
    return tuple(c for c in committables if c.participates)


def differences(decided: Iterable[Committable], rebuilt: Iterable[Committable]) -> tuple[Participant, ...]:
    """Participants whose rows differ between a decision and a run of the same epoch again.

    A participant that is missing on one side differs, unless the other side has no rows for it.
    """
    before = {c.participant: (c.rows, c.digest) for c in decided}
    after = {c.participant: (c.rows, c.digest) for c in rebuilt}
    nothing = (0, 0)
    both = sorted(before.keys() | after.keys())
    return tuple(p for p in both if before.get(p, nothing) != after.get(p, nothing))
