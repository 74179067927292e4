"""Histories for tests, from their records; and the parts and participants that they are about."""

from collections.abc import Iterable

from onceflow.twophase.messages import Prepared
from onceflow.twophase.participants import Part, Participant
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


def prepared(*of: Part | Participant, took_ms: int = 0) -> Prepared:
    """The end of a run that gave these."""
    held = tuple(each for each in of if isinstance(each, Participant))
    parts = tuple(p for each in of for p in (each.parts if isinstance(each, Participant) else (each,)))
    return Prepared(parts, held, took_ms)
