"""A folder with all that is below it, as one thing: made whole or not at all, copied, compared, taken away.

Must not know: what the files hold, who runs the job.

What a savepoint, a checkpoint made of one, and a deletion need of a file system beyond one folder's store. Files of a
checkpoint are never written in place, so on POSIX a second name (a hard link) is as good as a copy. HDFS has no links:
there each file is copied, by Java and without coming through Python. On both it is made beside its place and renamed.
An object store has neither: `object_folders`. From one kind to another files come through Python, each as a whole.

Every method raises ``OSError``, and ``FileNotFoundError`` for what is not there; whoever calls says what it means.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar

from onceflow.checkpoint.contract import Store, Where
from onceflow.checkpoint.hdfs import Files, HdfsStore
from onceflow.checkpoint.store import LocalStore

T = TypeVar("T")
R = TypeVar("R")

_CARRIED_AT_ONCE = 4
"""So many whole files are in memory."""

UNFINISHED = ".unfinished-"
"""How the name of a folder begins that is put together beside its place."""

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

    def making(self, last: str, parts: Sequence[str]) -> AbstractContextManager[Draft]:
        """Make it, whole or not at all, and only where nothing, or nothing but an empty folder, is.

        Of what was not finished nothing is left behind, as far as that can be done.

        Args:
            last: The file without which nobody takes the folder for what it is.
            parts: Names of all that is put there besides.

        Raises:
            FileExistsError: Something is there, or somebody else makes it.
        """

    def unfinished(self, last: str) -> str:
        """Who makes it and has not finished, perhaps because he is dead, in words; "" where nobody."""

    def discard(self, last: str, parts: Sequence[str]) -> None:
        """Remove what one has left who has not finished. If he lives, he is told so.

        Raises:
            FileExistsError: He has finished at this moment; it is whole, and stays.
        """

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; those that are not there are passed over."""

    def remove_empty(self, paths: Iterable[str]) -> None:
        """Remove folders in which nothing is, in this order; "" is the folder itself. Others stay."""

    def remove_all(self, path: str = "") -> None:
        """Remove a file, or a folder with all that is in it; nothing where none is."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A folder that is being made.

    Attributes:
        folder: Where its files are put.
        finish: Writes the last file, and makes all of it the folder, durable. Raises ``FileExistsError`` where somebody
            else has come there meanwhile.
    """

    folder: Folder
    finish: Callable[[bytes], None]


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
        """The paths of all files, and of links to folders: what they lead to is not in this one."""
        found: list[Path] = []
        for folder, folders, names in os.walk(self.path):
            found += (Path(folder, name) for name in names)
            found += (path for name in folders if (path := Path(folder, name)).is_symlink())
        return [str(path.relative_to(self.path)) for path in found]

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

    def link(self, of: LocalFolder, paths: Iterable[str]) -> None:
        """Give another folder's files a second name each; never a copy."""
        for path in paths:
            (self.path / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(of.path / path, self.path / path)

    def take(self, of: Folder, paths: Sequence[str]) -> None:
        """A second name for each file, or a copy where its file system is another one, or knows no links.

        Also where the file is another user's, who could change it later by the name that he has.
        """
        if not isinstance(of, LocalFolder):
            carry(of, self, paths)
            return
        for path in paths:
            about = (of.path / path).lstat()
            if about.st_uid == os.geteuid() and stat.S_ISREG(about.st_mode):
                try:
                    self.link(of, [path])
                    continue
                except FileNotFoundError:
                    raise
                except OSError:
                    pass
            self.copy(of, [path])

    def copy(self, of: Folder, paths: Sequence[str]) -> None:
        """Copy files of another folder."""
        if not isinstance(of, LocalFolder):
            carry(of, self, paths)
            return
        for path in paths:
            (self.path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(of.path / path, self.path / path)

    def held(self, paths: Sequence[str]) -> Mapping[str, Held]:
        """The files' sizes and digests; a link has what no file has, and so has a pipe, of which nothing comes."""

        def one(path: str) -> Held:
            if not stat.S_ISREG((self.path / path).lstat().st_mode):
                return 0, "no file"
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

    def making(self, last: str, parts: Sequence[str]) -> AbstractContextManager[Draft]:  # noqa: ARG002 - the rename is all
        """One beside it, which gets its name."""
        return _made_beside(self, last)

    def unfinished(self, last: str) -> str:  # noqa: ARG002 - the same
        """Nobody: it gets its name when it is whole."""
        return ""

    def discard(self, last: str, parts: Sequence[str]) -> None:
        """Nothing is left here."""

    def become(self, to: Self) -> None:
        """Get another's name, over nothing or an empty folder, in one step; durable."""
        self.path.rename(to.path)
        LocalStore(to.path.parent).sync()

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; nothing that a link to a folder leads to is in this one."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._above(path) as (folder, name):
                os.unlink(name, dir_fd=folder)

    def remove_empty(self, paths: Iterable[str]) -> None:
        """Remove folders in which nothing is."""
        for path in paths:
            with contextlib.suppress(OSError):
                if not path:
                    self.path.rmdir()
                    continue
                with self._above(path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)

    @contextlib.contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, str]]:
        """The open folder that a file is in, and its name there; raises where one on the way is a link, or none."""
        *parts, name = path.split("/")
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder, name
        finally:
            os.close(folder)

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
        if not isinstance(of, HdfsFolder):
            carry(of, self, paths)
            return
        for folder in sorted({path.rpartition("/")[0] for path in paths}):
            self._hdfs.make(self._at(folder))
        self._hdfs.copy([(of.below(path).uri, self._at(path)) for path in paths])

    def held(self, paths: Sequence[str]) -> Mapping[str, Held]:
        """The files' sizes and digests."""
        return dict(zip(paths, self._hdfs.digests([self._at(path) for path in paths]), strict=True))

    def sync(self) -> None:
        """Nothing is left to be done: what was written is on disks, and a name is durable with those behind it."""

    def making(self, last: str, parts: Sequence[str]) -> AbstractContextManager[Draft]:  # noqa: ARG002 - the rename is all
        """One beside it, which gets its name."""
        return _made_beside(self, last)

    def unfinished(self, last: str) -> str:  # noqa: ARG002 - the same
        """Nobody: it gets its name when it is whole."""
        return ""

    def discard(self, last: str, parts: Sequence[str]) -> None:
        """Nothing is left here."""

    def become(self, to: Self) -> None:
        """Get another's name, where nothing has it, in one step.

        The folder's number tells whose it is where the answer is lost.
        """
        number = self._hdfs.number(self.uri)
        to.remove_empty([""])
        try:
            self._hdfs.rename(self.uri, to.uri, over=False)
        except OSError:
            if not to.is_taken() or self._hdfs.number(to.uri) != number:
                raise
            self._hdfs.note(to.uri)  # what is seen is durable behind a change

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


