"""A POSIX file system: exclusive creation by a link, atomic replacement by a rename, and syncs.

Must not know: what the files hold.

A file that exists under its final name is whole: it is written beside, synced, and linked in place; ``link(2)`` fails
if the name is taken, so of two writers exactly one wins, on NFS as well. Files of a checkpoint are never written in
place, so a second name (a hard link) is as good as a copy.

Spark's own ``CheckpointFileManager`` is not used: on local files its "rename without overwrite" is an exists-check
and a rename, so of two contenders both may be told that they won, and it never syncs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

from onceflow.processes import others_may_write
from onceflow.storage.files import LEFT_AFTER_S, TEMPORARY, FileSystem, Held, How, Where, translating


class Posix(FileSystem):
    """This machine's, and what is mounted here."""

    has_folders = True
    at_once = 1
    cause = "the disk under the checkpoint is full, read-only or gone, or this user may not write there"
    mend = "the file system"
    spark: Mapping[str, str] = MappingProxyType({})
    spark_is_apart = False

    def make(self, folder: Where) -> None:
        """Make the folder, and the entry for it in its parent, durable."""
        folder = Path(folder)
        missing = [p for p in (folder, *folder.parents) if not p.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync(made.parent)
        # What is younger may be of a running driver, which nobody may disturb.
        for path in folder.glob(f"{TEMPORARY}*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > LEFT_AFTER_S:
                    _remove(path)

    def put(self, path: Where, data: bytes, *, over: bool, durable: bool = True, maker: str = "") -> None:
        """Write it beside, and give it its name."""
        path = Path(path)
        temporary = path.parent / f"{TEMPORARY}{path.name}-{uuid.uuid4().hex}"
        try:
            with translating(self, path, "write the file"), temporary.open("xb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())  # before it has its name: else a power cut leaves that and a torn record
            if over:
                temporary.rename(path)
            else:
                os.link(temporary, path)
            if durable:
                # Without its name a decision is gone after a power cut, and its rows are written again.
                _sync(path.parent)
        finally:
            _remove(temporary)

    def append(self, path: Where, data: bytes) -> None:
        """Not synced."""
        with Path(path).open("ab") as file:
            file.write(data)

    def write(self, path: Where, data: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)

    def read(self, path: Where, most: int = -1) -> bytes:
        with Path(path).open("rb") as file:
            return file.read(most)

    def names(self, folder: Where) -> list[str]:
        return [each.name for each in Path(folder).iterdir()]

    def files(self, folder: Where) -> list[str]:
        """With links to folders: what they lead to is not in this one."""
        found: list[Path] = []
        for top, folders, names in os.walk(folder):
            found += (Path(top, name) for name in names)
            found += (path for name in folders if (path := Path(top, name)).is_symlink())
        return [str(path.relative_to(folder)) for path in found]

    def count(self, folder: Where, pattern: str) -> int:
        return sum(1 for _ in Path(folder).glob(pattern))

    def size(self, path: Where) -> tuple[int, int]:
        """Of links to files the size of what they lead to."""
        top = Path(path)
        sizes = [each.stat().st_size for each in (top, *top.rglob("*")) if each.is_file()]
        return len(sizes), sum(sizes)

    def exists(self, folder: Where) -> bool:
        return Path(folder).is_dir()

    def is_file(self, path: Where) -> bool:
        return Path(path).is_file()

    def is_taken(self, path: Where) -> bool:
        """A link that leads nowhere is in the way, too."""
        return Path(path).exists() or Path(path).is_symlink()

    def copy(self, of: Self, pairs: Sequence[tuple[Where, Where]], how: How) -> None:
        """A second name is taken where one is asked for, and a copy where its file system is another one, or has none.

        A copy also where others may write to the file: they could change it later by the name that they have.
        """
        for path, to in pairs:
            Path(to).parent.mkdir(parents=True, exist_ok=True)
            if how == "linked":
                os.link(path, to)
            elif how == "copied" or not _linked(path, to):
                shutil.copyfile(path, to)

    def digests(self, paths: Sequence[Where]) -> list[Held]:
        """A link has what no file has."""
        return [_digest(Path(path)) for path in paths]

    def rename(self, path: Where, to: Where) -> None:
        """Not synced."""
        Path(path).replace(to)

    def move(self, folder: Where, to: Where) -> Where | None:
        """The entry for it is to be synced."""
        Path(folder).rename(to)
        return Path(to).parent

    def remove(self, paths: Iterable[Where], within: Where | None = None) -> None:
        for path in paths:
            if within is None:
                Path(path).unlink(missing_ok=True)
                continue
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), _above(path, within) as (folder, name):
                os.unlink(name, dir_fd=folder)

    def remove_empty(self, folders: Iterable[Where], within: Where | None = None) -> None:
        for path in folders:
            with contextlib.suppress(OSError):
                if within is None or path == within:
                    Path(path).rmdir()
                    continue
                with _above(path, within) as (folder, name):
                    os.rmdir(name, dir_fd=folder)

    def remove_all(self, paths: Sequence[Where], but: Where | None = None) -> None:
        for path in map(Path, paths):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def sync(self, folder: Where, name: str = "") -> None:
        _sync(Path(folder, name))

    def unsynced(self, folder: Where) -> Iterator[tuple[Where, Sequence[str]]]:
        return ((Path(each), names) for each, _, names in os.walk(folder))


POSIX = Posix()


def _linked(path: Where, to: Where) -> bool:
    """Give a file a second name where it may have one; whether it has."""
    about = Path(path).lstat()
    if about.st_uid != os.geteuid() or not stat.S_ISREG(about.st_mode) or others_may_write(Path(path)):
        return False
    try:
        os.link(path, to)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _above(path: Where, within: Where) -> Iterator[tuple[int, str]]:
    """The open folder that a file is in, and its name there; raises where a folder below ``within`` is a link."""
    mine = Path(path)
    folder = os.open(within, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in mine.parent.relative_to(within).parts:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder, mine.name
    finally:
        os.close(folder)


def _digest(path: Path) -> Held:
    """Of a link, and of a pipe of which nothing comes, what no file has."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return 0, "no file"
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    """Best effort: a leftover temporary file is harmless, and hiding the first error behind this one is not."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
