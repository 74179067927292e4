"""What the systems of a job's sinks took of a row, in its checkpoint: a decided epoch is run again by what held then.

Must not know: what a limit means, sinks, when they are looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onceflow.errors import CheckpointCorruptError
from onceflow.storage.store import Store

FILE = "row_limits.json"
"""In our folder of the checkpoint."""


class KeptRowLimits:
    """A checkpoint's.

    Args:
        store: Our folder.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> dict[str, Any]:
        """By the names of sinks; empty where nothing was kept.

        Raises:
            CheckpointCorruptError: The file is spoiled.
            CheckpointStoreError: The file system failed.
        """
        if FILE not in self._store.names():
            return {}
        try:
            found = json.loads(self._store.read(FILE))
            if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
                raise ValueError(FILE)
        except ValueError:
            raise CheckpointCorruptError(
                f"{self._store.path(FILE)} does not say what sinks take of a row",
                harmless="for what is visible: nothing was begun",
                cause="the file was edited or cut",
                action="remove it: the start then looks at the tables and topics as they are now; an epoch that was "
                "decided by other limits is told by NotDeterministicError",
                file=str(self._store.path(FILE)),
            ) from None
        return found

    def keep(self, limits: Mapping[str, Any]) -> None:
        """Put these in the place of those that are kept, durable.

        Raises:
            CheckpointStoreError: The file system failed.
        """
        self._store.replace(FILE, json.dumps(limits, sort_keys=True).encode())
