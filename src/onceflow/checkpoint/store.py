"""Files that two drivers may fight over: exclusive creation, atomic replacement, and syncs.

Must not know: what the files hold.

Spark's own ``CheckpointFileManager`` is not used: on local files its "rename without overwrite" is an exists-check
and a rename, so of two contenders both may be told that they won, and it never syncs.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from onceflow.checkpoint.contract import Store, content_of, failed
from onceflow.errors import ConfigurationError

_URI = re.compile(r"(file|[a-z][a-z0-9+.-]*(?=:/)):", re.IGNORECASE)
_ELSEWHERE = {"hdfs": "on HDFS", "s3": "in S3", "s3a": "in S3"}
_OBJECT_STORES = ("s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs")
_TEMPORARY = ".tmp-"
_LEFT_AFTER_S = 3600.0  # a write takes milliseconds; a clock that is wrong by less does no harm


def local_path(checkpoint: str | os.PathLike[str]) -> Path:
    """The absolute path of a checkpoint given as a path, which is taken literally, or as a ``file:`` URI.

    A path without a scheme means the local file system, also where Spark's default is another one: the
    checkpoint's place must not depend on a setting of the cluster.

    Raises:
        ConfigurationError: The scheme is one whose exclusive creation is not supported, or the text names no file here.
    """
    text = path = os.fspath(checkpoint)
    uri = _URI.match(text)
    if uri is not None:
        if uri[1].lower() in _ELSEWHERE:
            raise not_here(text)
        if uri[1].lower() != "file":
            raise _untested(text, uri[1])
        path = text[uri.end() :]
        if path.startswith("//"):
            host, _, path = path[2:].partition("/")
            path = "/" + path
            if host not in ("", "localhost"):
                raise _no_path(text, f"a file: URI names a host here, {host!r}; write three slashes: file:///...")
        if "?" in path or "#" in path:
            raise _no_path(text, "in a URI ? and # end the path; write %3F and %23, or give the path without file:")
        path = os.fsdecode(unquote_to_bytes(os.fsencode(path)))
    if "\0" in path:
        raise _no_path(text, "no file system takes a zero byte in a name")
    return Path(os.path.realpath(path))


def whereabouts(uri: str) -> str:
    """On which kind of file system a checkpoint is, in words."""
    return _ELSEWHERE.get(uri.partition(":")[0].lower(), "on a POSIX file system")


def _untested(text: str, scheme: str) -> ConfigurationError:
    why = "it is none of those that this version was tested on: file, hdfs and s3"
    if scheme.lower() in _OBJECT_STORES:
        why = "of object stores only S3 was tested, with Hadoop's connector to it"
    return ConfigurationError(
        f"a checkpoint at {scheme}:// is refused",
        cause="the journal needs a store in which exactly one of two writers can create a file. The checkpoint is "
        f"{text!r}, and {why}",
        action="give a path on a local or a shared POSIX file system that the driver sees on every host it may "
        "start on, a folder on HDFS (hdfs://nn:8020/checkpoints/alerts) or in S3 (s3://bucket/checkpoints/alerts)",
        checkpoint=text,
    )


def _no_path(text: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the checkpoint {text!r} is refused", cause=why, action="correct the checkpoint's location", checkpoint=text
    )


def file_uri(folder: Path) -> str:
    """The one ``file:`` URI of an absolute path, quoted; ``local_path`` takes it back."""
    return "file://" + quote(os.fsencode(folder))


class LocalStore:
    """One folder on a POSIX file system.

    A file that exists under its final name is whole: it is written beside, synced, and linked in place;
    ``link(2)`` fails if the name is taken, so of two writers exactly one wins, on NFS as well.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Make the folder, and the entry for it in its parent, durable."""
        with _explained(self.folder, "create the folder"):
            missing = [p for p in (self.folder, *self.folder.parents) if not p.exists()]
            self.folder.mkdir(parents=True, exist_ok=True)
            for made in missing:
                _sync(made.parent)
        self._clear_leftovers()

    @contextlib.contextmanager
    def untouched(self) -> Iterator[None]:
        """What is made inside of this folder, and of those above it, is taken away again where it is empty."""
        made = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # somebody has begun a job there meanwhile
                for folder in made:
                    with contextlib.suppress(FileNotFoundError):  # only one above it was made
                        folder.rmdir()

    def exists(self) -> bool:
        """Whether the folder is there."""
        return self.folder.is_dir()

    def below(self, name: str) -> LocalStore:
        """A folder in this one; nothing is made."""
        return type(self)(self.folder / name)

    def path(self, name: str = "") -> Path:
        """Where the file, or the folder itself, is: for messages."""
        return self.folder / name

    def create(self, name: str, data: bytes) -> None:
        """Create the file, whole and durable.

        Raises:
            FileExistsError: The name is taken.
            CheckpointStoreError: The file system failed; the file may exist or not.
        """
        temporary = self._write_beside(name, data)
        try:
            with _explained(self.path(name), "create the file", passing=FileExistsError):
                os.link(temporary, self.path(name))
                # Without its name a decision is gone after a power cut, and its rows are written again.
                _sync(self.folder)
        finally:
            _remove(temporary)

    def replace(self, name: str, data: bytes) -> None:
        """Write the file whether it exists or not; a reader sees the old content or the new, never a part."""
        temporary = self._write_beside(name, data)
        try:
            with _explained(self.path(name), "replace the file"):
                temporary.rename(self.path(name))
                _sync(self.folder)
        finally:
            _remove(temporary)

    def put(self, name: str, data: bytes) -> None:
        """As ``replace``, and not synced: for what a power cut may take."""
        temporary = self.folder / f"{_TEMPORARY}{name}-{uuid.uuid4().hex}"
        with _explained(self.path(name), "write the file"):
            temporary.write_bytes(data)
            temporary.rename(self.path(name))

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file, or make it. Not synced: for what may be lost, and where a torn end is seen."""
        with _explained(self.path(name), "write the file"), self.path(name).open("ab") as file:
            file.write(data)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, of which there may be one already. Not synced either."""
        with _explained(self.path(name), "rename the file"):
            self.path(name).replace(self.path(to))

    def read(self, name: str) -> bytes:
        """The file's content.

        Raises:
            FileNotFoundError: There is none.
            CheckpointStoreError: It cannot be read.
        """
        with _explained(self.path(name), "read the file", passing=FileNotFoundError):
            return self.path(name).read_bytes()

    def contents(self, names: Sequence[str]) -> list[bytes | None]:
        """The files' contents, in the order of the names; None for one that is not there."""
        return [content_of(self, name) for name in names]

    def names(self) -> list[str]:
        """Names of files and folders, without files being written; empty when there is no folder."""
        with _explained(self.folder, "list the folder"):
            try:
                return [p.name for p in self.folder.iterdir() if not p.name.startswith(_TEMPORARY)]
            except FileNotFoundError:
                return []

    def count(self, pattern: str) -> int:
        """How many files have a path below the folder that fits a pattern, in which ``*`` is one part of it."""
        return sum(1 for _ in self.folder.glob(pattern))

    def remove(self, name: str) -> None:
        """Remove the file if it exists."""
        with _explained(self.path(name), "remove the file"):
            self.path(name).unlink(missing_ok=True)

    def sync(self, name: str | None = None) -> None:
        """Make a file that somebody else wrote, or the folder's entries, durable. A missing file is passed over."""
        with _explained(self.folder, "sync"), contextlib.suppress(FileNotFoundError):
            _sync(self.folder if name is None else self.path(name))

    def _write_beside(self, name: str, data: bytes) -> Path:
        temporary = self.folder / f"{_TEMPORARY}{name}-{uuid.uuid4().hex}"
        try:
            with _explained(self.path(name), "write the file"), temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())  # before it has its name: else a power cut leaves the name and a torn record
        except BaseException:
            _remove(temporary)
            raise
        return temporary

    def _clear_leftovers(self) -> None:
        """Remove what a killed writer left. What is younger may be of a running driver, which nobody may disturb."""
        for path in self.folder.glob(f"{_TEMPORARY}*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _LEFT_AFTER_S:
                    _remove(path)


def local_folder(store: Store) -> Path:
    """The folder of a store on a POSIX file system, for what works on files by itself.

    Raises:
        ConfigurationError: It is another store.
    """
    if isinstance(store, LocalStore):
        return store.folder
    raise not_here(str(store.path()))


def not_here(checkpoint: str) -> ConfigurationError:
    """The refusal of a checkpoint on HDFS or in S3 by what works on files of a POSIX file system alone."""
    return ConfigurationError(
        f"this cannot be done with the checkpoint {checkpoint}: it is {whereabouts(checkpoint)}",
        harmless="always: nothing was changed",
        cause="what was asked for takes a folder of this machine's",
        action="name one on a POSIX file system; docs/stores.md says what is different on HDFS and in S3",
        checkpoint=checkpoint,
    )


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


@contextlib.contextmanager
def _explained(path: Path, doing: str, passing: type[OSError] | tuple[type[OSError], ...] = ()) -> Iterator[None]:
    try:
        yield
    except passing:
        raise
    except OSError as error:
        cause = "the disk under the checkpoint is full, read-only or gone, or this user may not write there"
        raise failed(path, doing, error.strerror or error, cause=cause, mend="the file system") from error
