"""What a checkpoint's files stand on: the contract of a store, one folder of it, whatever file system it is on.

With it what all stores say in one way: where one is, and that a file system has failed.

Must not know: which stores there are, what the files hold.

What is promised rests on these words and on nothing else of a file system; docs/stores.md says for each store why it
keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from onceflow.errors import CheckpointStoreError, ConfigurationError

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


def content_of(store: Store, name: str) -> bytes | None:
    """A file's content; None where it is not there."""
    try:
        return store.read(name)
    except FileNotFoundError:
        return None


def uri_at(text: str, form: re.Pattern[str], scheme: str, told: str, example: str) -> str:
    """The one URI of a checkpoint, of a text that begins with a scheme.

    Args:
        text: The location as it is given.
        form: What it must be, with two groups: host, and path.
        scheme: The URI's.
        told: The form in words.
        example: A location of this form.

    Raises:
        ConfigurationError: It has not that form.
    """
    found = form.fullmatch(text)
    parts = found[2].split("/") if found else []
    if found is None or {".", ".."} & set(parts):
        raise ConfigurationError(
            f"the checkpoint {text!r} is refused",
            cause=told,
            action=f'write for example Checkpointing("{example}")',
            checkpoint=text,
        )
    return f"{scheme}://{found[1]}/{'/'.join(filter(None, parts))}"


_NUMBER = re.compile("0|[1-9][0-9]*")


def numbers(names: Iterable[str]) -> list[int]:
    """Those names that are a number, as Spark writes it: by it the file is found again."""
    return [int(name) for name in names if _NUMBER.fullmatch(name)]


def failed(path: Where, doing: str, said: object, *, cause: str, mend: str) -> CheckpointStoreError:
    """The error of a file system that fails.

    Args:
        path: The file, or the folder.
        doing: What could not be done to it.
        said: What the file system says.
        cause: What may be behind it.
        mend: What is to be mended.
    """
    return CheckpointStoreError(
        f"could not {doing} {path}: {said}",
        harmless="for the data: what is decided stays decided, and nothing else was",
        cause=cause,
        action=f"mend {mend} and start the job again; the checkpoint is as it was",
        file=str(path),
    )