Kind = TypeVar("Kind", LocalFolder, HdfsFolder)


@contextlib.contextmanager
def _made_beside(to: Kind, last: str) -> Iterator[Draft]:
    unfinished = to.beside(UNFINISHED, f"-{secrets.token_hex(4)}")

    def finish(data: bytes) -> None:
        folder, _, name = last.rpartition("/")
        unfinished.below(folder).store.replace(name, data)
        unfinished.store.sync()
        try:
            unfinished.become(to)
        except OSError:
            if to.is_taken():
                raise FileExistsError(errno.EEXIST, "something has come there meanwhile", str(to.where)) from None
            raise

    try:
        yield Draft(unfinished, finish)
    finally:
        with contextlib.suppress(OSError):  # it would hide the first error
            unfinished.remove_all()


def folder_of(store: Store) -> Folder:
    """The folder of a store."""
    if isinstance(store, HdfsStore):
        return HdfsFolder(store.files, str(store.path()))
    if isinstance(store, LocalStore):
        return LocalFolder(store.folder)
    from onceflow.checkpoint.object_folders import ObjectFolder  # noqa: PLC0415 - its library is an extra
    from onceflow.checkpoint.objects import BucketStore  # noqa: PLC0415 - the same

    if isinstance(store, BucketStore):
        return ObjectFolder(store)
    raise TypeError(f"{store} has no folder")


def carry(of: Folder, to: Folder, paths: Sequence[str]) -> None:
    """Copy files to a folder on another kind of file system: each is read as a whole and written, a few at a time."""

    def one(path: str) -> None:
        data = of.read(path)
        _, size = of.size(path)
        if len(data) != size:
            raise OSError(errno.EIO, f"{len(data)} of its {size} bytes were read", f"{of.where}/{path}")
        to.write(path, data)

    at_once(_CARRIED_AT_ONCE, one, paths)


def at_once(most: int, call: Callable[[T], R], of: Sequence[T]) -> list[R]:
    """Call it of each, so many at a time; the first that fails ends those that have not begun."""
    with ThreadPoolExecutor(most, "onceflow-files") as threads:
        done = [threads.submit(call, each) for each in of]
        try:
            return [each.result() for each in done]
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
