"""Histories for tests, from their records."""

from collections.abc import Iterable

from onceflow.twophase.records import History, Record


def read_history(records: Iterable[Record], first: History | None = None) -> History:
    """Fold records, oldest first, into a history."""
    history = first or History()
    for record in records:
        history = history.then(record)
    return history
