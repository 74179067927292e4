"""What crosses a crash: the parts of a run, the reports of its tasks, and the participants that are made of them.

Must not know: what kind of transaction a participant stands for. ``transaction`` and ``handle`` are the sink's own
business; the rules only compare handles.

* A *part* is what one partition of a run gave to one sink. Runs of one epoch are told apart, and found again, by their
  parts.
* A *task report* is what one task hands to the driver of one sink: its parts, and what its writer prepared. A task
  takes a group of partitions, and each run may group them otherwise.
* A *participant* is committed or aborted as one. It covers the parts of one task (Kafka), or of all of a sink's tasks
  (a database's one transaction): which, its committer says when it seals the reports.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NewType

PartId = NewType("PartId", tuple[str, int])
"""(sink, the part's number): means something within one run, and in a decision."""

ParticipantId = NewType("ParticipantId", tuple[str, str])
"""(sink, handle): names one transaction among all that ever were."""

DIGEST_MASK = (1 << 64) - 1
"""Digests are sums modulo 2**64."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one partition of a run gave to one sink.

    Attributes:
        sink: The sink's name, unique within the job.
        number: Of the partition, in its run; in a replay by parts, numbered on behind those kept.
        rows: Rows. A part without any is the same as none: nobody has to report it.
        digest: Order-free 64-bit sum of the rows' hashes (unsigned); equal rows give equal digests.
        origin: What was read for it, in words that are the same for the same input in every run: ranges of source
            partitions, or the partition of a shuffle; "" where it cannot be told.
        keyed: The digest that nobody makes or reads without the job's key (``keyed.masked``), "" where there is no key.
            For the audit's receipts: no rule compares it.
    """

    sink: str
    number: int
    rows: int
    digest: int
    origin: str = ""
    keyed: str = field(default="", compare=False)

    @property
    def id(self) -> PartId:
        """Which part of its run."""
        return PartId((self.sink, self.number))


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What one task has done for one sink, when its pre-commit is proven.

    Attributes:
        sink: The sink's name.
        task: The task's number, which is that of its group.
        attempt: Spark's attempt number.
        parts: What it wrote, and what it only counted: those that the run holds silent.
        transaction: What the sink's committer needs (JSON values only), or None when nothing was written.
    """

    sink: str
    task: int
    attempt: int
    parts: tuple[Part, ...]
    transaction: Mapping[str, Any] | None = None

    def __hash__(self) -> int:
        return hash((self.sink, self.task, self.attempt, self.parts))

    def dumps(self) -> str:
        """The report as one line of JSON: how a task hands it to the driver."""
        return _one_line(
            {
                "sink": self.sink,
                "task": self.task,
                "attempt": self.attempt,
                "parts": _parts_to_json(self.parts),
                "transaction": None if self.transaction is None else dict(self.transaction),
            }
        )

    @classmethod
    def loads(cls, text: str) -> TaskReport:
        """Read what ``dumps`` wrote.

        Raises:
            ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError: The text is no report.
        """
        value = json.loads(text)
        sink, transaction = str(value["sink"]), value["transaction"]
        if transaction is not None:
            _require_object(transaction)
        parts = _parts_from_json(sink, value["parts"])
        return cls(sink, int(value["task"]), int(value["attempt"]), parts, transaction)


@dataclass(frozen=True, slots=True)
class Participant:
    """What is committed or aborted as one, with all that is needed for it when its writers are gone.

    Attributes:
        sink: The sink's name.
        handle: What names exactly this transaction among all that the sink ever prepared, in the sink's own words.
        parts: Those whose rows are in it; none where nobody knows (one that was found lingering).
        transaction: What the sink's committer needs, JSON values only.
    """

    sink: str
    handle: str
    parts: tuple[Part, ...]
    transaction: Mapping[str, Any]

    def __hash__(self) -> int:
        return hash((self.sink, self.handle))

    @property
    def id(self) -> ParticipantId:
        """Which one it is."""
        return ParticipantId((self.sink, self.handle))

    @property
    def rows(self) -> int:
        """Rows in it."""
        return sum(part.rows for part in self.parts)

    @property
    def digest(self) -> int:
        """The digest of all its rows."""
        return sum(part.digest for part in self.parts) & DIGEST_MASK

    def to_json(self) -> dict[str, Any]:
        """The participant as JSON values."""
        return {
            "sink": self.sink,
            "handle": self.handle,
            "parts": _parts_to_json(self.parts),
            "transaction": dict(self.transaction),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Participant:
        """Read what ``to_json`` wrote.

        Raises:
            ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError: It is no participant.
        """
        sink, transaction = str(value["sink"]), value["transaction"]
        _require_object(transaction)
        return cls(sink, str(value["handle"]), _parts_from_json(sink, value["parts"]), transaction)


def _parts_to_json(parts: Iterable[Part]) -> list[list[Any]]:
    # Lists, not objects: an epoch may have thousands of parts, and every one is kept in the journal.
    return [[part.number, part.rows, part.digest, part.origin, *([part.keyed] if part.keyed else [])] for part in parts]


def _parts_from_json(sink: str, value: Any) -> tuple[Part, ...]:
    return tuple(
        Part(sink, int(number), int(rows), int(digest), str(origin), *map(str, keyed[:1]))
        for number, rows, digest, origin, *keyed in value
    )


def _require_object(transaction: Any) -> None:
    if not isinstance(transaction, Mapping):
        raise TypeError(f"transaction must be an object, not {type(transaction).__name__}")


def _one_line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def parts_of(holders: Iterable[Participant | TaskReport]) -> tuple[Part, ...]:
    """All parts of participants or of reports, one after the other."""
    return tuple(part for each in holders for part in each.parts)


def with_origins(report: TaskReport, origins: Sequence[str]) -> TaskReport:
    """The report, each part with what was read for its partition."""
    return replace(report, parts=tuple(replace(part, origin=origins[part.number]) for part in report.parts))


def prepared(reports: Iterable[TaskReport], silent: frozenset[PartId]) -> tuple[TaskReport, ...]:
    """The reports that hold a transaction, each with the parts whose rows are in it and no others."""
    return tuple(
        replace(r, parts=tuple(part for part in r.parts if part.rows and part.id not in silent))
        for r in reports
        if r.transaction is not None
    )


# -- is a run complete? ---------------------------------------------------------------------------


def miscounted(parts: Iterable[Part], silent: frozenset[PartId], written: int) -> str | None:
    """What is wrong with what a task wrote, or None: its writer got all rows of the parts that are not silent."""
    # A row that is counted and not written would be decided, and be nowhere; one of a silent part is visible already.
    rows = sum(part.rows for part in parts if part.id not in silent)
    return None if rows == written else f"{written} rows were written, and its parts have {rows} to write"


def unreported(reports: Iterable[TaskReport], sinks: Iterable[str], tasks: int, partitions: int) -> str | None:
    """What is wrong with a run's reports, or None: each task reports once for each sink, and each part once.

    Args:
        reports: The run's.
        sinks: Those of which each task has to report.
        tasks: How many there were.
        partitions: How many partitions they took; a part has the number of one.
    """
    # Spark tells only that its job ended. A result that got lost on the way would be rows that are in no decision.
    found = Counter((r.sink, r.task) for r in reports)
    expected = {(sink, task) for sink in sinks for task in range(tasks)}
    wrong = sorted(expected ^ found.keys()) + sorted(who for who, times in found.items() if times > 1)
    if wrong:
        return f"{len(expected)} reports were expected and {found.total()} came; missing, strange or doubled: {wrong}"
    numbered = Counter(p.id for p in parts_of(reports))
    strange = sorted(part for part in numbered if part[1] not in range(partitions))
    if strange:
        return f"the run has {partitions} partitions, and these parts are of others: {strange}"
    twice = sorted(part for part, times in numbered.items() if times > 1)
    return f"these parts were reported twice: {twice}" if twice else None


def uncovered(parts: Iterable[Part], participants: Iterable[Participant], silent: frozenset[PartId]) -> str | None:
    """What is wrong with a run's participants, or None: each part that has rows and is not silent is in exactly one.

    A part in none would be lost with its decision, one in two would be visible twice; one in another sink's would be
    committed by a committer that does not know it.
    """
    wanted = Counter((p.sink, p) for p in parts if p.rows and p.id not in silent)
    covered = Counter((each.sink, p) for each in participants for p in each.parts if p.rows)
    if wanted == covered:
        return None
    lost, strange = sorted(p.id for _, p in wanted - covered), sorted(p.id for _, p in covered - wanted)
    return f"parts that no participant covers: {lost}; parts that one covers and should not: {strange}"


def come_again(participants: Iterable[Participant], before: Iterable[Participant]) -> str | None:
    """What is wrong with the handles of a run's participants, or None: each names one transaction, and a new one.

    Outcomes are told by handle. Where two have one, the word for one counts for the other: visible rows are written
    again, or lost ones are held for written.

    Args:
        participants: The run's.
        before: Those that were decided for the same epoch before.
    """
    known = {p.id for p in before}
    twice = [who for who, times in Counter(p.id for p in participants).items() if times > 1 or who in known]
    return f"handles that are not of one transaction alone: {sorted(twice)}" if twice else None


# -- is one run the same as another? ----------------------------------------------------------------


def totals(parts: Iterable[Part]) -> dict[str, tuple[int, int]]:
    """Rows and digest of each sink's whole output, sinks without rows left out.

    Digests are sums, so the totals of two runs over the same rows are equal whatever task wrote which row: Spark does
    not promise the order of tasks (its Kafka source numbers up to four partitions by how it came to know them).
    """
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        if part.rows:
            rows, digest = found.get(part.sink, (0, 0))
            found[part.sink] = rows + part.rows, (digest + part.digest) & DIGEST_MASK
    return found


def differing_sinks(decided: Iterable[Part], rerun: Iterable[Part]) -> dict[str, tuple[int, int]]:
    """Sinks whose whole output differs between a decision and a run of the same epoch again: rows then, rows now."""
    before, after = totals(decided), totals(rerun)
    nothing = (0, 0)
    return {
        sink: (before.get(sink, nothing)[0], after.get(sink, nothing)[0])
        for sink in sorted(before.keys() | after.keys())
        if before.get(sink, nothing) != after.get(sink, nothing)
    }


def differing_rows(decided: Iterable[Part], rerun: Iterable[Part]) -> dict[str, tuple[int, int]]:
    """Sinks of which a run again gives another number of rows than was decided: rows then, rows now."""
    before, after = totals(decided), totals(rerun)
    counts = {s: (before.get(s, (0, 0))[0], after.get(s, (0, 0))[0]) for s in sorted(before.keys() | after.keys())}
    return {sink: (then, now) for sink, (then, now) in counts.items() if then != now}


def find_again(visible: Iterable[Part], rerun: Iterable[Part]) -> frozenset[PartId] | None:
    """Which parts of a run hold exactly the rows of these visible ones; None when one is not among them."""
    places: dict[tuple[str, int, int], list[PartId]] = {}
    for part in rerun:
        places.setdefault((part.sink, part.rows, part.digest), []).append(part.id)
    found = set()
    for part in visible:
        same = places.get((part.sink, part.rows, part.digest))
        if not same:
            return None
        found.add(same.pop())  # each once: of two that are equal, the second would else be written beside its own rows
    return frozenset(found)


def find_by_origin(visible: Iterable[Part], origins: Sequence[str]) -> frozenset[PartId] | None:
    """Which parts of a run read what these visible ones had read; None where one cannot be told.

    Args:
        visible: They.
        origins: Of each partition of the run, also of one that gives no rows now.
    """
    found = set()
    for part in visible:
        if not part.origin or origins.count(part.origin) != 1:
            return None  # a guess would silence a part whose rows are lost, and write again what is visible
        found.add(PartId((part.sink, origins.index(part.origin))))
    return frozenset(found)
