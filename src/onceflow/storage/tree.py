"""A folder with all that is below it, as one thing: made whole or not at all, copied, compared, taken away.

Must not know: what the files hold, who runs the job, which file system it is.

What a savepoint, a checkpoint made of one, and a deletion need of a file system beyond one folder's store. Where there
are folders, one is made beside its place and renamed. Where there are none, it is made in its place, under the name of
one maker at a time (`making`), and its last file is created where none is: what is not whole is told from what is,
whoever died when. From one kind of file system to another files come through Python, each as a whole.

Every method raises ``OSError``, and ``FileNotFoundError`` for what is not there; whoever calls says what it means.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from onceflow.errors import OnceflowError
from onceflow.storage.files import FileSystem, Held, How, Where, at_once, within
from onceflow.storage.making import Making, is_making, making_of, read_making
from onceflow.storage.posix import POSIX
from onceflow.storage.store import Store

_CARRIED_AT_ONCE = 4
"""So many whole files are in memory."""

UNFINISHED = ".unfinished-"
"""How the name of a folder begins that is put together beside its place."""


class Folder:
    """One. Paths are those in it, with slashes.

    Args:
        where: It.
        fs: What it is on.
    """

    def __init__(self, where: Where, fs: FileSystem = POSIX) -> None:
        self.where = where
        self.fs = fs

    @property
    def store(self) -> Store:
        """The folder itself, as a store."""
        return Store(self.where, self.fs)

    @property
    def is_local(self) -> bool:
        """Whether its files are paths of this machine's, which may have second names."""
        return isinstance(self.where, Path)

    def _at(self, path: str) -> Where:
        return within(self.where, path)

    def below(self, path: str) -> Folder:
        """One in this one; nothing is made."""
        return Folder(self._at(path), self.fs)

    def beside(self, before: str, behind: str) -> Folder:
        """One beside this one, of its name between two texts; nothing is made."""
        if isinstance(self.where, Path):
            return Folder(self.where.with_name(f"{before}{self.where.name}{behind}"), self.fs)
        above, _, name = self.where.rpartition("/")
        return Folder(f"{above}/{before}{name}{behind}", self.fs)

    def is_taken(self) -> bool:
        """Whether anything has its name."""
        return self.fs.is_taken(self.where)

    def names(self, path: str = "") -> list[str]:
        """What is in a folder; nothing where there is none."""
        if not self.fs.has_folders:
            return [name for name in self.below(path).store.names() if not is_making(name)]
        try:
            return self.fs.names(self._at(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def files(self) -> list[str]:
        """The paths of all files; none where the folder is not there."""
        return [path for path in self.fs.files(self.where) if self.fs.has_folders or not is_making(path)]

    def size(self, path: str) -> tuple[int, int]:
        """How many files a file or folder is, and of how many bytes; none where it is not there."""
        return self.fs.size(self._at(path))

    def has(self, path: str) -> bool:
        """Whether the file is there."""
        return self.fs.is_file(self._at(path))

    def read(self, path: str, most: int = -1) -> bytes:
        """A file's content, or its first bytes."""
        return self.fs.read(self._at(path), most)

    def write(self, path: str, data: bytes) -> None:
        """Make a file, and the folders above it; durable behind ``sync``."""
        self.fs.write(self._at(path), data)

    def take(self, of: Folder, paths: Sequence[str]) -> None:
        """Have files of another folder as well, under the same paths: by a second name where that can be."""
        self._copy(of, paths, "shared")

    def copy(self, of: Folder, paths: Sequence[str]) -> None:
        """Copy files of another folder, so that nothing is shared."""
        self._copy(of, paths, "copied")

    def link(self, of: Folder, paths: Sequence[str]) -> None:
        """Give another folder's files a second name each; never a copy. Both are on one disk of this machine's."""
        self._copy(of, paths, "linked")

    def _copy(self, of: Folder, paths: Sequence[str], how: How) -> None:
        if self.is_like(of):
            self.fs.copy(of.fs, [(of._at(path), self._at(path)) for path in paths], how)
        else:
            _brought(of, self, paths)

    def is_like(self, other: Folder) -> bool:
        """Whether another one is on the same kind of file system."""
        return type(self.fs) is type(other.fs)

    def held(self, paths: Sequence[str]) -> Mapping[str, Held]:
        """The files' sizes and digests, as they are read now."""
        return dict(zip(paths, self.fs.digests([self._at(path) for path in paths]), strict=True))

    def sync(self) -> None:
        """Make all of it durable."""
        for folder, names in self.fs.unsynced(self.where):
            store = Store(folder, self.fs)
            for name in (*names, None):
                store.sync(name)

    def become(self, to: Folder) -> None:
        """Get another's name, over nothing or an empty folder, in one step; durable."""
        changed = self.fs.move(self.where, to.where)
        if changed is not None:
            Store(changed, self.fs).sync()

    def making(self, last: str, parts: Sequence[str]) -> AbstractContextManager[Draft]:
        """Make it, whole or not at all, and only where nothing, or nothing but an empty folder, is.

        Of what was not finished nothing is left behind, as far as that can be done.

        Args:
            last: The file without which nobody takes the folder for what it is.
            parts: Names of all that is put there besides.

        Raises:
            FileExistsError: Something is there, or somebody else makes it.
        """
        return _made_beside(self, last) if self.fs.has_folders else _made_in_place(self, last, parts)

    def unfinished(self, last: str) -> str:
        """Who makes it and has not finished, perhaps because he is dead, in words; "" where nobody.

        Where there are folders nobody is told: it gets its name when it is whole.
        """
        return "" if self.fs.has_folders else _unfinished(self, last)

    def discard(self, last: str, parts: Sequence[str]) -> None:
        """Remove what one has left who has not finished. If he lives, he is told so.

        Raises:
            FileExistsError: He has finished at this moment; it is whole, and stays.
        """
        if not self.fs.has_folders:
            _discard(self, last, parts)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; those that are not there are passed over. What a link to a folder leads to is not in here."""
        self.fs.remove([self._at(path) for path in paths], self.where)

    def remove_empty(self, paths: Iterable[str]) -> None:
        """Remove folders in which nothing is, in this order; "" is the folder itself. Others stay."""
        self.fs.remove_empty([self._at(path) for path in paths], self.where)

    def remove_all(self, path: str = "") -> None:
        """Remove a file, or a folder with all that is in it; nothing where none is."""
        self.fs.remove_all([self._at(path)])


def folder_of(store: Store) -> Folder:
    """The folder of a store."""
    return Folder(store.folder, store.fs)


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


def _of(folder: Folder, last: str) -> tuple[Store, str]:
    """The folder that a file is in, and its name there."""
    above, _, name = last.rpartition("/")
    return folder.below(above).store, name


@contextlib.contextmanager
def _made_beside(to: Folder, last: str) -> Iterator[Draft]:
    unfinished = to.beside(UNFINISHED, f"-{secrets.token_hex(4)}")

    def finish(data: bytes) -> None:
        store, name = _of(unfinished, last)
        store.replace(name, data)
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


@contextlib.contextmanager
def _made_in_place(to: Folder, last: str, parts: Sequence[str]) -> Iterator[Draft]:
    """The folder itself, of which nobody else may make one meanwhile."""
    store, name = _of(to, last)
    mine = _begun(to, last)
    is_whole = False

    def finish(data: bytes) -> None:
        nonlocal is_whole
        found = read_making(store, name)
        if found is None or found.id != mine.id:
            raise FileExistsError(errno.EEXIST, "somebody has removed what was made here so far", to.where)
        try:
            store.create(name, data, maker=mine.id)
        except FileExistsError:
            raise _taken(to, last) from None
        is_whole = True

    try:
        yield Draft(to, finish)
    finally:
        if not is_whole:
            with contextlib.suppress(OSError, OnceflowError):  # it would hide the first error
                with contextlib.suppress(FileExistsError):  # where it was taken away, and nobody else has come
                    store.create(making_of(name), mine.dumps())
                found = read_making(store, name)
                if found is not None and found.id == mine.id:
                    to.discard(last, parts)


def _begun(to: Folder, last: str) -> Making:
    """Say that it is being made here."""
    store, name = _of(to, last)
    store.make()
    if to.is_taken():
        raise _taken(to, last)
    mine = Making.begin()
    try:
        store.create(making_of(name), mine.dumps())
    except FileExistsError:
        raise _taken(to, last) from None
    # Whoever begins a job here writes its name and then looks for a maker: one of the two sees the other.
    if to.files():
        store.remove(making_of(name))
        raise _taken(to, last)
    return mine


def _taken(to: Folder, last: str) -> FileExistsError:
    who = to.unfinished(last)
    return FileExistsError(errno.EEXIST, f"{who} makes it" if who else "something is there", to.where)


def _unfinished(folder: Folder, last: str) -> str:
    store, name = _of(folder, last)
    making, maker = read_making(store, name), store.maker(name)
    if making is None:
        # Its maker was ended by one who has removed what it had made, and has written the last file even so.
        return "somebody who has ended" if maker else ""
    # Through a disk a copy loses whom a file names; who has the last one has them all.
    return "" if maker in ("", making.id) else str(making)


def _discard(folder: Folder, last: str, parts: Sequence[str]) -> None:
    store, name = _of(folder, last)
    before = read_making(store, name)
    store.replace(making_of(name), Making.begin().dumps())  # from here on it has another maker
    if before is not None and store.maker(name) == before.id:
        store.replace(making_of(name), before.dumps())
        raise FileExistsError(errno.EEXIST, "it was finished at this moment", folder.where)
    store.remove(name)
    # His word goes last; if he lives, what he writes from here on is not whole.
    folder.fs.remove_all([folder.below(part).where for part in parts], but=store.path(making_of(name)))
    store.remove(making_of(name))


def _brought(of: Folder, to: Folder, paths: Sequence[str]) -> None:
    """Copy files to a folder on another kind of file system: each is read as a whole and written, a few at a time."""

    def one(path: str) -> None:
        data = of.read(path)
        _, size = of.size(path)
        if len(data) != size:
            raise OSError(errno.EIO, f"{len(data)} of its {size} bytes were read", f"{of.where}/{path}")
        to.write(path, data)

    at_once(_CARRIED_AT_ONCE, one, paths)
