"""HDFS: each promise of the port from what one NameNode and its DataNodes give.

Must not know: Java, Spark, what the files hold. Whoever reaches HDFS derives from this.

All of it rests on two things (docs/stores.md): a rename without overwriting is one step under the NameNode's lock, so
of two that give one name exactly one succeeds; and the NameNode has one log, in order, and answers a change when it is
durable up to there. ``create(overwrite=false)`` would not do: it takes the name while the file is still empty, and who
stalls then leaves a record that nobody can read.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, Self, TypeVar

from onceflow.storage.files import FILE_MANAGER, FILE_MANAGERS, LEFT_AFTER_S, TEMPORARY, FileSystem, How, Where

R = TypeVar("R")


class Hdfs(FileSystem, Protocol):
    """One NameNode's, or one name service's. What is written is on the DataNodes' disks when it is closed.

    Attributes:
        not_appendable: The files of which an append has failed.
    """

    has_folders: bool = True
    at_once: int = 8
    cause: str = (
        "the NameNode does not answer or is in safe mode, a DataNode is gone or full, or this user may not write there"
    )
    mend: str = "HDFS"
    # Of two drivers that plan one epoch, one fails.
    spark: Mapping[str, str] = MappingProxyType({FILE_MANAGER: FILE_MANAGERS + "FileContextBasedCheckpointFileManager"})
    spark_is_apart: bool = False
    not_appendable: set[str]

    # -- how it is reached: each call is one change or one look

    def _make_folder(self, folder: Where) -> None:
        """Make a folder and those above it."""

    def _make_file(self, path: Where, data: bytes, *, sync: bool) -> int:
        """Make a file, with ``sync`` on the DataNodes' disks; the number that HDFS gives it, and no other file ever."""

    def _add(self, path: Where, data: bytes) -> None:
        """Add to the end of a file, or make it; on the DataNodes' disks."""

    def _name(self, path: Where, to: Where, *, over: bool) -> None:
        """Give a file another name; with ``over`` in the place of what has it, else only where nothing has."""

    def _number(self, path: Where) -> int:
        """A file's number."""

    def _changed_at(self, path: Where) -> float:
        """When a file was changed, in seconds."""

    def _uris(self, folder: Where) -> list[str]:
        """The URIs of all files in a folder and below it."""

    def _summary(self, path: Where) -> tuple[int, int]:
        """How many files a file or folder is, and of how many bytes."""

    def _copy_files(self, pairs: Sequence[tuple[Where, Where]]) -> None:
        """Copy files to new ones, several at a time; on the DataNodes' disks."""

    def _delete(self, path: Where, *, whole: bool) -> None:
        """Remove a file or an empty folder, or a folder with all that is in it; nothing where none is."""

    def _note(self, folder: Where) -> None:
        """Change a folder's time: a change of the NameNode's log that changes nothing else."""

    # -- what it promises

    def make(self, folder: Where) -> None:
        """Make a folder, and clear it."""
        self._make_folder(folder)
        for name in self.names(folder):
            if name.startswith(TEMPORARY):
                self._clear(f"{folder}/{name}")

    def _clear(self, path: str) -> None:
        with contextlib.suppress(OSError):  # another start does the same
            if time.time() - self._changed_at(path) > LEFT_AFTER_S:
                self._delete(path, whole=False)

    def put(self, path: Where, data: bytes, *, over: bool, durable: bool = True, maker: str = "") -> None:
        """Write it beside, and give it its name; not durable, it is left to the DataNodes when they write it."""
        folder, _, name = str(path).rpartition("/")
        temporary = f"{folder}/{TEMPORARY}{name}-{uuid.uuid4().hex}"
        placed = False
        try:
            number = self._make_file(temporary, data, sync=durable)
            try:
                self._name(temporary, path, over=over)
            except OSError:
                # The rename may have been done and its answer lost, or a second try of it have found the first one's
                # work. The number, which no other file ever has, tells; and what is seen is durable behind a change.
                if _where_one_is(self._number, path, None) != number:
                    raise
                self._note(folder)
            placed = True
        finally:
            if not placed:  # a rename that is still on its way must find nothing
                with contextlib.suppress(OSError):
                    self._delete(temporary, whole=False)

    def append(self, path: Where, data: bytes) -> None:
        """HDFS lets one writer at a time append, and holds a file of one that died for another minute or longer.

        Where an append has failed, the next one writes the file anew: nobody holds that.
        """
        if str(path) in self.not_appendable:
            with contextlib.suppress(FileNotFoundError):
                data = self.read(path) + b"\n" + data
            self.put(path, data, over=True)
            self.not_appendable.discard(str(path))
            return
        try:
            self._add(path, data)
        except OSError:
            self.not_appendable.add(str(path))
            raise

    def write(self, path: Where, data: bytes) -> None:
        """On the DataNodes' disks."""
        self._make_folder(str(path).rpartition("/")[0])
        self._make_file(path, data, sync=True)

    def files(self, folder: Where) -> list[str]:
        above = _path_of(str(folder))  # a NameNode may write itself in another way
        none: list[str] = []
        return [_path_of(uri).removeprefix(f"{above}/") for uri in _where_one_is(self._uris, folder, none)]

    def size(self, path: Where) -> tuple[int, int]:
        """As the NameNode knows it."""
        return _where_one_is(self._summary, path, (0, 0))

    def is_file(self, path: Where) -> bool:
        """Whether it is there, or a folder is."""
        try:
            return self.exists(path)
        except NotADirectoryError:
            return False

    def is_taken(self, path: Where) -> bool:
        return self.exists(path)

    def copy(self, of: Self, pairs: Sequence[tuple[Where, Where]], how: How) -> None:
        """Without coming through Python."""
        for folder in sorted({str(to).rpartition("/")[0] for _, to in pairs}):
            self._make_folder(folder)
        self._copy_files(pairs)

    def rename(self, path: Where, to: Where) -> None:
        self._name(path, to, over=True)

    def move(self, folder: Where, to: Where) -> Where | None:
        """The folder's number tells whose the name is where the answer is lost."""
        number = self._number(folder)
        self.remove_empty([to])
        try:
            self._name(folder, to, over=False)
        except OSError:
            if not self.is_taken(to) or self._number(to) != number:
                raise
            self._note(to)  # what is seen is durable behind a change
        return None

    def remove(self, paths: Iterable[Where], within: Where | None = None) -> None:
        for path in paths:
            self._delete(path, whole=False)

    def remove_empty(self, folders: Iterable[Where], within: Where | None = None) -> None:
        for folder in folders:
            with contextlib.suppress(OSError):
                self._delete(folder, whole=False)

    def remove_all(self, paths: Sequence[Where], but: Where | None = None) -> None:
        for path in paths:
            self._delete(path, whole=True)

    def sync(self, folder: Where, name: str = "") -> None:
        """For entries one more change of the NameNode's log, which it answers in order.

        A file's bytes are where its writer has brought them: ours are on the DataNodes' disks before they have a name,
        and Spark's in as many DataNodes as ``dfs.replication`` says.
        """
        if not name:
            self._note(folder)


def _where_one_is(look: Callable[[Where], R], path: Where, else_: R) -> R:
    try:
        return look(path)
    except FileNotFoundError:
        return else_


def _path_of(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[2]
