"""What epochs without a decision have read: one note for each start, best effort.

Must not know: records, what follows from a note. Only ``offsets/<epoch>`` says it otherwise, which a driver that slept
since long ago may write over.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

from onceflow.errors import CheckpointStoreError
from onceflow.storage import envelope
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM

FORMAT = 1
_NEWEST = "newest.json"
_NOTE = re.compile(r"[1-9][0-9]*[.]json")


class Passed:
    """The notes of a checkpoint's starts.

    Each start has a file of its own: an older one that wakes up late tells of its own plan, and writes over nobody's.

    Args:
        store: The notes' folder.
        newest: The incarnation of the newest start.
        before: The incarnation of the start before it.
    """

    def __init__(self, store: Store, newest: Callable[[], int], before: Callable[[], int]) -> None:
        self._store, self._newest, self._before = store, newest, before

    def note(self, epoch: int, offsets: str) -> None:
        """Keep what an epoch without a decision had read: best effort, for ``newest``."""
        with contextlib.suppress(CheckpointStoreError):
            self._store.put(self._mine(), self._sealed(epoch, offsets))

    def adopt(self, passed: tuple[int, str] | None) -> None:
        """Say, durable, what the starts before have left, before this one runs anything: as ``newest`` has told it.

        So a start without a note has run nothing, and what the one before it noted holds still. A note of a start
        that is older than that is of no use any more.

        Raises:
            CheckpointStoreError: The file system failed; the start must not go on.
        """
        self._store.make()
        self._store.replace(self._mine(), self._sealed(*(passed or (-1, ""))))
        for name in (*(f"{n}.json" for n in self._noted() if n < self._newest()), _NEWEST):
            self._store.remove(name)

    def newest(self, *, own: bool = False) -> tuple[int, str] | None:
        """The newest epoch without a decision that a start has done, and what it had read; None where it is not known.

        By the newest start that has noted anything.

        Args:
            own: What the newest start has noted counts, too; else those before it alone.
        """
        newest = self._newest() if own else self._newest() - 1
        noted = max((n for n in self._noted() if n <= newest), default=0)
        # Of a version of before there is one note for all, in which any start may have written last.
        older = self._read(_NEWEST)
        if older is not None and older[0] > noted:
            return older[1:] if older[0] in (self._before(), newest) else None
        found = self._read(f"{noted}.json")
        return None if found is None or found[1] < 0 else found[1:]

    def _mine(self) -> str:
        return f"{self._newest()}.json"

    def _noted(self) -> list[int]:
        return [int(name.removesuffix(".json")) for name in self._store.names() if _NOTE.fullmatch(name)]

    def _sealed(self, epoch: int, offsets: str) -> bytes:
        return envelope.seal({"format": FORMAT, "incarnation": self._newest(), "epoch": epoch, "offsets": offsets})

    def _read(self, name: str) -> tuple[int, int, str] | None:
        try:
            body = envelope.unseal(self._store.read(name), FORMAT)
            return int(body["incarnation"]), int(body["epoch"]), str(body["offsets"])
        except (FileNotFoundError, *OTHER_FORM):
            return None
