"""Histories for tests, from their records; and the parts and participants that they are about."""

from collections.abc import Iterable

from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.messages import Action, Ran, Seal, Sealed
from onceflow.twophase.participants import Part, Participant, TaskReport
from onceflow.twophase.records import History, Record


def read_history(records: Iterable[Record], first: History | None = None) -> History:
    """Fold records, oldest first, into a history."""
    history = first or History()
    for record in records:
        history = history.then(record)
    return history


def part(number: int, rows: int = 1, digest: int = 7, sink: str = "s", origin: str = "") -> Part:
    """A part that nobody has committed."""
    return Part(sink, number, rows, digest, origin)


def participant(number: int, rows: int = 1, digest: int = 7, mark: str = "old", sink: str = "s") -> Participant:
    """A participant of one part, whose handle is made of ``mark`` and the part's number."""
    handle = f"{mark}-{number}"
    return Participant(sink, handle, (part(number, rows, digest, sink),), {"id": handle})


def ran(coordinator: Coordinator, *of: Part | Participant, took_ms: int = 0) -> Action:
    """Tell it of a run that gave these, each part by a task of its own; and of the participants, where it asks."""
    held = tuple(each for each in of if isinstance(each, Participant))
    parts = [each.parts[0] if isinstance(each, Participant) else each for each in of]
    reports = tuple(TaskReport(part.sink, n, 0, (part,), {} if n < len(held) else None) for n, part in enumerate(parts))
    origin = {part.number: part.origin for part in parts}
    origins = tuple(origin.get(number, "") for number in range(1 + max(origin, default=-1)))
    action = coordinator.receive(Ran(reports, ("s",), len(reports), origins, took_ms))
    return coordinator.receive(Sealed(held)) if isinstance(action, Seal) else action
