"""Who makes a folder, or has made it, where a folder cannot be put in its place in one step: in an object store.

Must not know: what the folder is to be, which object store it is.

Its files come one by one there. So a maker first says that it is at work, in a file beside the one that comes last: of
those that say so in one place exactly one succeeds. The last file makes the folder what it is, and names its maker. A
folder is whole where both name the same one.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Self

from onceflow.errors import CheckpointCorruptError
from onceflow.storage import envelope
from onceflow.storage.files import Where
from onceflow.storage.store import Store

FORMAT = 1
_ENDING = ".making"


def making_of(last: str) -> str:
    """The file in which the maker says that it is at work, of the one that comes last."""
    return last + _ENDING


def is_making(name: str) -> bool:
    """Whether a file is one in which a maker says so."""
    return name.endswith(_ENDING)


@dataclass(frozen=True, slots=True)
class Making:
    """One.

    Attributes:
        id: Random.
        host: Where its process is.
        process: Its number.
        began_at: When it began (ISO 8601, UTC).
    """

    id: str
    host: str
    process: int
    began_at: str

    @classmethod
    def begin(cls) -> Self:
        """That of this process, which begins now."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(secrets.token_hex(8), socket.gethostname(), os.getpid(), now)

    def __str__(self) -> str:
        """It in words."""
        return f"process {self.process} on {self.host}, since {self.began_at}"

    def dumps(self) -> bytes:
        """The bytes of its file."""
        return envelope.seal({"format": FORMAT} | asdict(self))


def read_making(store: Store, last: str) -> Making | None:
    """Who makes a folder, or has made it; None where none has said so.

    Args:
        store: What the last file is in.
        last: Its name.

    Raises:
        CheckpointCorruptError: The file was changed.
        CheckpointConflictError: A newer version wrote it.
    """
    try:
        data = store.read(making_of(last))
    except FileNotFoundError:
        return None
    with envelope.named(store.path(making_of(last)), _spoiled):
        body = envelope.unseal(data, FORMAT)
        return Making(str(body["id"]), str(body["host"]), int(body["process"]), str(body["began_at"]))


def _spoiled(path: Where, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{path} cannot be used: {why}",
        harmless="never: it tells whether the folder is whole",
        cause="the file was edited",
        action="take another copy of the folder",
        file=str(path),
    )
