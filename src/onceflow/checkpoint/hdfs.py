"""A store on HDFS: each promise of the contract from what one NameNode and its DataNodes give.

Must not know: Java, Spark, what the files hold. Whoever reaches HDFS is handed in.

All of it rests on two things (docs/stores.md): a rename without overwriting is one step under the NameNode's lock, so
of two that give one name exactly one succeeds; and the NameNode has one log, in order, and answers a change when it is
durable up to there. ``create(overwrite=false)`` would not do: it takes the name while the file is still empty, and who
stalls then leaves a record that nobody can read.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Protocol

from onceflow.checkpoint.contract import failed, uri_at

_TEMPORARY = ".tmp-"
_LEFT_AFTER_S = 3600.0  # as in the local store: a write takes milliseconds
_LOCATION = re.compile(r"hdfs:/", re.IGNORECASE)
_FORM = re.compile(r"hdfs://([A-Za-z0-9._-]+(?::[0-9]+)?)((?:/+[A-Za-z0-9._~@+=,-]+)+)/*", re.IGNORECASE)


class Files(Protocol):
    """How HDFS is reached: each call is one change or one look.

    Raises ``FileNotFoundError`` and ``FileExistsError`` for what they say, and ``OSError`` for all else.
    """

    def make(self, folder: str) -> None:
        """Make a folder and those above it."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        ...

    def write(self, path: str, data: bytes, *, sync: bool) -> int:
        """Make a file, with ``sync`` on the DataNodes' disks; the number that HDFS gives it, and no other file ever."""
        ...

    def append(self, path: str, data: bytes) -> None:
        """Add to the end of a file, or make it; on the DataNodes' disks."""
        ...

    def rename(self, path: str, to: str, *, over: bool) -> None:
        """Give a file another name; with ``over`` in the place of what has it, else only where nothing has."""
        ...

    def number(self, path: str) -> int:
        """A file's number."""
        ...

    def changed_at(self, path: str) -> float:
        """When a file was changed, in seconds."""
        ...

    def read(self, path: str, most: int = -1) -> bytes:
        """A file's content, or its first bytes."""
        ...

    def contents(self, paths: Sequence[str]) -> list[bytes | None]:
        """The contents of files, several at a time; None for one that is not there."""
        ...

    def names(self, folder: str) -> list[str]:
        """What is in a folder."""
        ...

    def count(self, pattern: str) -> int:
        """How many paths fit a pattern."""
        ...

    def all_files(self, folder: str) -> list[str]:
        """The URIs of all files in a folder and below it."""
        ...

    def size(self, path: str) -> tuple[int, int]:
        """How many files a file or folder is, and of how many bytes."""
        ...

    def copy(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Copy files to new ones, several at a time; on the DataNodes' disks."""
        ...

    def digests(self, paths: Sequence[str]) -> list[tuple[int, str]]:
        """The sizes of files and their SHA-256, several at a time."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder; nothing where none is."""
        ...

    def remove_all(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing where none is."""
        ...

    def note(self, folder: str) -> None:
        """Change a folder's time: a change of the NameNode's log that changes nothing else."""
        ...


def hdfs_uri(location: str | os.PathLike[str]) -> str | None:
    """The one URI of a checkpoint on HDFS; None for a location that is none.

    Raises:
        ConfigurationError: It begins as one, and names no folder there in the one form that is taken.
    """
    text = os.fspath(location)
    if not _LOCATION.match(text):
        return None
    told = (
        "on HDFS a checkpoint is hdfs://NAMENODE:PORT/FOLDER, or with the name of a name service in their place. Which "
        "NameNode must be said: without it, it would be a setting of the cluster's. A name in the path has letters, "
        "digits and . _ ~ @ + = , - alone"
    )
    return uri_at(text, _FORM, "hdfs", told, "hdfs://nn:8020/checkpoints/alerts")


class HdfsStore:
    """One folder on HDFS, as the contract has it.

    Args:
        files: The way to HDFS.
        folder: The folder's URI.
    """

    def __init__(self, files: Files, folder: str) -> None:
        self.files = files
        self._folder = folder
        self._not_appendable: set[str] = set()

    def make(self) -> None:
        """Make the folder and those above it; clear away what writers left that died long ago."""
        with _explained(self._folder, "create the folder"):
            self.files.make(self._folder)
            for name in self.files.names(self._folder):
                if name.startswith(_TEMPORARY):
                    self._clear(self.path(name))

    def _clear(self, path: str) -> None:
        with contextlib.suppress(OSError):  # another start does the same
            if time.time() - self.files.changed_at(path) > _LEFT_AFTER_S:
                self.files.remove(path)

    @contextlib.contextmanager
    def untouched(self) -> Iterator[None]:
        """What is made inside of this folder, and of those above it, is taken away again where it is empty."""
        made, folder = [], self._folder
        with _explained(self._folder, "look for the folder"):
            while folder.count("/") > 2 and not self.files.exists(folder):
                made.append(folder)
                folder = folder.rpartition("/")[0]
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # somebody has begun a job there meanwhile
                for folder in made:
                    self.files.remove(folder)

    def exists(self) -> bool:
        """Whether the folder is there."""
        with _explained(self._folder, "look for the folder"):
            return self.files.exists(self._folder)

    def below(self, name: str) -> HdfsStore:
        """A folder in this one; nothing is made."""
        return HdfsStore(self.files, self.path(name))

    def path(self, name: str = "") -> str:
        """The file's URI, or the folder's own."""
        return f"{self._folder}/{name}" if name else self._folder

    def create(self, name: str, data: bytes) -> None:
        """Create the file, whole and durable: of those that create one name exactly one returns.

        Raises:
            FileExistsError: The name is taken.
            CheckpointStoreError: HDFS failed; the file may exist or not, now or later.
        """
        with _explained(self.path(name), "create the file", passing=FileExistsError):
            self._place(name, data, over=False, sync=True)

    def replace(self, name: str, data: bytes) -> None:
        """Write the file, durable, whether it exists or not; a reader sees the old content or the new, never a part."""
        with _explained(self.path(name), "replace the file"):
            self._place(name, data, over=True, sync=True)

    def put(self, name: str, data: bytes) -> None:
        """As ``replace``, and left to the DataNodes when they write it to their disks."""
        with _explained(self.path(name), "write the file"):
            self._place(name, data, over=True, sync=False)

    def _place(self, name: str, data: bytes, *, over: bool, sync: bool) -> None:
        path, temporary = self.path(name), self.path(f"{_TEMPORARY}{name}-{uuid.uuid4().hex}")
        placed = False
        try:
            number = self.files.write(temporary, data, sync=sync)
            try:
                self.files.rename(temporary, path, over=over)
            except OSError:
                # The rename may have been done and its answer lost, or a second try of it have found the first one's
                # work. The number, which no other file ever has, tells; and what is seen is durable behind a change.
                if self._number_at(path) != number:
                    raise
                self.files.note(self._folder)
            placed = True
        finally:
            if not placed:  # a rename that is still on its way must find nothing
                with contextlib.suppress(OSError):
                    self.files.remove(temporary)

    def _number_at(self, path: str) -> int | None:
        try:
            return self.files.number(path)
        except FileNotFoundError:
            return None

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file, or make it.

        HDFS lets one writer at a time append, and holds a file of one that died for another minute or longer. Where an
        append has failed, the next one writes the file anew: nobody holds that.
        """
        path = self.path(name)
        with _explained(path, "write the file"):
            if name in self._not_appendable:
                with contextlib.suppress(FileNotFoundError):
                    data = self.files.read(path) + b"\n" + data
                self._place(name, data, over=True, sync=True)
                self._not_appendable.discard(name)
                return
            try:
                self.files.append(path, data)
            except OSError:
                self._not_appendable.add(name)
                raise

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, of which there may be one already."""
        with _explained(self.path(name), "rename the file"):
            self.files.rename(self.path(name), self.path(to), over=True)

    def read(self, name: str) -> bytes:
        """The file's content.

        Raises:
            FileNotFoundError: There is none.
            CheckpointStoreError: It cannot be read.
        """
        with _explained(self.path(name), "read the file", passing=FileNotFoundError):
            return self.files.read(self.path(name))

    def contents(self, names: Sequence[str]) -> list[bytes | None]:
        """The files' contents, in the order of the names; None for one that is not there."""
        with _explained(self._folder, "read files of"):
            return self.files.contents([self.path(name) for name in names])

    def names(self) -> list[str]:
        """Names of files and folders, without files being written; empty when there is no folder."""
        with _explained(self._folder, "list the folder"):
            try:
                return [name for name in self.files.names(self._folder) if not name.startswith(_TEMPORARY)]
            except FileNotFoundError:
                return []

    def count(self, pattern: str) -> int:
        """How many files have a path below the folder that fits a pattern, in which ``*`` is one part of it."""
        with _explained(self._folder, "list the folder"):
            return self.files.count(self.path(pattern))

    def remove(self, name: str) -> None:
        """Remove the file if it exists."""
        with _explained(self.path(name), "remove the file"):
            self.files.remove(self.path(name))

    def sync(self, name: str | None = None) -> None:
        """Make the folder's entries durable: one more change of the NameNode's log, which it answers in order.

        A file's bytes are where its writer has brought them: ours are on the DataNodes' disks before they have a name,
        and Spark's in as many DataNodes as ``dfs.replication`` says.
        """
        if name is None:
            with _explained(self._folder, "sync"), contextlib.suppress(FileNotFoundError):
                self.files.note(self._folder)


@contextlib.contextmanager
def _explained(path: str, doing: str, passing: type[OSError] | tuple[type[OSError], ...] = ()) -> Iterator[None]:
    try:
        yield
    except passing:
        raise
    except OSError as error:
        cause = (
            "the NameNode does not answer or is in safe mode, a DataNode is gone or full, or this user may not write "
            "there"
        )
        raise failed(path, doing, error, cause=cause, mend="HDFS") from error
