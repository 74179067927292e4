"""Lines that are kept for people, a file of them that does not grow without end.

Must not know: what a line says. No decision hangs on it: it is not synced, and a line may be torn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM

_CURRENT, _BEFORE = "current.jsonl", "before.jsonl"


@dataclass(frozen=True)
class Line:
    """What is kept as one line: its fields' values are JSON's."""

    @classmethod
    def loads(cls, line: str) -> Self | None:
        """One from its line; None where it is torn. Fields of a newer version are left out."""
        try:
            found: dict[str, Any] = json.loads(line)
            return cls(**{name: value for name, value in found.items() if name in {f.name for f in fields(cls)}})
        except OTHER_FORM:
            return None

    def dumps(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))


class Lines:
    """A folder's: the newest lines.

    Args:
        store: The folder.
        kept: At least so many are kept, and at most twice as many.
    """

    def __init__(self, store: Store, kept: int) -> None:
        self._store = store
        self._least = kept
        self._number: int | None = None

    def add(self, line: str) -> None:
        """Keep one more.

        Raises:
            CheckpointStoreError: It cannot be written.
        """
        first = self._number is None
        if self._number is None:
            self._store.make()
            self._number = sum(1 for _ in self._of(_CURRENT))
        if self._number >= self._least:
            self._store.rename(_CURRENT, _BEFORE)
            self._number = 0
        # What a power cut has torn has no end of its line.
        self._store.append(_CURRENT, b"\n" * first + line.encode() + b"\n")
        self._number += 1

    def read(self) -> Iterator[str]:
        """What is kept, oldest first.

        Raises:
            CheckpointStoreError: It cannot be read.
        """
        yield from self._of(_BEFORE)
        yield from self._of(_CURRENT)

    def _of(self, name: str) -> Iterator[str]:
        try:
            text = self._store.read(name).decode("utf-8", "replace")
        except FileNotFoundError:
            return
        yield from filter(None, text.splitlines())
