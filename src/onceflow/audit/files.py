"""The files of a checkpoint, as the audit reads them: what a folder has, and what is in a file.

Must not know: what they hold. On a disk they are read here. A checkpoint elsewhere comes by whoever is handed in; what
comes that way proves nothing of itself, as a disk does not: each receipt has its hash, and is signed where there is a
key.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """A checkpoint's files. Both calls only read; a file system that fails raises."""

    def names(self, folder: str) -> list[str]:
        """What is in a folder of the checkpoint; nothing where there is none."""

    def contents(self, folder: str, names: Sequence[str]) -> list[bytes | None]:
        """The contents of files in a folder, in the order of the names; None for one that is not there."""

    def __str__(self) -> str:
        """Where the checkpoint is."""


class OnDisk:
    """Those in a folder of this machine's.

    Args:
        checkpoint: The folder.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint

    def __str__(self) -> str:
        """Where the checkpoint is."""
        return str(self._checkpoint)

    def names(self, folder: str) -> list[str]:
        """What is in a folder of the checkpoint."""
        return [path.name for path in (self._checkpoint / folder).glob("*")]

    def contents(self, folder: str, names: Sequence[str]) -> list[bytes | None]:
        """The contents of files in a folder."""

        def content(name: str) -> bytes | None:
            try:
                return (self._checkpoint / folder / name).read_bytes()
            except FileNotFoundError:
                return None

        return list(map(content, names))
