"""What a checkpoint's files stand on: the contract of a store, one folder of it, whatever file system it is on.

Must not know: which stores there are, what the files hold.

What is promised rests on these words and on nothing else of a file system; docs/stores.md says for each store why it
keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

Where = Path | str
"""Where a file is, for messages."""


class Store(Protocol):
    """One folder. A file that exists under its name is whole; a name holds no slash.

    Every method raises ``CheckpointStoreError``, which names the file, where the file system fails.
    """

    def make(self) -> None:
        """Make the folder and those above it, durable; clear away what writers left that died long ago.

        Raises:
            ConfigurationError: What is promised here is not kept there.
        """
        ...

    def untouched(self) -> AbstractContextManager[None]:
        """What is made inside of this folder, and of those above it, is taken away again where it is empty."""
        ...

    def exists(self) -> bool:
        """Whether the folder is there; in an object store, whether anything is in it."""
        ...

    def below(self, name: str) -> Store:
        """A folder in this one; nothing is made."""
        ...

    def path(self, name: str = "") -> Where:
        """Where the file, or the folder itself, is: for messages."""
        ...

    def create(self, name: str, data: bytes) -> None:
        """Create the file, whole and durable: of those that create one name exactly one returns.

        Raises:
            FileExistsError: The name is taken.
            CheckpointStoreError: The file system failed; the file may exist or not, now or later.
        """
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write the file, durable, whether it exists or not; a reader sees the old content or the new, never a part."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """As ``replace``, and perhaps not durable: for what a power cut may take."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file, or make it. For what may be lost until ``sync``, and where a torn end is seen."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, of which there may be one already; perhaps not durable, and not in one step."""
        ...

    def read(self, name: str) -> bytes:
        """The file's content.

        Raises:
            FileNotFoundError: There is none.
        """
        ...

    def contents(self, names: Sequence[str]) -> list[bytes | None]:
        """The files' contents, in the order of the names; None for one that is not there."""
        ...

    def names(self) -> list[str]:
        """Names of files and folders, without files being written; empty when there is no folder."""
        ...

    def count(self, pattern: str) -> int:
        """How many files have a path below the folder that fits a pattern, in which ``*`` is one part of it."""
        ...

    def remove(self, name: str) -> None:
        """Remove the file if it exists."""
        ...

    def sync(self, name: str | None = None) -> None:
        """Make a file that somebody else wrote, or the folder's entries, durable. A missing one is passed over."""
        ...
