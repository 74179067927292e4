"""What the coordinator remembers between two events, and why an epoch's plan runs.

Must not know: what follows from it (``coordinator`` does), Spark, Kafka, files, time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from onceflow.twophase.layout import Layout
from onceflow.twophase.messages import Failure, FailureKind
from onceflow.twophase.participants import Part, Participant, ParticipantId, PartId, TaskReport, parts_of
from onceflow.twophase.records import DecidedEpoch, History, Skip
from onceflow.twophase.state import Input


class Mode(Enum):
    """Why the plan of the present epoch runs, if it does."""

    FRESH = "first run: write everything, then decide"
    ROLL_FORWARD = "decided before: write nothing"
    WHOLE = "replay with nothing visible: write everything freely"
    PARTS = "replay with some visible: what holds their rows is silent, the rest is written"


@dataclass(frozen=True, slots=True)
class Memory:
    """What the coordinator remembers between two events. Frozen: an illegal event changes nothing.

    Attributes:
        history: The journal, as far as this incarnation has read and written it.
        undone: The decided epoch that Spark has not recorded, or None.
        newest_commit: Spark's newest ``commits/`` entry at the start, -1 for none.
        newest_plan: Its newest ``offsets/`` entry, likewise.
        finished: The start has committed all of ``undone``.
        lost: The start found a part of ``undone`` proven aborted.
        epoch, offsets, stateful: The epoch in work.
        layout: What stands at Spark's positions, as it was last found.
        skip: Positions behind what the source has lost, to be appended.
        limit: The run outlived its transactions, and would not with so many records of each source.
        mode: Why its plan runs.
        lingering: What older incarnations left open, by the sink whose committer has listed it.
        planned: What Spark has planned and is to be planned anew.
        reports: What the tasks of this run report.
        ran: What this run gave, part by part.
        written: What of it is pre-committed.
        took_ms: How long it took.
        pending: Decided participants that are not known to be committed.
        discarded: Participants that were aborted although nobody can prove what they are.
        visible: Participants of a replaced set that are proven committed.
        silent: Parts of this run that hold their rows, and so are not written.
        matched: What the run that found them counted and digested.
        rounds: Commit rounds so far, for the caller's back-off.
        asked_since: When outcomes were asked for first, as long as nobody tells all of them; else None.
        refused_since: From when on all that is left to commit is refused; else None.
        failure: What to raise when the call ends badly.
    """

    history: History = field(default_factory=History)
    undone: DecidedEpoch | None = None
    newest_commit: int = -1
    newest_plan: int = -1
    finished: bool = False
    lost: bool = False
    epoch: int = -1
    offsets: str = ""
    stateful: bool = False
    layout: Layout = field(default_factory=Layout)
    skip: Skip | None = None
    limit: int | None = None
    mode: Mode = Mode.FRESH
    lingering: Mapping[str, tuple[Participant, ...]] = field(default_factory=dict)
    planned: tuple[int, ...] = ()
    reports: tuple[TaskReport, ...] = ()
    ran: tuple[Part, ...] = ()
    written: tuple[Participant, ...] = ()
    took_ms: int = 0
    pending: tuple[Participant, ...] = ()
    discarded: frozenset[ParticipantId] = frozenset()
    visible: frozenset[ParticipantId] = frozenset()
    silent: frozenset[PartId] = frozenset()
    matched: tuple[Part, ...] = ()
    rounds: int = 0
    asked_since: float | None = None
    refused_since: float | None = None
    failure: Failure | None = None


Reading = tuple[Input, Memory]
"""What an event means: a step of the table, and the memory that goes with it."""


def failing(m: Memory, kind: FailureKind, who: tuple[ParticipantId, ...] = (), detail: str = "") -> Memory:
    """The memory with what is raised when the call ends."""
    epoch = m.epoch if m.epoch >= 0 else None
    return replace(m, failure=Failure(kind, epoch, who, detail))


def open_business(decided: DecidedEpoch | None) -> tuple[Participant, ...]:
    """The participants of a decided epoch whose commit may still have to be made."""
    return decided.effective if decided is not None else ()


def decided_parts(decided: DecidedEpoch | None) -> tuple[Part, ...]:
    """The parts that they cover."""
    return parts_of(open_business(decided))
