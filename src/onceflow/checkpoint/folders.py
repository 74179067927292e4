"""A folder with all that is below it, as one thing: copied, compared, put in its place in one step, taken away.

Must not know: what the files hold, who runs the job.

What a savepoint, a checkpoint made of one, and a deletion need of a file system beyond one folder's store. Files of a
checkpoint are never written in place, so on POSIX a second name (a hard link) is as good as a copy. HDFS has no links:
there each file is copied, by Java and without coming through Python.

Every method raises ``OSError``, and ``FileNotFoundError`` for what is not there; whoever calls says what it means.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from onceflow.checkpoint.contract import Store, Where
from onceflow.checkpoint.hdfs import Files, HdfsStore
from onceflow.checkpoint.store import LocalStore, not_here
from onceflow.errors import ConfigurationError

Held = tuple[int, str]
"""A file's size and its SHA-256."""


class Folder(Protocol):
    """One. Paths are those in it, with slashes."""

    @property
    def where(self) -> Where:
        """Where it is."""

    @property
    def store(self) -> Store:
        """The folder itself, as a store."""

    def below(self, path: str) -> Folder:
        """One in this one; nothing is made."""

    def beside(self, before: str, behind: str) -> Folder:
        """One beside this one, of its name between two texts; nothing is made."""

    def is_taken(self) -> bool:
        """Whether anything has its name."""

    def names(self, path: str = "") -> list[str]:
        """What is in a folder; nothing where there is none."""

    def files(self) -> list[str]:
        """The paths of all files; none where the folder is not there."""

    def size(self, path: str) -> tuple[int, int]:
        """How many files a file or folder is, and of how many bytes; none where it is not there."""

    def has(self, path: str) -> bool:
        """Whether the file is there."""

    def read(self, path: str, most: int = -1) -> bytes:
        """A file's content, or its first bytes."""

    def write(self, path: str, data: bytes) -> None:
        """Make a file, and the folders above it; durable behind ``sync``."""

    def take(self, of: Folder, paths: Sequence[str]) -> None:
        """Have files of another folder as well, under the same paths: by a second name where that can be."""

    def copy(self, of: Folder, paths: Sequence[str]) -> None:
        """Copy files of another folder, so that nothing is shared."""

    def held(self, paths: Sequence[str]) -> Mapping[str, Held]:
        """The files' sizes and digests, as they are read now."""

    def sync(self) -> None:
        """Make all of it durable."""

    def become(self, to: Folder) -> None:
        """Get another's name, in one step and only where nothing, or nothing but an empty folder, has it; durable."""

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; those that are not there are passed over."""

    def remove_empty(self, paths: Iterable[str]) -> None:
        """Remove folders in which nothing is, in this order; "" is the folder itself. Others stay."""

    def remove_all(self, path: str = "") -> None:
        """Remove a file, or a folder with all that is in it; nothing where none is."""


class LocalFolder:
    """One on a POSIX file system.

    Args:
        path: It.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def where(self) -> Path:
        """Where it is."""
        return self.path

    @property
    def store(self) -> LocalStore:
        """The folder itself, as a store."""
        return LocalStore(self.path)

    def below(self, path: str) -> LocalFolder:
        """One in this one."""
        return LocalFolder(self.path / path)

    def beside(self, before: str, behind: str) -> LocalFolder:
        """One beside this one, of its name between two texts."""
        return LocalFolder(self.path.with_name(f"{before}{self.path.name}{behind}"))

    def is_taken(self) -> bool:
        """Whether anything has its name."""
        return self.path.exists() or self.path.is_symlink()

    def names(self, path: str = "") -> list[str]:
        """What is in a folder."""
        folder = self.path / path
        return [each.name for each in folder.iterdir()] if folder.is_dir() else []

    def files(self) -> list[str]:
        """The paths of all files."""
        return [
            str(Path(folder, name).relative_to(self.path)) for folder, _, names in os.walk(self.path) for name in names
        ]

    def size(self, path: str) -> tuple[int, int]:
        """How many files a file or folder is, and of how many bytes."""
        top = self.path / path
        sizes = [each.stat().st_size for each in (top, *top.rglob("*")) if each.is_file()]
        return len(sizes), sum(sizes)

    def has(self, path: str) -> bool:
        """Whether the file is there."""
        return (self.path / path).is_file()

    def read(self, path: str, most: int = -1) -> bytes:
        """A file's content, or its first bytes."""
        with (self.path / path).open("rb") as file:
            return file.read(most)

    def write(self, path: str, data: bytes) -> None:
        """Make a file, and the folders above it."""
        (self.path / path).parent.mkdir(parents=True, exist_ok=True)
        (self.path / path).write_bytes(data)

    def link(self, of: Folder, paths: Iterable[str]) -> None:
        """Give another folder's files a second name each; never a copy."""
        source = self._same(of)
        for path in paths:
            (self.path / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(source.path / path, self.path / path)

    def take(self, of: Folder, paths: Sequence[str]) -> None:
        """A second name for each file, or a copy where its file system is another one, or knows no links."""
        source = self._same(of)
        for path in paths:
            try:
                self.link(source, [path])
            except FileNotFoundError:
                raise
            except OSError:
                shutil.copyfile(source.path / path, self.path / path)

    def copy(self, of: Folder, paths: Sequence[str]) -> None:
        """Copy files of another folder."""
        source = self._same(of)
        for path in paths:
            (self.path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path / path, self.path / path)

    def _same(self, of: Folder) -> LocalFolder:
        if not isinstance(of, LocalFolder):
            raise refused_between(of, self)
        return of

    def held(self, paths: Sequence[str]) -> Mapping[str, Held]:
        """The files' sizes and digests."""

        def one(path: str) -> Held:
            with (self.path / path).open("rb") as file:
                return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()

        return {path: one(path) for path in paths}

    def sync(self) -> None:
        """Make all of it durable."""
        for folder, _, names in os.walk(self.path):
            store = LocalStore(Path(folder))
            for name in names:
                store.sync(name)
            store.sync()

    def become(self, to: Folder) -> None:
        """Get another's name, over nothing or an empty folder."""
        self.path.rename(self._same(to).path)
        LocalStore(self._same(to).path.parent).sync()

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files."""
        for path in paths:
            (self.path / path).unlink(missing_ok=True)

    def remove_empty(self, paths: Iterable[str]) -> None:
        """Remove folders in which nothing is."""
        for path in paths:
            with contextlib.suppress(OSError):
                (self.path / path).rmdir()

    def remove_all(self, path: str = "") -> None:
        """Remove a file, or a folder with all that is in it."""
        top = self.path / path
        if top.is_dir():
            shutil.rmtree(top)
        else:
            top.unlink(missing_ok=True)


class HdfsFolder:
    """One on HDFS. What is written is on the DataNodes' disks when it is closed, and the NameNode's log is in order.

    Args:
        files: The way to HDFS.
        uri: The folder's.
    """

    def __init__(self, files: Files, uri: str) -> None:
        self._hdfs = files
        self.uri = uri

    @property
    def where(self) -> str:
        """Where it is."""
        return self.uri

    @property
    def store(self) -> HdfsStore:
        """The folder itself, as a store."""
        return HdfsStore(self._hdfs, self.uri)

    def _at(self, path: str) -> str:
        return f"{self.uri}/{path}" if path else self.uri

    def below(self, path: str) -> HdfsFolder:
        """One in this one."""
        return HdfsFolder(self._hdfs, self._at(path))

    def beside(self, before: str, behind: str) -> HdfsFolder:
        """One beside this one, of its name between two texts."""
        above, _, name = self.uri.rpartition("/")
        return HdfsFolder(self._hdfs, f"{above}/{before}{name}{behind}")

    def is_taken(self) -> bool:
        """Whether anything has its name."""
        return self._hdfs.exists(self.uri)

    def names(self, path: str = "") -> list[str]:
        """What is in a folder."""
        try:
            return self._hdfs.names(self._at(path))
        except FileNotFoundError:
            return []

    def files(self) -> list[str]:
        """The paths of all files."""
        try:
            found = self._hdfs.all_files(self.uri)
        except FileNotFoundError:
            return []
        above = self.uri.partition("://")[2].partition("/")[2]  # a NameNode may write itself in another way
        return [path.partition("://")[2].partition("/")[2].removeprefix(f"{above}/") for path in found]

    def size(self, path: str) -> tuple[int, int]:
        """How many files a file or folder is, and of how many bytes."""
        try:
            return self._hdfs.size(self._at(path))
        except FileNotFoundError:
            return 0, 0

    def has(self, path: str) -> bool:
        """Whether the file is there."""
        try:
            return self._hdfs.exists(self._at(path))
        except NotADirectoryError:
            return False

    def read(self, path: str, most: int = -1) -> bytes:
        """A file's content, or its first bytes."""
        return self._hdfs.read(self._at(path), most)

    def write(self, path: str, data: bytes) -> None:
        """Make a file, and the folders above it."""
        self._hdfs.make(self._at(path.rpartition("/")[0]))
        self._hdfs.write(self._at(path), data, sync=True)

    def take(self, of: Folder, paths: Sequence[str]) -> None:
        """Copy them: HDFS has no second names."""
        self.copy(of, paths)

    def copy(self, of: Folder, paths: Sequence[str]) -> None:
        """Copy files of another folder, several at a time."""
        source = self._same(of)
        for folder in sorted({path.rpartition("/")[0] for path in paths}):
            self._hdfs.make(self._at(folder))
        self._hdfs.copy([(source.below(path).uri, self._at(path)) for path in paths])

    def _same(self, of: Folder) -> HdfsFolder:
        if not isinstance(of, HdfsFolder):
            raise refused_between(of, self)
        return of

    def held(self, paths: Sequence[str]) -> Mapping[str, Held]:
        """The files' sizes and digests."""
        return dict(zip(paths, self._hdfs.digests([self._at(path) for path in paths]), strict=True))

    def sync(self) -> None:
        """Nothing is left to be done: what was written is on disks, and a name is durable with those behind it."""

    def become(self, to: Folder) -> None:
        """Get another's name, where nothing has it. The folder's number tells whose it is where the answer is lost."""
        number = self._hdfs.number(self.uri)
        target = self._same(to)
        target.remove_empty([""])
        try:
            self._hdfs.rename(self.uri, target.uri, over=False)
        except OSError:
            if not target.is_taken() or self._hdfs.number(target.uri) != number:
                raise
            self._hdfs.note(target.uri)  # what is seen is durable behind a change

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files."""
        for path in paths:
            self._hdfs.remove(self._at(path))

    def remove_empty(self, paths: Iterable[str]) -> None:
        """Remove folders in which nothing is."""
        for path in paths:
            with contextlib.suppress(OSError):
                self._hdfs.remove(self._at(path))

    def remove_all(self, path: str = "") -> None:
        """Remove a file, or a folder with all that is in it."""
        self._hdfs.remove_all(self._at(path))


def folder_of(store: Store) -> Folder:
    """The folder of a store.

    Raises:
        ConfigurationError: It is one of objects, which nothing puts in place in one step.
    """
    if isinstance(store, HdfsStore):
        return HdfsFolder(store.files, str(store.path()))
    if isinstance(store, LocalStore):
        return LocalFolder(store.folder)
    raise not_here(str(store.path()))


def refused_between(of: Folder, to: Folder) -> ConfigurationError:
    """The refusal of a copy from one kind of file system to the other."""
    return ConfigurationError(
        f"{of.where} and {to.where} are on two kinds of file system",
        harmless="always: nothing was made",
        cause="a savepoint of a checkpoint on HDFS is on HDFS, and goes back to HDFS; one on a POSIX file system stays "
        "on such. Nothing here copies from the one to the other",
        action="name a folder on the same file system. To take a savepoint elsewhere copy its whole folder "
        "(hadoop fs -get, -put): onceflow savepoint verify tells whether the copy is whole",
    )
