"""One folder, as the journal and all that is kept beside it write there: whatever file system it is on.

Must not know: which file system it is, what the files hold.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from onceflow.storage.files import TEMPORARY, FileSystem, Where, at_once, translating, within
from onceflow.storage.locations import not_here
from onceflow.storage.posix import POSIX


class Store:
    """One. A file that exists under its name is whole; a name holds no slash.

    Every method raises ``CheckpointStoreError``, which names the file, where the file system fails.

    Args:
        folder: The folder.
        fs: What it is on.
    """

    def __init__(self, folder: Where, fs: FileSystem = POSIX) -> None:
        self.folder = folder
        self.fs = fs

    def below(self, name: str) -> Self:
        """A folder in this one; nothing is made."""
        return type(self)(within(self.folder, name), self.fs)

    def path(self, name: str = "") -> Where:
        """Where the file, or the folder itself, is: for messages."""
        return within(self.folder, name)

    def _translating(
        self, doing: str, name: str = "", passing: type[OSError] | tuple[type[OSError], ...] = ()
    ) -> AbstractContextManager[None]:
        return translating(self.fs, self.path(name), doing, passing)

    def make(self) -> None:
        """Make the folder and those above it, durable; clear away what writers left that died long ago.

        Raises:
            ConfigurationError: What is promised here is not kept there.
        """
        with self._translating("create the folder"):
            self.fs.make(self.folder)

    @contextlib.contextmanager
    def untouched(self) -> Iterator[None]:
        """What is made inside of this folder, and of those above it, is taken away again where it is empty."""
        with self._translating("look for the folder"):
            missing = self._missing()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # somebody has begun a job there meanwhile
                self.fs.remove_empty(missing)

    def _missing(self) -> list[Where]:
        """Of this folder and those above it those that are not there, the innermost first."""
        missing: list[Where] = []
        for folder in _upwards(self.folder) if self.fs.has_folders else ():
            if self.fs.is_taken(folder):
                break
            missing.append(folder)
        return missing

    def exists(self) -> bool:
        """Whether the folder is there; in an object store, whether anything is in it."""
        with self._translating("look for the folder"):
            return self.fs.exists(self.folder)

    def create(self, name: str, data: bytes, maker: str = "") -> None:
        """Create the file, whole and durable: of those that create one name exactly one returns.

        Args:
            name: The file's.
            data: Its content.
            maker: Who makes the folder that the file completes, where there are no folders.

        Raises:
            FileExistsError: The name is taken.
            CheckpointStoreError: The file system failed; the file may exist or not, now or later.
        """
        with self._translating("create the file", name, FileExistsError):
            self.fs.put(self.path(name), data, over=False, maker=maker)

    def maker(self, name: str) -> str | None:
        """Who has made the folder that a file completes, "" where it does not say; None where there is none."""
        with self._translating("read the file", name):
            return self.fs.maker(self.path(name))

    def replace(self, name: str, data: bytes) -> None:
        """Write the file, durable, whether it exists or not; a reader sees the old content or the new, never a part."""
        with self._translating("replace the file", name):
            self.fs.put(self.path(name), data, over=True)

    def put(self, name: str, data: bytes) -> None:
        """As ``replace``, and perhaps not durable: for what a power cut may take."""
        with self._translating("write the file", name):
            self.fs.put(self.path(name), data, over=True, durable=False)

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file, or make it. For what may be lost until ``sync``, and where a torn end is seen."""
        with self._translating("write the file", name):
            self.fs.append(self.path(name), data)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, of which there may be one already; perhaps not durable, and not in one step."""
        with self._translating("rename the file", name):
            self.fs.rename(self.path(name), self.path(to))

    def read(self, name: str) -> bytes:
        """The file's content.

        Raises:
            FileNotFoundError: There is none.
        """
        with self._translating("read the file", name, FileNotFoundError):
            return self.fs.read(self.path(name))

    def contents(self, names: Sequence[str]) -> list[bytes | None]:
        """The files' contents, in the order of the names; None for one that is not there."""
        return at_once(self.fs.at_once, functools.partial(content_of, self), names, wait=False)

    def names(self) -> list[str]:
        """Names of files and folders, without files being written; empty when there is no folder."""
        with self._translating("list the folder"):
            try:
                return [name for name in self.fs.names(self.folder) if not name.startswith(TEMPORARY)]
            except FileNotFoundError:
                if self.fs.has_folders:
                    return []
                raise  # the bucket is gone

    def count(self, pattern: str) -> int:
        """How many files have a path below the folder that fits a pattern, in which ``*`` is one part of it."""
        with self._translating("list the folder"):
            return self.fs.count(self.folder, pattern)

    def remove(self, name: str) -> None:
        """Remove the file if it exists."""
        with self._translating("remove the file", name):
            self.fs.remove([self.path(name)])

    def sync(self, name: str | None = None) -> None:
        """Make a file that somebody else wrote, or the folder's entries, durable. A missing one is passed over."""
        with self._translating("sync"), contextlib.suppress(FileNotFoundError):
            self.fs.sync(self.folder, name or "")


def _upwards(folder: Where) -> Iterator[Where]:
    """A folder and those above it."""
    if isinstance(folder, Path):
        yield from (folder, *folder.parents)
        return
    while folder.count("/") > 2:
        yield folder
        folder = folder.rpartition("/")[0]


def content_of(store: Store, name: str) -> bytes | None:
    """A file's content; None where it is not there."""
    try:
        return store.read(name)
    except FileNotFoundError:
        return None


def local_folder(store: Store) -> Path:
    """The folder of a store on a POSIX file system, for what works on files by itself.

    Raises:
        ConfigurationError: It is another store.
    """
    if isinstance(store.folder, Path):
        return store.folder
    raise not_here(str(store.folder))
