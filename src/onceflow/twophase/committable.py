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

DIGEST_MASK = (1 << 64) - 1
"""Digests are sums modulo 2**64."""


@dataclass(frozen=True, slots=True)
class Committable:
    """What one writer leaves behind when its pre-commit is proven.

    It holds all that is needed to commit or abort without the writer, and it survives as JSON in the journal.

    Attributes:
        sink: The sink's name, unique within the job.
        shard: Spark's partition id of the task that wrote it; in a replay by shards, numbered on behind those kept.
        attempt: Spark's attempt number of that task.
        rows: Rows written, 0 for an empty shard.
        digest: Order-free 64-bit sum of the rows' hashes (unsigned); equal rows give equal digests.
        transaction: What the sink's committer needs (JSON values only), or None when the shard was empty and
            opened no transaction.
        origin: What the task read, in words that are the same for the same input in every run: ranges of source
            partitions, or the partition of a shuffle; "" where it cannot be told.
    """

    sink: str
    shard: int
    attempt: int
    rows: int
    digest: int
    transaction: Mapping[str, Any] | None = field(default=None)
    origin: str = ""

    @property
    def participant(self) -> Participant:
        """Who this committable stands for."""
        return Participant((self.sink, self.shard))

    @property
    def participates(self) -> bool:
        """Whether there is a transaction to commit or abort."""
        return self.transaction is not None

    def to_json(self) -> dict[str, Any]:
        """The committable as JSON values."""
        return {
            "sink": self.sink,
            "shard": self.shard,
            "attempt": self.attempt,
            "rows": self.rows,
            "digest": self.digest,
            "transaction": None if self.transaction is None else dict(self.transaction),
            "origin": self.origin,
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
            origin=str(value["origin"]),
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


def totals(committables: Iterable[Committable]) -> dict[str, tuple[int, int]]:
    """Rows and digest of each sink's whole output, sinks without rows left out.

    Digests are sums, so the totals of two runs over the same rows are equal whatever task wrote which row: Spark does
    not promise the order of tasks (its Kafka source numbers up to four partitions by how it came to know them).
    """
    found: dict[str, tuple[int, int]] = {}
    for c in committables:
        if c.rows:
            rows, digest = found.get(c.sink, (0, 0))
            found[c.sink] = rows + c.rows, (digest + c.digest) & DIGEST_MASK
    return found


def differing_sinks(decided: Iterable[Committable], rerun: Iterable[Committable]) -> dict[str, tuple[int, int]]:
    """Sinks whose whole output differs between a decision and a run of the same epoch again: rows then, rows now."""
    before, after = totals(decided), totals(rerun)
    nothing = (0, 0)
    return {
        sink: (before.get(sink, nothing)[0], after.get(sink, nothing)[0])
        for sink in sorted(before.keys() | after.keys())
        if before.get(sink, nothing) != after.get(sink, nothing)
    }


def differing_rows(decided: Iterable[Committable], rerun: Iterable[Committable]) -> dict[str, tuple[int, int]]:
    """Sinks of which a run again gives another number of rows than was decided: rows then, rows now."""
    before, after = totals(decided), totals(rerun)
    counts = {s: (before.get(s, (0, 0))[0], after.get(s, (0, 0))[0]) for s in sorted(before.keys() | after.keys())}
    return {sink: (then, now) for sink, (then, now) in counts.items() if then != now}


def find_again(visible: Iterable[Committable], rerun: Iterable[Committable]) -> frozenset[Participant] | None:
    """Which parts of a run hold exactly the rows of these visible transactions; None when one is not among them."""
    places: dict[tuple[str, int, int], list[Participant]] = {}
    for c in rerun:
        places.setdefault((c.sink, c.rows, c.digest), []).append(c.participant)
    found = set()
    for c in visible:
        same = places.get((c.sink, c.rows, c.digest))
        if not same:
            return None
        found.add(same.pop())  # each once: of two that are equal, the second would else be written beside its own rows
    return frozenset(found)


def find_by_origin(visible: Iterable[Committable], rerun: Iterable[Committable]) -> frozenset[Participant] | None:
    """Which parts of a run read what these visible transactions had read; None where one cannot be told."""
    places: dict[tuple[str, str], list[Participant]] = {}
    for c in rerun:
        places.setdefault((c.sink, c.origin), []).append(c.participant)
    found = set()
    for c in visible:
        same = places.get((c.sink, c.origin), ())
        if not c.origin or len(same) != 1:
            return None  # a guess would silence a task whose rows are lost, and write again what is visible
        found.add(same[0])
    return frozenset(found)
