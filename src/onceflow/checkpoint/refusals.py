"""By which refusal the newest start's epoch has failed, and at how many starts in a row: one small file.

Must not know: which errors are refusals, what follows from their number (``execution/patience.py`` does).
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import asdict, dataclass

from onceflow.errors import CheckpointStoreError
from onceflow.storage import envelope
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM

log = logging.getLogger(__name__)

FORMAT = 1
_NEWEST = "newest.json"


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal.

    Attributes:
        epoch: Of which epoch.
        offsets: A digest of what that reads.
        error: The error's class.
        answer: What has refused, and its own code.
        starts: At how many starts in a row.
        since: When it came first, in UTC (ISO 8601).
    """

    epoch: int
    offsets: str
    error: str
    answer: str
    starts: int
    since: str


class Refusals:
    """A checkpoint's newest one. Best effort: what cannot be kept is not counted.

    Args:
        store: The folder.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> Refused | None:
        """The one that is kept; None for none, and for one that cannot be read."""
        try:
            body = envelope.unseal(self._store.read(_NEWEST), FORMAT)
            body.pop("format")
            return Refused(**body)
        except (FileNotFoundError, CheckpointStoreError, *OTHER_FORM):
            return None

    def keep(self, refused: Refused) -> None:
        """Keep it in the place of the one before."""
        try:
            self._store.make()
            self._store.replace(_NEWEST, envelope.seal({"format": FORMAT, **asdict(refused)}))
        except CheckpointStoreError as error:
            log.warning("that epoch %d was refused is not kept: %s", refused.epoch, error.what)

    def forget(self) -> None:
        """Keep none."""
        with contextlib.suppress(CheckpointStoreError, FileNotFoundError):
            self._store.remove(_NEWEST)
